//! What a check has to say: one line per place.

use anyhow::{Result, bail};
use std::fmt;

/// One broken rule at one place; displayed as `path:line: what, why`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Relative to the workspace's root.
    pub(crate) path: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// What is there, and why it must not be.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Prints the findings in the order of their places.
///
/// # Errors
/// Where there is at least one; the error says only how many.
pub(crate) fn report(check: &str, mut findings: Vec<Finding>) -> Result<()> {
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("{check}: 1 finding"),
        count => bail!("{check}: {count} findings"),
    }
}
