//! Findings of a check: one line per place.

use anyhow::{Result, bail};
use std::fmt;

/// A broken rule at one place; displayed as `path:line: what, why`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Path relative to the workspace's root.
    pub(crate) path: String,
    /// Line number, from 1.
    pub(crate) line: usize,
    /// The broken rule, and its reason.
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
/// At least one finding; the error contains only their number.
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
