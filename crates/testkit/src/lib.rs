//! Fixtures that tests of several crates need.
//!
//! [`FakeRegistry`] is a registry in a thread of the test's own process, which misbehaves as told and remembers its
//! requests. It is only good for tests, and for measurements, whose programs pull from it: it believes every client, keeps everything in
//! memory, and panics if a test is wrong.

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
