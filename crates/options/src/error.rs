//! Faults of command lines, in docker's words where docker has some.

use crate::table::{Command, passes, spelled};
use std::ffi::OsStr;

/// Error for a command line that its table does not allow. Displays as one line; [`UsageError::hint`] is the line
/// below it.
#[derive(Debug, thiserror::Error)]
#[error("{fault}")]
pub struct UsageError {
    path: Vec<&'static Command>,
    fault: Box<Fault>,
    advice: Option<String>,
}

/// Fault of a command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The command has no option with this name, `--foo`.
    #[error("unknown flag: {0}")]
    UnknownFlag(String),
    /// The command has no option with this letter.
    #[error("unknown shorthand flag: '{letter}' in -{cluster}")]
    UnknownShorthand {
        /// Unknown letter.
        letter: String,
        /// Letters of the argument from there on.
        cluster: String,
    },
    /// The option has an invalid form, `--=x` or `---x`.
    #[error("bad flag syntax: {0}")]
    BadSyntax(String),
    /// The command line ends where a value is due: `--name`, or `'m' in -m`.
    #[error("flag needs an argument: {0}")]
    NeedsArgument(String),
    /// The option does not take this value.
    #[error("invalid argument {value:?} for {flag:?} flag: {reason}")]
    InvalidValue {
        /// Given value.
        value: String,
        /// Spelling of the option, `-t, --tty`.
        flag: String,
        /// Reason: `expected true or false`.
        reason: String,
    },
    /// The command does not take this positional.
    #[error("invalid {name} {value:?}: {reason}")]
    InvalidPositional {
        /// Name in the table.
        name: String,
        /// Given value.
        value: String,
        /// Reason.
        reason: String,
    },
    /// Two options contradict each other.
    #[error("conflicting options: cannot specify both {0} and {1}")]
    Conflict(String, String),
    /// The group has no command with this name.
    #[error("'{name}' is not a {group} command.")]
    UnknownCommand {
        /// Given word.
        name: String,
        /// Commands before it, `tote image`.
        group: String,
    },
    /// The command got too few or too many positionals.
    #[error("\"{command}\" {expected}.")]
    Positionals {
        /// Name of the command, `tote run`.
        command: String,
        /// Rule of the command, `requires at least 1 argument`.
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

    /// True if that command, or one below it, was recognised before the fault.
    #[must_use]
    pub fn is_below(&self, command: &'static Command) -> bool {
        passes(&self.path, command)
    }

    /// Returns the fault.
    #[must_use]
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Returns advice in one line: `did you mean --rm? see 'tote run --help'`.
    #[must_use]
    pub fn hint(&self) -> String {
        let see = format!("see '{} --help'", spelled(&self.path));
        match &self.advice {
            Some(advice) => format!("{advice} {see}"),
            None => see,
        }
    }

    /// Returns the usage, `tote run [OPTIONS] IMAGE [COMMAND] [ARG...]`; the first form if there are several.
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

/// Makes invalid UTF-8 and control characters of an argument visible, so that a message cannot drive the terminal.
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
