//! The suites, and their common interface.

use super::{runc_bats, runtime_tools};
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// An external test suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    /// The programs below `validation/` of opencontainers/runtime-tools.
    RuntimeTools,
    /// `tests/integration/*.bats` of opencontainers/runc.
    RuncBats,
}

/// Result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// Failed, for this reason in a single line.
    Failed(String),
    /// Skipped, for this reason in a single line.
    Skipped(String),
}

impl Suite {
    /// Names of the suites, for messages.
    pub(super) const NAMES: &'static str = "runtime-tools or runc-bats";

    pub(super) fn parse(name: &str) -> Result<Self> {
        match name {
            "runtime-tools" => Ok(Self::RuntimeTools),
            "runc-bats" => Ok(Self::RuncBats),
            _ => bail!("conformance: no suite {name:?}, but {}", Self::NAMES),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RuntimeTools => "runtime-tools",
            Self::RuncBats => "runc-bats",
        }
    }

    /// # Errors
    /// Checks that the checkout is this suite and is built, and that the needed programs exist; the error names the
    /// first that is missing.
    pub(super) fn check(self, checkout: &Path) -> Result<()> {
        match self {
            Self::RuntimeTools => runtime_tools::check(checkout),
            Self::RuncBats => runc_bats::check(checkout),
        }
    }

    /// Lists the names of all tests, sorted, as lists of passable tests use them.
    pub(super) fn tests(self, checkout: &Path) -> Result<Vec<String>> {
        match self {
            Self::RuntimeTools => runtime_tools::tests(checkout),
            Self::RuncBats => runc_bats::tests(checkout),
        }
    }

    /// Adds the words to a command that run a test on a runtime, and sets its directory and environment.
    pub(super) fn complete(self, command: &mut Command, checkout: &Path, test: &str, runtime: &Path) {
        match self {
            Self::RuntimeTools => runtime_tools::complete(command, checkout, test, runtime),
            Self::RuncBats => runc_bats::complete(command, checkout, test, runtime),
        }
    }

    /// Judges a test that ended by itself.
    pub(super) fn judge(self, output: &str, exited_with_0: bool) -> Verdict {
        match self {
            Self::RuntimeTools => runtime_tools::judge(output, exited_with_0),
            Self::RuncBats => runc_bats::judge(output, exited_with_0),
        }
    }
}

/// # Errors
/// Requires programs in `PATH`, and names the first missing one: without it, a test would fail as if the runtime
/// had failed.
pub(super) fn require_programs(names: &[&str]) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = names.iter().find(|name| {
        !std::env::split_paths(&path)
            .any(|directory| directory.join(name).metadata().is_ok_and(|found| found.is_file()))
    });
    match missing {
        Some(missing) => bail!("{missing} is not in PATH: the suite calls it; see docs/conformance.md"),
        None => Ok(()),
    }
}

/// # Errors
/// Requires paths, and names the first missing one; `how` tells how to make it.
pub(super) fn require(paths: &[&Path], how: &str) -> Result<()> {
    match paths.iter().find(|path| !path.try_exists().unwrap_or(false)) {
        Some(missing) => bail!("{} is missing: {how}; see docs/conformance.md", missing.display()),
        None => Ok(()),
    }
}
