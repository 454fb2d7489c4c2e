//! Reasons for which a file is kept.

use std::fmt;
use std::time::Duration;

/// Reason for which an object of a root is needed. Paths have no leading slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A process used it.
    Used(Use),
    /// The caller asked for it, by this option.
    Included(Box<str>),
    /// Program that the image runs.
    Command,
    /// An ELF file links against it.
    Needed(Box<[u8]>),
    /// Interpreter of that program.
    Interpreter(Box<[u8]>),
    /// The text of that ELF file or shell script has its name.
    Named(Box<[u8]>),
    /// Link that leads to that object.
    Link(Box<[u8]>),
    /// A rule of this name keeps it, for that file; for an empty path, always.
    Rule(&'static str, Box<[u8]>),
    /// File without content: programs look whether it is there.
    Empty,
    /// Link that leads out of the image's files.
    Outside,
}

/// Use of a file by a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Process, as its container numbers it; 0 if that is not known.
    pub pid: u32,
    /// Its name.
    pub program: Box<str>,
    /// Time since the start of the run.
    pub at: Duration,
    /// Number of the run, from 1.
    pub run: u32,
}

impl Reason {
    /// Returns the kind of the reason in one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Used(_) => "traced",
            Self::Included(_) => "included",
            Self::Command => "command",
            Self::Needed(_) => "needed",
            Self::Interpreter(_) => "interpreter",
            Self::Named(_) => "named",
            Self::Link(_) => "link",
            Self::Rule(..) => "rule",
            Self::Empty => "empty",
            Self::Outside => "outside",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |path: &[u8]| format!("/{}", path.escape_ascii());
        match self {
            Self::Used(how) => {
                write!(
                    f,
                    "traced by PID {} ({}) at {:.3} s",
                    how.pid,
                    how.program,
                    how.at.as_secs_f64()
                )?;
                match how.run {
                    0 | 1 => Ok(()),
                    run => write!(f, " of run {run}"),
                }
            }
            Self::Included(option) => write!(f, "included by {option}"),
            Self::Command => f.write_str("the image's command"),
            Self::Needed(by) => write!(f, "needed by {}", text(by)),
            Self::Interpreter(of) => write!(f, "interpreter of {}", text(of)),
            Self::Named(by) => write!(f, "named in {}", text(by)),
            Self::Link(to) => write!(f, "link to {}", text(to)),
            Self::Rule(name, path) if path.is_empty() => write!(f, "rule {name}"),
            Self::Rule(name, path) => write!(f, "rule {name}, for {}", text(path)),
            Self::Empty => f.write_str("empty"),
            Self::Outside => f.write_str("link out of the image"),
        }
    }
}
