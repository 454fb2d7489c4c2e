//! A row of a table of tests.

use crate::context::Context;
use crate::need::Need;
use anyhow::Result;

/// One promise.
#[derive(Debug)]
pub(crate) struct Test {
    /// `group::what_is_promised`, unique.
    pub(crate) name: &'static str,
    /// What the machine must offer besides [`Need::Userns`], which every test needs.
    pub(crate) needs: &'static [Need],
    /// The test itself: an error says what was seen.
    pub(crate) run: fn(&Context) -> Result<()>,
    /// How often the usual limits it may take.
    pub(crate) slow: u32,
}

impl Test {
    /// With limits so often the usual, for what others do most of.
    pub(crate) const fn slow(mut self, times: u32) -> Self {
        self.slow = times;
        self
    }

    /// The first thing missing here for this test, if any.
    pub(crate) fn missing(&self) -> Option<Need> {
        self.needs
            .iter()
            .chain(&[Need::Userns])
            .find(|need| !need.met())
            .copied()
    }
}

/// One row of a group's table.
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
    }
}
