//! Totals of tests, parsed from the output of their runners.

use anyhow::{Result, bail};
use std::fmt;
use std::ops::AddAssign;

/// Numbers of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Number of tests that passed.
    pub(crate) passed: u64,
    /// Number of tests that failed, runners that broke off included.
    pub(crate) failed: u64,
    /// Number of tests that could not run here; the runner printed the reasons.
    pub(crate) skipped: u64,
}

impl Tally {
    /// Totals for a runner that ended without printing any.
    pub(crate) fn broken() -> Self {
        Self {
            failed: 1,
            ..Self::default()
        }
    }

    /// Parses libtest's `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; …`.
    pub(super) fn parse_libtest(line: &str) -> Option<Self> {
        let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
        let mut counts = counts.split("; ");
        Some(Self {
            passed: count(counts.next()?, "passed")?,
            failed: count(counts.next()?, "failed")?,
            skipped: count(counts.next()?, "ignored")?,
        })
    }

    /// Parses the end-to-end runner's `e2e(root): 5 passed, 0 failed, 1 skipped`.
    pub(crate) fn parse_e2e(line: &str) -> Option<Self> {
        let counts = line.strip_prefix("e2e(")?.split_once("): ")?.1;
        let mut counts = counts.split(", ");
        Some(Self {
            passed: count(counts.next()?, "passed")?,
            failed: count(counts.next()?, "failed")?,
            skipped: count(counts.next()?, "skipped")?,
        })
    }

    /// # Errors
    /// Returns an error if a test failed, or if no test ran at all: a filter that matches nothing proves nothing.
    pub(crate) fn verdict(self) -> Result<()> {
        match self {
            Self {
                passed: 0,
                failed: 0,
                skipped: 0,
            } => bail!("no test ran"),
            Self { failed: 0, .. } => Ok(()),
            Self { failed: 1, .. } => bail!("1 test failed"),
            Self { failed, .. } => bail!("{failed} tests failed"),
        }
    }
}

/// Parses `5 passed` into 5.
fn count(text: &str, what: &str) -> Option<u64> {
    let (number, word) = text.trim().split_once(' ')?;
    if word == what { number.parse().ok() } else { None }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_runners() {
        let tally = Tally {
            passed: 5,
            failed: 2,
            skipped: 1,
        };
        let libtest = "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.00s";
        assert_eq!(Tally::parse_libtest(libtest), Some(tally));
        assert_eq!(
            Tally::parse_e2e("e2e(root): 5 passed, 2 failed, 1 skipped"),
            Some(tally)
        );
        assert_eq!(tally.to_string(), "5 passed, 2 failed, 1 skipped");
        for other in [
            "",
            "test a::b ... ok",
            "test result: ok",
            "e2e(root): running 5 tests",
            "5 passed, 2 failed, 1 skipped",
        ] {
            assert_eq!(Tally::parse_libtest(other), None, "{other}");
            assert_eq!(Tally::parse_e2e(other), None, "{other}");
        }
    }

    #[test]
    fn verdicts() {
        let tally = |passed, failed, skipped| Tally {
            passed,
            failed,
            skipped,
        };
        tally(1, 0, 3).verdict().unwrap();
        tally(0, 0, 1).verdict().unwrap();
        tally(9, 1, 0).verdict().unwrap_err();
        tally(0, 0, 0).verdict().unwrap_err();
        Tally::broken().verdict().unwrap_err();
    }
}
