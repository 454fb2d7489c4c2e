//! Units of systemd: their syntax, read and written, and the units made for containers, volumes and files that
//! describe one (podman's quadlets).
//!
//! - [`UnitFile`] is a file as sections of entries, with the lines that they came from.
//! - [`quote`] and [`split`] handle systemd's words: those of `ExecStart=`.
//! - [`Service`] is a unit that runs something, [`Quadlet`] a file from which one is made.
//!
//! The crate knows neither containers nor file systems. It reads no file and starts no program, and for any text it
//! soon returns a unit, or an error of one line that names the line.

mod quadlet;
mod service;
mod syntax;
mod words;

pub use quadlet::{Installed, Kind, Made, Quadlet, QuadletError, Surroundings, Unused};
pub use service::{RESTART_POLICIES, Service, Wishes, exact};
pub use syntax::{Entry, Line, Section, SyntaxError, UnitFile};
pub use words::{WordsError, quote, quote_literal, split};
