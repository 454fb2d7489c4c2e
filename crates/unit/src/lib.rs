//! Units of systemd: their syntax, read and written, and what becomes of a container, a volume or a file that describes
//! one (podman's quadlets).
//!
//! - [`UnitFile`] is a file as sections of entries, with the lines that they came from.
//! - [`quote`] and [`split`] are systemd's words: those of `ExecStart=`.
//! - [`Service`] is a unit that runs something, [`Quadlet`] a file of which one is made.
//!
//! What this crate is not: it knows no container and no file system. It reads nothing, starts nothing, and whatever a file
//! says, it ends soon: with a unit, or with an error of one line that names the line.

mod quadlet;
mod service;
mod syntax;
mod words;

pub use quadlet::{Installed, Kind, Made, Quadlet, QuadletError, Surroundings};
pub use service::{RESTART_POLICIES, Service, Wishes, exact};
pub use syntax::{Entry, Line, Section, SyntaxError, UnitFile};
pub use words::{WordsError, quote, quote_literal, split};
