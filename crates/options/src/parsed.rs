//! Command lines that fit their table.

use crate::error::{Fault, UsageError, printable};
use crate::table::{Command, HELP, Kind, Opt, passes, spelled};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::process::ExitCode;
use std::str::FromStr;

/// A command line that fits its table. Options are looked up by their long name; a look-up of an option that no
/// command on the path has is a mistake in the program, at which debug builds panic.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub(crate) command: &'static Command,
    pub(crate) path: Vec<&'static Command>,
    pub(crate) values: Vec<(&'static Opt, OsString)>,
    pub(crate) positionals: Vec<OsString>,
}

impl Parsed {
    /// Carries out the command, and returns its exit code.
    #[must_use]
    pub fn execute(&self) -> ExitCode {
        (self.command.action)(self)
    }

    /// Returns the command's name, for texts: its row alone decides what the command does.
    pub fn name(&self) -> impl Display + use<> {
        self.command.name
    }

    /// Returns the summary of the command.
    #[must_use]
    pub fn about(&self) -> &'static str {
        self.command.about
    }

    /// True if the command line names a group, and no command of it.
    #[must_use]
    pub fn is_group(&self) -> bool {
        !self.command.subcommands.is_empty()
    }

    /// Returns the table that the command line was parsed by.
    #[must_use]
    pub fn root(&self) -> &'static Command {
        self.path.first().copied().unwrap_or(self.command)
    }

    /// True for that command and for those below it.
    #[must_use]
    pub fn is_below(&self, command: &'static Command) -> bool {
        passes(&self.path, command)
    }

    /// True if the command has that option itself, which one before it may have instead.
    #[must_use]
    pub fn takes(&self, long: &str) -> bool {
        self.command.own_options().any(|opt| opt.long == long)
    }

    /// Returns options and their values in the order given; a flag's value is `true` or `false`.
    #[must_use]
    pub fn values(&self) -> &[(&'static Opt, OsString)] {
        &self.values
    }

    /// Returns the words given besides options, in order.
    #[must_use]
    pub fn positionals(&self) -> &[OsString] {
        &self.positionals
    }

    /// Returns the option that stands for the first positional, if one was given.
    #[must_use]
    pub fn first_is_named_by(&self) -> Option<&'static Opt> {
        let on = |(opt, value): &&(&'static Opt, OsString)| opt.names_first && value == "true";
        self.values.iter().find(on).map(|(opt, _)| *opt)
    }

    /// Puts the word in front of the positionals, when [`Parsed::first_is_named_by`] stands for the first.
    pub fn put_first(&mut self, word: OsString) {
        self.positionals.insert(0, word);
    }

    /// Returns the command's own options and values, without those of commands before it.
    pub fn own_values(&self) -> impl Iterator<Item = (&'static Opt, &OsStr)> {
        let is_own = |opt: &Opt| self.command.own_options().any(|own| std::ptr::eq(own, opt));
        let values = self.values.iter().filter(move |(opt, _)| is_own(opt));
        values.map(|(opt, value)| (*opt, value.as_os_str()))
    }

    /// True if help was asked for; then nothing else was checked.
    #[must_use]
    pub fn wants_help(&self) -> bool {
        self.flag(HELP.long)
    }

    /// True if that flag is on.
    #[must_use]
    pub fn flag(&self, long: &str) -> bool {
        self.value(long).is_some_and(|value| value == "true")
    }

    /// Returns the value given for that option; the last one if it was given more than once.
    #[must_use]
    pub fn value(&self, long: &str) -> Option<&OsStr> {
        self.all(long).next_back()
    }

    /// Returns every value given for that option, in order.
    pub fn all(&self, long: &str) -> impl DoubleEndedIterator<Item = &OsStr> {
        debug_assert!(self.opt(long).is_some(), "no table on the path has --{long}");
        self.values
            .iter()
            .filter(move |(opt, _)| opt.long == long)
            .map(|(_, value)| value.as_os_str())
    }

    /// Returns the value given for that option, else that of its environment variable if not empty, else its default.
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

    /// Does [`Parsed::value`], as text.
    ///
    /// # Errors
    /// The value is not UTF-8.
    pub fn text(&self, long: &str) -> Result<Option<&str>, UsageError> {
        self.value(long)
            .map(|value| self.as_text(long, value))
            .transpose()
    }

    /// Does [`Parsed::all`], as text.
    ///
    /// # Errors
    /// A value is not UTF-8.
    pub fn texts(&self, long: &str) -> Result<Vec<&str>, UsageError> {
        self.all(long).map(|value| self.as_text(long, value)).collect()
    }

    /// Returns the value given for that option, converted by `convert`.
    ///
    /// # Errors
    /// The value is not UTF-8, or `convert` returned an error.
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

    /// Returns the value given for that option as a number or another type that text converts to.
    ///
    /// # Errors
    /// The value does not convert.
    pub fn number<T: FromStr<Err: Display>>(&self, long: &str) -> Result<Option<T>, UsageError> {
        self.converted(long, str::parse)
    }

    /// Makes the error for a value of that option which is wrong for `reason`.
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

    /// Returns the positional at that index as text.
    ///
    /// # Errors
    /// The positional is not UTF-8.
    pub fn positional_text(&self, at: usize) -> Result<Option<&str>, UsageError> {
        let Some(value) = self.positionals.get(at) else {
            return Ok(None);
        };
        value
            .to_str()
            .map(Some)
            .ok_or_else(|| self.invalid_positional(at, "not valid UTF-8"))
    }

    /// Makes the error for the positional at that index which is wrong for `reason`.
    #[must_use]
    pub fn invalid_positional(&self, at: usize, reason: &str) -> UsageError {
        let table = self.command.positionals;
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

    /// Makes the error for two options that contradict each other.
    #[must_use]
    pub fn conflict(&self, one: &str, other: &str) -> UsageError {
        let fault = Fault::Conflict(format!("--{one}"), format!("--{other}"));
        UsageError::new(&self.path, fault, None)
    }

    /// Makes the error for fewer words than `least`, if the table cannot express that number.
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

/// Parses what Go's ParseBool takes.
fn as_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Formats an option's names, `-t, --tty`.
fn spelled_flag(opt: &Opt) -> String {
    match opt.short {
        Some(letter) => format!("-{letter}, --{}", opt.long),
        None => format!("--{}", opt.long),
    }
}
