//! A command line that fits its table.

use crate::error::{Fault, UsageError, printable};
use crate::table::{Command, HELP, Kind, Opt, spelled};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::str::FromStr;

/// A command line that fits its table. Options are asked for by their long name; asking for one that no command on the
/// path has is a mistake in the program, which debug builds stop at.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub(crate) command: &'static Command,
    pub(crate) path: Vec<&'static Command>,
    pub(crate) values: Vec<(&'static Opt, OsString)>,
    pub(crate) positionals: Vec<OsString>,
}

impl Parsed {
    /// The commands from the root on, `tote`, `image`, `ls`.
    #[must_use]
    pub fn path(&self) -> &[&'static Command] {
        &self.path
    }

    /// The command itself: the last of [`Parsed::path`]. It is a group where no command of the group was named.
    #[must_use]
    pub fn command(&self) -> &'static Command {
        self.command
    }

    /// Options and their values in the order given; a flag's value is `true` or `false`.
    #[must_use]
    pub fn values(&self) -> &[(&'static Opt, OsString)] {
        &self.values
    }

    /// What was given besides options, in order.
    #[must_use]
    pub fn positionals(&self) -> &[OsString] {
        &self.positionals
    }

    /// The option that stands for the first positional, where one was given.
    #[must_use]
    pub fn first_is_named_by(&self) -> Option<&'static Opt> {
        let on = |(opt, value): &&(&'static Opt, OsString)| opt.names_first && value == "true";
        self.values.iter().find(on).map(|(opt, _)| *opt)
    }

    /// Puts the word in front of the positionals that [`Parsed::first_is_named_by`] stands for.
    pub fn put_first(&mut self, word: OsString) {
        self.positionals.insert(0, word);
    }

    /// The options and values that are the command's own, without those of commands before it.
    pub fn own_values(&self) -> impl Iterator<Item = (&'static Opt, &OsStr)> {
        let is_own = |opt: &Opt| self.command.own_options().any(|own| std::ptr::eq(own, opt));
        let values = self.values.iter().filter(move |(opt, _)| is_own(opt));
        values.map(|(opt, value)| (*opt, value.as_os_str()))
    }

    /// The positionals, to keep.
    #[must_use]
    pub fn into_positionals(self) -> Vec<OsString> {
        self.positionals
    }

    /// Whether help was asked for; then nothing else was checked.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.flag(HELP.long)
    }

    /// Whether that flag is on.
    #[must_use]
    pub fn flag(&self, long: &str) -> bool {
        self.value(long).is_some_and(|value| value == "true")
    }

    /// The value given for that option, the last where it was given more than once.
    #[must_use]
    pub fn value(&self, long: &str) -> Option<&OsStr> {
        self.all(long).next_back()
    }

    /// Every value given for that option, in order.
    pub fn all(&self, long: &str) -> impl DoubleEndedIterator<Item = &OsStr> {
        debug_assert!(self.opt(long).is_some(), "no table on the path has --{long}");
        self.values
            .iter()
            .filter(move |(opt, _)| opt.long == long)
            .map(|(_, value)| value.as_os_str())
    }

    /// The value given for that option, else that of its environment variable if not empty, else its default.
    #[must_use]
    pub fn setting(&self, long: &str) -> Option<Cow<'_, OsStr>> {
        if let Some(value) = self.value(long) {
            return Some(value.into());
        }
        let opt = self.opt(long)?;
        let from_environment = opt
            .env
            .and_then(std::env::var_os)
            .filter(|value| !value.is_empty());
        match from_environment {
            Some(value) => Some(value.into()),
            None => (!opt.default.is_empty()).then(|| OsStr::new(opt.default).into()),
        }
    }

    /// As [`Parsed::value`], as text.
    ///
    /// # Errors
    /// The value is not UTF-8.
    pub fn text(&self, long: &str) -> Result<Option<&str>, UsageError> {
        self.value(long)
            .map(|value| self.as_text(long, value))
            .transpose()
    }

    /// As [`Parsed::all`], as text.
    ///
    /// # Errors
    /// A value is not UTF-8.
    pub fn texts(&self, long: &str) -> Result<Vec<&str>, UsageError> {
        self.all(long).map(|value| self.as_text(long, value)).collect()
    }

    /// The value given for that option as `convert` understands it.
    ///
    /// # Errors
    /// The value is not UTF-8, or `convert` said why it is wrong.
    pub fn converted<T, E: Display>(
        &self,
        long: &str,
        convert: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, UsageError> {
        let Some(value) = self.text(long)? else {
            return Ok(None);
        };
        convert(value)
            .map(Some)
            .map_err(|reason| self.invalid(long, OsStr::new(value), &reason.to_string()))
    }

    /// The value given for that option as a number or anything else that text converts to.
    ///
    /// # Errors
    /// The value does not convert.
    pub fn number<T: FromStr<Err: Display>>(&self, long: &str) -> Result<Option<T>, UsageError> {
        self.converted(long, str::parse)
    }

    /// The error for a value of that option which is wrong for `reason`.
    #[must_use]
    pub fn invalid(&self, long: &str, value: &OsStr, reason: &str) -> UsageError {
        let flag = self.opt(long).map_or_else(|| format!("--{long}"), spelled_flag);
        let fault = Fault::InvalidValue {
            value: printable(value),
            flag,
            reason: reason.to_owned(),
        };
        UsageError::new(&self.path, fault, None)
    }

    /// The positional at that place as text.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub fn positional_text(&self, at: usize) -> Result<Option<&str>, UsageError> {
        let Some(value) = self.positionals.get(at) else {
            return Ok(None);
        };
        value
            .to_str()
            .map(Some)
            .ok_or_else(|| self.invalid_positional(at, "not valid UTF-8"))
    }

    /// The error for the positional at that place which is wrong for `reason`.
    #[must_use]
    pub fn invalid_positional(&self, at: usize, reason: &str) -> UsageError {
        let table = self.command().positionals;
        let name = table
            .get(at)
            .or(table.last())
            .map_or("argument", |positional| positional.name);
        let value = self
            .positionals
            .get(at)
            .map(|value| printable(value))
            .unwrap_or_default();
        let fault = Fault::InvalidPositional {
            name: name.to_owned(),
            value,
            reason: reason.to_owned(),
        };
        UsageError::new(&self.path, fault, None)
    }

    /// The error for two options that contradict each other.
    #[must_use]
    pub fn conflict(&self, one: &str, other: &str) -> UsageError {
        let fault = Fault::Conflict(format!("--{one}"), format!("--{other}"));
        UsageError::new(&self.path, fault, None)
    }

    /// The usage error for fewer words than these, where the table cannot say that so many are needed.
    #[must_use]
    pub fn too_few_words(&self, least: usize) -> UsageError {
        let expected = format!(
            "requires at least {least} argument{}",
            if least == 1 { "" } else { "s" }
        );
        let fault = Fault::Positionals {
            command: spelled(&self.path),
            expected,
        };
        UsageError::new(&self.path, fault, None)
    }

    fn as_text<'a>(&self, long: &str, value: &'a OsStr) -> Result<&'a str, UsageError> {
        value
            .to_str()
            .ok_or_else(|| self.invalid(long, value, "not valid UTF-8"))
    }

    fn opt(&self, long: &str) -> Option<&'static Opt> {
        self.path.iter().find_map(|command| command.long(long))
    }

    /// Notes a flag's state or an option's value.
    pub(crate) fn push(&mut self, opt: &'static Opt, value: OsString) -> Result<(), UsageError> {
        let value = match opt.kind {
            Kind::Flag | Kind::Halt => match value.to_str().and_then(as_bool) {
                Some(on) => OsString::from(if on { "true" } else { "false" }),
                None => return Err(self.invalid(opt.long, &value, "expected true or false")),
            },
            Kind::Value { .. } | Kind::List { .. } | Kind::OptionalValue { .. } => value,
        };
        self.values.push((opt, value));
        Ok(())
    }
}

/// What Go's ParseBool takes.
fn as_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// `-t, --tty`.
fn spelled_flag(opt: &Opt) -> String {
    match opt.short {
        Some(letter) => format!("-{letter}, --{}", opt.long),
        None => format!("--{}", opt.long),
    }
}
