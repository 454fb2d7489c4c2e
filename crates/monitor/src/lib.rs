//! Process beside a container that is not tied to a terminal of a command: its work, and the protocol to talk to it.
//!
//! [`Monitor`] holds the container's pipes or its terminal, writes its log, serves the clients that attach to it or
//! wait for it, and learns of its end. It is a loop around one poll(2).
//!
//! Invariants:
//! - The monitor sleeps until something happens, and gives the memory for that back a second later.
//! - Nothing that a client does or leaves undone hurts the container or the monitor; a client that does not read
//!   keeps the container's output waiting, for ten seconds at most, unless it is the command that started it.
//! - No buffer grows with the container's output. Entries that the disk does not take are lost and counted.
//! - The crate decides neither places nor policy: names, restarts, health and time limits are the caller's
//!   ([`Chores`]).

mod attend;
mod clients;
mod connection;
mod door;
mod entry;
mod error;
mod follow;
mod frame;
mod input;
mod log;
mod monitor;
mod output;
mod recorded;
mod socket;
#[cfg(test)]
mod tests;
mod watch;

pub use attend::{Attachment, Attendant, Parting};
pub use connection::Connection;
pub use door::Door;
pub use error::MonitorError;
pub use follow::{LogReader, Query};
pub use frame::{MOST, Report, Request, Size, Streams};
pub use log::{LogFile, LogFormat, LogOptions};
pub use monitor::{Chores, Container, Ended, Exit, Monitor, PATIENCE, Settings, Verdict};
pub use recorded::{Entry, Stream};
pub use socket::{Listener, connect, pair};
pub use tote_runtime::{DetachKeys, DetachKeysError};
