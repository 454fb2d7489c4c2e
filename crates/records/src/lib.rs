//! Records of containers, pods and pools: what is written down of each, which process holds it, which name leads to it,
//! and how it is found. And the error of every use case ([`EngineError`]).
//!
//! Invariants:
//! - Everything is found from an id: the record, the state, the claim and the cgroup, so that what a killed command left is
//!   found and cleared by the next one. Clearing twice does no harm.
//! - A lookup returns the true state: one that says "running" without a held claim is corrected before it is returned.
//! - Only the holder of a container's claim writes its state.
//!
//! This crate starts, stops and removes nothing, and knows no part of the engine above it: an error of such a part is
//! a [`PartError`], which brings its exit code and its remedy along.

pub mod apart;
pub mod cgroup;
pub mod changes;
pub mod container;
mod error;
pub mod exec;
mod hint;
pub mod look;
pub mod mounted;
pub mod network;
mod outcome;
pub mod pod;
pub mod pool;
pub mod prune;
pub mod resources;

pub use changes::ContainerError;
pub use container::LifeError;
pub use error::{EngineError, ImageFault, MachineError, Part, PartError, RequestError};
pub use look::LookError;
pub use mounted::MountFault;
pub use pool::PoolError;
pub use tote_state::{Caller, Home};
