//! The Linux part of the specification, on a real kernel: the effects of a spec as its container sees them.
//!
//! The tests need root, and say so if they lack it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod container;
mod handed;
mod mounts;
mod namespaces;
mod process;
mod roots;
