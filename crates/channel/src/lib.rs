//! Messages between a host and the first process of a virtual machine, multiplexed over one stream of bytes.
//!
//! ```text
//! kind (1) │ 0 (1) │ session (2) │ length (4) │ payload (length)        all numbers little-endian
//! ```
//! Session 0 is the machine itself, every other one is a process in it. [`Host`] and [`Guest`] are the two ends: bytes go
//! in, events come out, and what has to be sent is collected. Neither reads, writes or waits.
//!
//! Invariants:
//!
//! - **The guest is an enemy.** Whatever it sends, [`Host`] returns events or an error, and what it keeps is bounded: one
//!   frame, and for each stream at most [`WINDOW`] bytes of which the host has not said that it is rid of them.
//! - **No stream holds up another one.** Each has a window of its own; a sender that has used it up waits for credit.
//! - A process begins by itself, or joins one that the host names: the guest decides neither.
//! - A message of the wrong direction, of a session that does not exist, or out of its order is an error.
//!
//! Not in this crate: descriptors, processes, time, and what a plan means.

mod error;
mod frame;
mod guest;
mod host;
mod message;
#[cfg(test)]
mod tests;

pub use error::ChannelError;
pub use frame::MAX_PAYLOAD;
pub use guest::{Guest, Order};
pub use host::{Event, Host, Session};
pub use message::{End, SEED, Stream, ToGuest, ToHost, Wake};

/// Version of the messages: both ends must have the same.
pub const VERSION: u16 = 2;

/// Bytes of a stream that may be on their way.
pub const WINDOW: usize = 128 << 10;

/// Largest plan.
pub const MAX_PLAN: usize = 8 << 20;

/// Processes that one machine has had at most at a time.
pub const MAX_SESSIONS: usize = 256;

/// Warnings of one process.
pub const MAX_WARNINGS: usize = 32;

/// Longest text of a message.
pub const MAX_TEXT: usize = 4096;
