//! How long a sweep may take.

use std::time::Instant;

/// Time limit of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Waits until no process adds anything, and then finishes.
    Endless,
    /// Does not wait, and stops at that moment.
    Until(Instant),
}

impl Patience {
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Until(end) if Instant::now() >= end)
    }
}
