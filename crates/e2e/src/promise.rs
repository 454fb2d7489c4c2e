//! Row of a table of tests.

use crate::context::Context;
use crate::need::Need;
use anyhow::Result;

/// Test of one promise.
#[derive(Debug)]
pub(crate) struct Test {
    /// Unique name, `group::what_is_promised`.
    pub(crate) name: &'static str,
    /// Needs of the test besides [`Need::Userns`], which every test has.
    pub(crate) needs: &'static [Need],
    /// Function of the test: an error describes what was seen.
    pub(crate) run: fn(&Context) -> Result<()>,
    /// Factor of the usual time limits.
    pub(crate) slow: u32,
    /// True if the test waits for most of its time, so that it takes nothing from others that run beside it.
    pub(crate) waits: bool,
}

impl Test {
    /// Multiplies the time limits, for tests that do much more than others.
    pub(crate) const fn slow(mut self, times: u32) -> Self {
        self.slow = times;
        self
    }

    /// Says that the test waits for most of its time, for a limit of the engine or of a program to pass.
    pub(crate) const fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Returns the first need that is not met, if any.
    pub(crate) fn missing(&self) -> Option<Need> {
        self.needs
            .iter()
            .chain(&[Need::Userns])
            .find(|need| !need.met())
            .copied()
    }
}

/// Makes a row of a group's table.
pub(crate) const fn test(
    name: &'static str,
    needs: &'static [Need],
    run: fn(&Context) -> Result<()>,
) -> Test {
    Test {
        name,
        needs,
        run,
        slow: 1,
        waits: false,
    }
}
