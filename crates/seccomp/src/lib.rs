//! System call filters: a runtime specification's seccomp profile becomes a classic BPF program.
//!
//! [`compile`] makes the program, [`default_profile`] the profile of a container without one of its own, and
//! [`default_filter`] that profile's program, which the build has compiled for the usual sets of capabilities.
//!
//! Invariants: a program has at most [`MAX_INSTRUCTIONS`], jumps only forwards and inside itself, and answers each
//! call as libseccomp with runc's ENOSYS rule would; a call is found by a binary search, never by a walk. Equal
//! profiles make equal programs.
//!
//! Not here: seccomp(2) itself, the listener of a profile that notifies, and reading profiles from JSON.
//! Not covered: arguments of calls that i386 multiplexes (`socketcall`, `ipc`), which live in memory.

mod answer;
mod arch;
mod capability;
mod compile;
mod condition;
mod default;
mod error;
mod graph;
mod instruction;
mod profile;
mod ranges;
mod rules;
mod table;
#[cfg(test)]
mod tests;

pub use answer::{lets_through, widened};
pub use arch::Arch;
pub use capability::CapSet;
pub use compile::{Filter, MAX_INSTRUCTIONS, compile, notifies};
pub use default::{DEFAULT, default_filter};
pub use error::Error;
pub use instruction::Instruction;
pub use profile::default_profile;
