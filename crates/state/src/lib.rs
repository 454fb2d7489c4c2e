//! The state root: where it is, what is called how in it, and how its short files are read, written and locked.
//!
//! Invariants:
//! - Paths below the state root are functions of ids and names ([`Home`] draws it).
//! - Directories and files are closed to other users from their first moment on.
//! - Only ENOENT means that there is no record. Every other failure is an error.
//!
//! It knows no container, pod or image: the crates above it say what a record means.

pub mod closed;
pub mod config;
mod error;
pub mod events;
mod home;
mod id;
pub mod locked;
pub mod process;
pub mod record;
pub mod short;

pub use error::StateError;
pub use home::{Caller, Home};
pub use id::new_id;
