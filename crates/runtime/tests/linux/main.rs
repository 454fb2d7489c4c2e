//! The Linux part of the specification, on a real kernel: what a container sees when its spec says so.
//!
//! These need root, and say so where they have not got it.

mod container;
mod mounts;
mod namespaces;
mod process;
mod roots;
