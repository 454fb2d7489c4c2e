//! The Linux part of the specification, on a real kernel: what a container sees when its spec says so.
//!
//! These need root, and say so where they have not got it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod container;
mod mounts;
mod namespaces;
mod process;
mod roots;
