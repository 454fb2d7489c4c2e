//! The harness: measures programs beside one another on one machine under the same conditions.
//!
//! Candidates are data ([`scenario`]). They run in a private mount namespace ([`world`]), one after another, in a
//! new random order each round ([`session`]); the exit code and output of each run are checked ([`sample`]) before
//! its time counts. Raw samples are kept; the report has medians with bootstrap intervals ([`stats`]), next to a
//! description of the machine ([`machine`]).
//!
//! It has two users: the program `bench`, with the project's own targets, and `tote-bench`, with the comparison that
//! anyone can run. Neither prints here. The engine does not depend on this crate.

#![expect(
    clippy::disallowed_methods,
    reason = "a harness runs programs and waits for them; nothing here is on anybody's hot path"
)]

pub mod account;
pub mod apparatus;
pub mod chance;
pub mod clock;
pub mod counters;
mod grid;
pub mod interruption;
pub mod leaks;
pub mod machine;
pub mod mountinfo;
pub mod processes;
pub mod report;
pub mod sample;
pub mod scenario;
pub mod session;
pub mod stage;
pub mod stats;
pub mod step;
pub mod steps;
pub mod timings;
pub mod trial;
pub mod world;
