//! Virtual machine monitors (VMMs), and the process that stands between one of them and the streams of a container.
//!
//! ```text
//!  monitor or command of tote         attendant (attend), first process of a sandbox      VMM              guest
//!  ──────────────────────────         ──────────────────────────────────────────────     ────             ─────
//!  standard streams, signals ◄──────► channel (crate of that name) ◄────────────────────► serial port ◄──► process 1
//!  exit code                                                       ◄────────────────────► QMP
//!
//!  command of tote (exec)             visitor (visit), in the same sandbox
//!  ──────────────────────             ────────────────────────────────────
//!  standard streams, signals ◄──────► channel ◄──► attendant ◄──► guest
//! ```
//! To all processes outside, the attendant is the container's process: it has the container's streams, gets its signals, and ends
//! with its exit code. So logs, limits, restarts, clean-up and records are those of every other container. The VMM is its
//! child in a PID namespace of their own: neither outlives the other, whichever is killed.
//!
//! A machine may have more than one container, those of a pod: each further one has an attendant in a sandbox of its own ([`join`]), which is a
//! visitor to the first one, and has visitors itself.
//!
//! Directories of the host have a server (virtiofsd) beside the VMM, which the attendant starts and watches as well.
//!
//! Invariants:
//!
//! - A [`Vmm`] is a few functions; what a machine needs is a [`Machine`], and nothing of it is a path of the host outside of
//!   the sandbox.
//! - The guest is an enemy: all that it says goes through [`tote_channel::Host`], and of its console the last lines are kept.
//! - The VMM has no default devices, no terminal, no network and no descriptors but its own.
//!
//! Not in this crate: the sandbox, images, kernels, and what a plan means.

mod arguments;
mod attend;
mod bringer;
mod console;
mod error;
mod exchange;
mod join;
mod machine;
mod member;
mod migration;
mod pass;
mod plug;
mod qemu;
mod qmp;
mod save;
mod saved;
#[cfg(test)]
mod saved_tests;
mod shares;
mod sleeper;
mod streams;
mod swap;
#[cfg(test)]
mod tests;
mod visit;
mod visitor;
mod visitors;
mod vmm;

pub use attend::{Verdict, attend, attend_later};
pub use bringer::Bringer;
pub use error::VmmError;
pub use join::join;
pub use machine::{Accel, Begin, Board, Disk, Layout, Link, Machine, Shares, Spare, Template};
pub use member::Member;
pub use plug::{Change, Plug};
pub use qemu::{PROGRAM, Qemu};
pub use save::save;
pub use shares::{CAPABILITIES, SERVERS};
pub use streams::{KILL_IN_GUEST, Streams};
pub use visit::{bring, visit, visit_by};
pub use visitors::{NAME, listen};
pub use vmm::{Booted, Vmm, Wires};
