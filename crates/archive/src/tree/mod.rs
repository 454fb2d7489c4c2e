//! Directories as trees of entries: writing them, reading them, and differences between two.

mod attributes;
mod compare;
mod content;
mod diff;
mod digest;
mod dirs;
mod error;
mod extract;
mod fixup;
mod mask;
mod nameless;
mod node;
mod one;
mod options;
mod remove;
mod transfer;
mod walk;
mod whiteout;

pub use compare::{Compare, compare};
pub use diff::{Diff, Difference, Status, diff};
pub use digest::tree_digest;
pub use error::ExtractError;
pub use extract::{Extracted, extract};
pub use mask::CreationMask;
pub use nameless::Nameless;
pub use one::entry_of;
pub use options::{Devices, ExtractOptions, Overwrite, Owner, Whiteouts};
pub use transfer::{TransferError, transfer};
pub use walk::{Walk, WalkError, walk};
