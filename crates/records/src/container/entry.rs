//! Container as a lookup returns it: its record and its state.

use super::record::Container;
use super::state::State;
use serde::{Deserialize, Serialize};

/// Container with its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Record of the container.
    pub container: Container,
    /// State of the container at the moment of the lookup.
    pub state: State,
    /// True if it has a directory. A container of `run --rm` in the foreground has none: it cannot be started again.
    #[serde(skip)]
    pub kept: bool,
    /// Unreadable record, if any: the container is [`Status::Dead`](super::Status::Dead) then, and `state.error` has the reason.
    #[serde(skip)]
    pub lost: Option<LostRecord>,
}

/// Unreadable record of an existing container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostRecord {
    /// File `container.json`: only the container's id is known.
    Container,
    /// File `state.json`: the container's configuration is known, but not its state.
    State,
}

/// Name of the mark of a container whose removal has begun.
pub const REMOVING: &str = "removing";
