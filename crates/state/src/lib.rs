//! The state root: its place, the names in it, and reading, writing and locking of its short files.
//!
//! Invariants:
//! - Paths below the state root are functions of ids and names ([`Home`] has a map).
//! - Directories and files are closed to other users from their first moment on.
//! - Only ENOENT means that a record does not exist. Every other failure is an error.
//! - A record that cannot be used blocks no other: lists name it and go on.
//!
//! This crate does not know containers, pods or images: the crates above define what a record means.

pub mod closed;
pub mod config;
mod error;
pub mod events;
mod home;
mod id;
pub mod locked;
pub mod process;
pub mod record;
pub mod records;
pub mod short;

pub use error::StateError;
pub use home::{Caller, Home};
pub use id::new_id;
