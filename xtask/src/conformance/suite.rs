//! The suites, and what both have in common.

use super::{runc_bats, runtime_tools};
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// An outside suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    /// The programs below `validation/` of opencontainers/runtime-tools.
    RuntimeTools,
    /// `tests/integration/*.bats` of opencontainers/runc.
    RuncBats,
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// Why, in one line.
    Failed(String),
    /// Why, in one line.
    Skipped(String),
}

impl Suite {
    /// For messages.
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
    /// Where the checkout is not this suite, or what it builds or needs is missing; the error names it.
    pub(super) fn check(self, checkout: &Path) -> Result<()> {
        match self {
            Self::RuntimeTools => runtime_tools::check(checkout),
            Self::RuncBats => runc_bats::check(checkout),
        }
    }

    /// The names of all tests, sorted; those that lists of passable tests use.
    pub(super) fn tests(self, checkout: &Path) -> Result<Vec<String>> {
        match self {
            Self::RuntimeTools => runtime_tools::tests(checkout),
            Self::RuncBats => runc_bats::tests(checkout),
        }
    }

    /// Adds to a command that runs what follows it: what runs one test on a runtime, and where.
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
/// Names the first of these programs that is not in `PATH`: a test that lacks one fails as if the runtime did.
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
/// Names the first of these paths that does not exist, and says `how` it comes to be.
pub(super) fn require(paths: &[&Path], how: &str) -> Result<()> {
    match paths.iter().find(|path| !path.try_exists().unwrap_or(false)) {
        Some(missing) => bail!("{} is missing: {how}; see docs/conformance.md", missing.display()),
        None => Ok(()),
    }
}
