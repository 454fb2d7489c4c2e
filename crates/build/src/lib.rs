//! What a Dockerfile does.
//!
//! [`build`] walks the stages that a target needs, keeps variables and configurations, and says for each instruction
//! under which key its result may be found again. What touches files, images or processes is a [`Worker`]'s.
//!
//! What holds here:
//!
//! - Nothing is read, run or written; the clock is the worker's.
//! - A key holds everything that the result depends on: the image below, the instruction with its variables replaced,
//!   the arguments that a command can see, and the digest of what is copied. The result of equal keys is equal, as far
//!   as commands always do the same.
//! - The rules of variables, triggers and configurations are docker's.
//!
//! This crate is not the parser, and decides neither where a cache is nor how long it is kept.

mod check;
mod config;
mod error;
mod glob;
mod mode;
mod mounts;
mod plan;
mod repository;
mod scope;
mod stage;
#[cfg(test)]
mod tests;
mod transfer;
mod walk;
mod worker;

pub use check::{Warning, check};
pub use error::{BuildError, Fault};
pub use glob::{GlobError, is_pattern, matches};
pub use mode::{FileMode, ModeChange};
pub use repository::{Repository, RepositoryError, is_commit, redacted};
pub use walk::{Named, Options, build, check_plan};
pub use worker::{Built, CopyStep, Event, Origin, RunStep, StepMount, Worker};
