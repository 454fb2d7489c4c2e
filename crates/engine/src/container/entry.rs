//! A container, as whoever looks gets it.

use super::record::Container;
use super::state::State;
use serde::{Deserialize, Serialize};

/// A container: what was asked for, and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What was asked for.
    pub container: Container,
    /// What it is; the truth at the moment of looking.
    pub state: State,
    /// Whether it has a directory. One of `run --rm` in the foreground has none: it cannot be started again.
    #[serde(skip)]
    pub kept: bool,
    /// The record that cannot be read, where one cannot: the container is [`Status::Dead`] then, and `state.error` has
    /// the reason.
    #[serde(skip)]
    pub lost: Option<LostRecord>,
}

/// A record of a container that is there and cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostRecord {
    /// `container.json`: nothing is known of the container but its id.
    Container,
    /// `state.json`: what was asked for is known, and not what became of it.
    State,
}

/// Marks a container whose removal has begun.
pub(crate) const REMOVING: &str = "removing";
