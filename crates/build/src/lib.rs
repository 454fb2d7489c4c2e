//! Execution of a Dockerfile.
//!
//! [`build`] walks the stages that a target needs, keeps variables and configurations, and computes for each
//! instruction the key under which its result is cached. A [`Worker`] does everything that involves files, images
//! or processes.
//!
//! Invariants:
//!
//! - The crate reads, runs and writes nothing itself; the clock is the worker's.
//! - A key covers everything that the result depends on: the image below, the instruction with its variables
//!   replaced, the arguments that a command can see, and the digest of the copied files. Equal keys stand for equal
//!   results, as far as commands are deterministic.
//! - Stages that are built beside one another have the keys, and so the results, that they have one after another.
//! - The rules of variables, triggers and configurations are docker's.
//!
//! This crate does not parse, and does not decide where a cache is or how long it is kept.

mod check;
mod config;
mod error;
mod glob;
mod key;
mod mode;
mod mounts;
mod plan;
mod repository;
mod scope;
mod stage;
#[cfg(test)]
mod tests;
mod together;
mod transfer;
mod walk;
mod worker;

pub use check::{Warning, check};
pub use error::{BuildError, Fault};
pub use glob::{GlobError, is_pattern, matches};
pub use key::{Field, Key};
pub use mode::{FileMode, ModeChange};
pub use repository::{Repository, RepositoryError, is_commit, redacted};
pub use scope::EPOCH;
pub use walk::{Named, Options, build, check_plan};
pub use worker::{
    Built, CopyStep, Event, Origin, Outcome, RunStep, StageLabel, StageWork, StepMount, Told, Worker,
};
