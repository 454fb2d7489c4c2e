//! Directories that are told only for what is in them.

use std::collections::VecDeque;
use tote_archive::{Difference, WalkError};

/// Differences in which each passage comes right before what it leads to, and not at all where that is nothing.
#[derive(Debug)]
pub struct Passages<I> {
    all: I,
    /// Directories on the way to what comes next, as yet untold.
    untold: Vec<Difference>,
    ready: VecDeque<Difference>,
}

impl<I> Passages<I> {
    /// `all` in the order of paths, with [`Difference::passage`] set as it is meant here.
    pub const fn new(all: I) -> Self {
        Self {
            all,
            untold: Vec::new(),
            ready: VecDeque::new(),
        }
    }
}

impl<I: Iterator<Item = Result<Difference, WalkError>>> Iterator for Passages<I> {
    type Item = Result<Difference, WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(Ok(ready));
            }
            let found = match self.all.next()? {
                Ok(found) => found,
                Err(error) => return Some(Err(error)),
            };
            let path = found.change.path();
            while (self.untold.last()).is_some_and(|dir| !path.starts_with(dir.change.path())) {
                self.untold.pop();
            }
            if found.passage {
                self.untold.push(found);
            } else {
                self.ready.extend(self.untold.drain(..));
                self.ready.push_back(found);
            }
        }
    }
}
