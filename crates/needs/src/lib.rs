//! Needs of programs: the files of a root without which given programs do not run, each with its reason.
//!
//! A [`Tree`] has the names of a root, and [`Contents`] reads its files. [`needs`] begins with files that are known to be
//! used, and adds to them: the interpreters and libraries that ELF files name, the libraries whose names stand in their
//! text (dlopen(3)), the programs of `#!` lines, symbolic links in both directions, and files that belong together by the
//! rules of [`RULES`], one table.
//!
//! Invariants:
//!
//! - The crate is pure: it opens nothing and writes nothing. Links are followed in the [`Tree`], so that no path leads out
//!   of the root.
//! - A root comes from an enemy. Parsers read a limited number of bytes, whatever a file says; a cycle of links, scripts or
//!   libraries ends; every answer is a set of paths that are in the tree.
//!
//! This crate is not a dynamic linker: where several files could be meant (variants for processors, a name that only a
//! string has), it keeps all of them.

mod analysis;
mod cache;
pub mod elf;
mod object;
mod pattern;
mod reason;
mod references;
mod script;
mod search;
mod tables;
mod tree;

pub use analysis::{MissingName, Needs, Settings, needs};
pub use object::Contents;
pub use pattern::{Pattern, PatternError};
pub use reason::{Reason, Use};
pub use references::{FileReference, References};
pub use script::{FIRST_BYTES, ScriptLine, script_line};
pub use tables::rules::{RULES, Rule};
pub use tree::{Node, Tree};
