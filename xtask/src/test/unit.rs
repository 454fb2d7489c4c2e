//! The unit tests of every crate but the end-to-end runner.

use super::{Tally, e2e};
use crate::program::{cargo, tee};
use anyhow::{Result, bail};

/// # Errors
/// A crate does not compile. Failed tests are in the totals.
pub(super) fn run(filter: Option<&str>) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut command = cargo();
    command.args(["test", "--workspace", "--exclude", e2e::RUNNER, "--no-fail-fast"]);
    // Not the examples in comments: `tidy` allows none, and to find none rustdoc would read every crate.
    command.args(["--lib", "--bins", "--tests"]);
    let status = tee(command.args(filter), |line| {
        if let Some(counted) = Tally::parse_libtest(line) {
            tally += counted;
        }
    })?;
    if !status.success() && tally.failed == 0 {
        bail!("cargo test: {status}, but no test failed");
    }
    Ok(tally)
}
