//! What was wrong with a command line, in docker's words where docker has some.

use crate::table::{Command, spelled};
use std::ffi::OsStr;

/// A command line that its table does not allow. Displays as one line; [`UsageError::hint`] is the line below it.
#[derive(Debug, thiserror::Error)]
#[error("{fault}")]
pub struct UsageError {
    path: Vec<&'static Command>,
    fault: Box<Fault>,
    advice: Option<String>,
}

/// What was wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No option has this name, `--foo`.
    #[error("unknown flag: {0}")]
    UnknownFlag(String),
    /// No option has this letter; the cluster is what was left of the argument.
    #[error("unknown shorthand flag: '{letter}' in -{cluster}")]
    UnknownShorthand {
        /// The letter.
        letter: String,
        /// The letters from there on.
        cluster: String,
    },
    /// `--=x` or `---x`.
    #[error("bad flag syntax: {0}")]
    BadSyntax(String),
    /// The command line ended where a value was due: `--name`, or `'m' in -m`.
    #[error("flag needs an argument: {0}")]
    NeedsArgument(String),
    /// A value that is not what the option takes.
    #[error("invalid argument {value:?} for {flag:?} flag: {reason}")]
    InvalidValue {
        /// What was given.
        value: String,
        /// `-t, --tty`.
        flag: String,
        /// Why not: `expected true or false`.
        reason: String,
    },
    /// A positional that is not what the command takes.
    #[error("invalid {name} {value:?}: {reason}")]
    InvalidPositional {
        /// Its name in the table.
        name: String,
        /// What was given.
        value: String,
        /// Why not.
        reason: String,
    },
    /// Two options that contradict each other.
    #[error("conflicting options: cannot specify both {0} and {1}")]
    Conflict(String, String),
    /// No command has this name.
    #[error("'{name}' is not a {group} command.")]
    UnknownCommand {
        /// The word.
        name: String,
        /// The commands before it, `tote image`.
        group: String,
    },
    /// Too few or too many positionals.
    #[error("\"{command}\" {expected}.")]
    Positionals {
        /// `tote run`.
        command: String,
        /// `requires at least 1 argument`.
        expected: String,
    },
}

impl UsageError {
    pub(crate) fn new(path: &[&'static Command], fault: Fault, advice: Option<String>) -> Self {
        Self {
            path: path.to_vec(),
            fault: Box::new(fault),
            advice,
        }
    }

    /// The commands that were recognised before the fault, from the root on.
    #[must_use]
    pub fn path(&self) -> &[&'static Command] {
        &self.path
    }

    /// What was wrong.
    #[must_use]
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// What to do about it, one line: `did you mean --rm? see 'tote run --help'`.
    #[must_use]
    pub fn hint(&self) -> String {
        let see = format!("see '{} --help'", spelled(&self.path));
        match &self.advice {
            Some(advice) => format!("{advice} {see}"),
            None => see,
        }
    }

    /// `tote run [OPTIONS] IMAGE [COMMAND] [ARG...]`, the first form where there are several.
    #[must_use]
    pub fn usage(&self) -> String {
        let usage = self
            .path
            .last()
            .and_then(|command| command.usage.lines().next())
            .unwrap_or_default();
        format!("{} {usage}", spelled(&self.path)).trim_end().to_owned()
    }
}

/// For messages: not UTF-8 and control characters become visible, so that an argument cannot drive the terminal.
pub(crate) fn printable(argument: &OsStr) -> String {
    let mut shown = String::new();
    for character in argument.to_string_lossy().chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}
