//! The one process beside a container that nobody's terminal holds: what it does, and how it is spoken to.
//!
//! [`Monitor`] keeps the container's pipes or its terminal, writes its log, serves the clients that attach to it or wait
//! for it, and learns of its end. It is a loop around one poll(2).
//!
//! Invariants:
//! - It sleeps until something happens, and gives back a second later what memory that took.
//! - Nothing that a client does or leaves undone hurts the container, nor the monitor; a client that does not read keeps
//!   the container's output waiting, for ten seconds at most, unless it is the command that started it.
//! - Nothing grows with what the container writes. What the disk does not take is lost and counted.
//! - It decides no place and no policy: names, restarts, health and time limits are the caller's ([`Chores`]).

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
mod time;
mod watch;
mod when;

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
pub use time::{Time, TimeText};
pub use tote_runtime::{DetachKeys, DetachKeysError};
pub use when::BadTime;
