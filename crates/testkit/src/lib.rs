//! What tests of several crates need.
//!
//! [`FakeRegistry`] is a registry in a thread of the test's own process, which misbehaves as told and remembers what it
//! was asked. It is no registry for anything but tests: it believes every client, keeps all in memory, and panics where
//! a test is wrong.

#![expect(
    clippy::expect_used,
    reason = "a failure here is a test's failure, and panics are what those are made of"
)]

mod content;
mod exchange;
mod registry;
mod stop;

pub use content::{digest, index, manifest};
pub use exchange::{Reply, Request};
pub use registry::FakeRegistry;
pub use stop::{Stop, Stopped};
