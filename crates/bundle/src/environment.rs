//! The environment of a container: how `--env` and `--env-file` are merged with the image's variables and the
//! defaults.

use crate::value::{BooleanError, EmptyError, not_empty, parse_boolean};
use std::collections::HashMap;

/// `--env` and `--env-file`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvOptions {
    /// `--env`, in order.
    pub entries: Vec<EnvEntry>,
    /// `--env-file`: paths as written; the caller reads each and gives its text to [`Self::add_file`].
    pub files: Vec<String>,
    /// Variables that the files set, in order. Those of `--env` win over these, wherever `--env` stands.
    pub file_entries: Vec<EnvEntry>,
}

/// Options that decide with which variables an environment begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvBase {
    /// `--unsetenv`: variables that are removed from the defaults and the image's.
    pub unset: Vec<String>,
    /// `--unsetenv-all`: only the variables that options set are kept.
    pub unset_all: bool,
    /// `--env-host`: the caller puts its own environment into [`Self::of_host`].
    pub host: bool,
    /// `NAME=value` each. Every other source of a variable wins over these.
    pub of_host: Vec<String>,
}

/// A single `--env`, or a line of an `--env-file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvEntry {
    /// `NAME=value`, whole.
    Set(String),
    /// `NAME` alone: the value comes from the caller's environment.
    Inherit(String),
}

/// Why an option or a line about the environment is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// The text is neither true nor false.
    #[error(transparent)]
    Boolean(#[from] BooleanError),
    /// The text is empty.
    #[error(transparent)]
    Empty(#[from] EmptyError),
    /// `--env` without a name.
    #[error("invalid environment variable: {0}: give NAME=VALUE, or NAME to pass on the caller's")]
    Name(String),
    /// A line of a file without a name.
    #[error("no variable name on line '{0}': give NAME=VALUE")]
    LineName(String),
    /// A line of a file with white space in the name.
    #[error("variable '{0}' contains whitespaces: give NAME=VALUE without spaces before the =")]
    Whitespace(String),
    /// A NUL byte, which no environment can hold.
    #[error("line {0} has a NUL byte, which no environment variable can hold")]
    Nul(usize),
}

impl EnvOptions {
    /// Applies the option; returns whether its name was `env` or `env-file`.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<bool, EnvError> {
        match name {
            "env" => self.entries.push(EnvEntry::parse(value)?),
            "env-file" => self.files.push(not_empty(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes the text of a file given with `--env-file`.
    ///
    /// # Errors
    /// [`EnvError`] holds the line.
    pub fn add_file(&mut self, text: &str) -> Result<(), EnvError> {
        self.file_entries.extend(parse_env_file(text)?);
        Ok(())
    }

    /// Iterates over all entries: those of files, then those of `--env`. A later entry wins over an earlier one.
    pub fn iter(&self) -> impl Iterator<Item = &EnvEntry> {
        self.file_entries.iter().chain(&self.entries)
    }
}

impl EnvBase {
    /// Applies the option; returns whether its name belongs to this group.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<bool, EnvError> {
        match name {
            "unsetenv" => self.unset.push(not_empty(value)?),
            "unsetenv-all" => self.unset_all = parse_boolean(value)?,
            "env-host" => self.host = parse_boolean(value)?,
            "host-env" => self.of_host.push(value.to_owned()),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl EnvEntry {
    /// Parses `--env`.
    ///
    /// # Errors
    /// [`EnvError::Name`] if the name is empty; every other text is taken as it is.
    pub fn parse(text: &str) -> Result<Self, EnvError> {
        match text.split_once('=') {
            Some((name, _)) if !name.is_empty() => Ok(Self::Set(text.to_owned())),
            None if !text.is_empty() => Ok(Self::Inherit(text.to_owned())),
            _ => Err(EnvError::Name(text.to_owned())),
        }
    }
}

/// Parses the text of an `--env-file`: one variable a line. Blank lines and lines that begin with `#` are skipped,
/// white space before the name is dropped, everything after `=` is kept.
///
/// # Errors
/// [`EnvError`] holds the line or the name.
pub fn parse_env_file(text: &str) -> Result<Vec<EnvEntry>, EnvError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.contains('\0') {
            return Err(EnvError::Nul(number));
        }
        let (name, value) = line
            .split_once('=')
            .map_or((line, None), |(name, value)| (name, Some(value)));
        if name.is_empty() {
            return Err(EnvError::LineName(line.to_owned()));
        }
        if name.contains([' ', '\t']) {
            return Err(EnvError::Whitespace(name.to_owned()));
        }
        entries.push(match value {
            Some(_) => EnvEntry::Set(line.to_owned()),
            None => EnvEntry::Inherit(line.to_owned()),
        });
    }
    Ok(entries)
}

/// An environment under construction: a later value takes the place of an earlier one of the same name.
///
/// The index keeps an image with a great many variables from costing the square of their number.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    entries: Vec<Option<String>>,
    index: HashMap<String, usize>,
}

impl Environment {
    /// Sets a variable from a whole `NAME=value`. A text without `=` removes that name, as docker does with an
    /// image's.
    pub(crate) fn set(&mut self, entry: String) {
        let Some((name, _)) = entry.split_once('=') else {
            return self.remove(&entry);
        };
        match self.index.get(name) {
            Some(at) => self.entries[*at] = Some(entry),
            None => {
                self.index.insert(name.to_owned(), self.entries.len());
                self.entries.push(Some(entry));
            }
        }
    }

    /// Sets the variables of the options; `inherited` looks a name up in the caller's own environment.
    pub(crate) fn set_all(&mut self, options: &EnvOptions, inherited: &dyn Fn(&str) -> Option<String>) {
        for entry in &options.file_entries {
            match entry {
                EnvEntry::Set(entry) => self.set(entry.clone()),
                EnvEntry::Inherit(name) => {
                    if let Some(value) = inherited(name) {
                        self.set(format!("{name}={value}"));
                    }
                }
            }
        }
        for entry in &options.entries {
            match entry {
                EnvEntry::Set(entry) => self.set(entry.clone()),
                // docker treats a name without a value differently here than in a file: if the caller lacks the
                // variable, it is removed.
                EnvEntry::Inherit(name) => match inherited(name) {
                    Some(value) => self.set(format!("{name}={value}")),
                    None => self.remove(name),
                },
            }
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(at) = self.index.remove(name) {
            self.entries[at] = None;
        }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    pub(crate) fn into_vec(self) -> Vec<String> {
        self.entries.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, proptest};

    fn set(text: &str) -> EnvEntry {
        EnvEntry::Set(text.to_owned())
    }

    #[test]
    fn options() {
        assert_eq!(EnvEntry::parse("A=b=c"), Ok(set("A=b=c")));
        assert_eq!(EnvEntry::parse("A="), Ok(set("A=")));
        assert_eq!(EnvEntry::parse("a b=c"), Ok(set("a b=c")));
        assert_eq!(EnvEntry::parse("A"), Ok(EnvEntry::Inherit("A".to_owned())));
        for text in ["", "=", "=a"] {
            assert_eq!(EnvEntry::parse(text), Err(EnvError::Name(text.to_owned())));
        }
    }

    #[test]
    fn files() {
        let text = "\u{feff}A=1\r\n\n  # note\n  B= two words \nC\nD=#no comment\n";
        let entries = [
            set("A=1"),
            set("B= two words "),
            EnvEntry::Inherit("C".to_owned()),
            set("D=#no comment"),
        ];
        assert_eq!(parse_env_file(text).as_deref(), Ok(entries.as_slice()));
        assert_eq!(
            parse_env_file("A=1\n=x"),
            Err(EnvError::LineName("=x".to_owned()))
        );
        assert_eq!(
            parse_env_file("A B=x"),
            Err(EnvError::Whitespace("A B".to_owned()))
        );
        assert_eq!(parse_env_file("\nA=\0"), Err(EnvError::Nul(2)));
    }

    #[test]
    fn later_values_replace_in_place() {
        let mut environment = Environment::default();
        for entry in ["A=1", "AB=2", "A=3", "C=4", "C", "D=5", "D", "D=6"] {
            environment.set(entry.to_owned());
        }
        assert!(environment.contains("AB") && !environment.contains("C"));
        assert_eq!(environment.into_vec(), ["A=3", "AB=2", "D=6"]);
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _parsed = (EnvEntry::parse(&text).is_ok(), parse_env_file(&text).is_ok());
        }
    }
}
