//! The stepper: kills, or fails with an errno, the Nth system call of the Wth process of a command.

use crate::arguments::Options;
use anyhow::{Result, bail};

/// Tries the points that the options choose. Returns whether nothing was found.
///
/// # Errors
/// Where nothing could be tried.
pub(crate) fn run(options: &Options) -> Result<bool> {
    bail!(
        "no scenario is known yet: {:?} {:?}",
        options.tote,
        options.scenarios
    )
}
