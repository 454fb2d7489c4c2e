//! Closures: a root as nodes that reference one another, each known by its hash.
//!
//! A [`Node`] is a package or a directory: one layer of files, and references to the nodes that its programs need. Its
//! [`NodeId`] is the hash of its document, which has the digest of the layer (so paths, modes and contents) and the ids
//! of the nodes that it references. [`seal`] makes documents of a root's [`Draft`]s, [`split`] makes a root's parts,
//! a [`Graph`] answers questions: [`Graph::closure`], [`Graph::why`], [`Graph::find`].
//!
//! Invariants:
//!
//! - The crate is pure: it opens nothing, writes nothing and reads no clock.
//! - The same root gives the same ids, on every machine and in whatever order its parts are given.
//! - A root comes from an enemy: nothing here recurses along references, and a cycle of references ends.

mod cycles;
mod graph;
mod node;
pub mod packages;
mod profile;
mod seal;
mod split;
mod totefile;

pub use graph::{Changed, Graph, GraphError, Line, Step};
pub use node::{Node, NodeId, NodeKind, Reference};
pub use profile::{Generation, Profile, ProfileError};
pub use seal::{Draft, seal};
pub use split::{BASE, Part, split};
pub use totefile::{Totefile, TotefileError};
