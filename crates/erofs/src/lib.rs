//! Images of EROFS, the kernel's read-only file system, that have everything of a tree, with or without the data of its
//! files.
//!
//! Without data, an overlay shows the image over a directory that has them: extended attributes of its files say which file of
//! that directory is meant. With data it is the disk of a virtual machine. [`Layout`] places a [`Tree`] and writes it; [`Image`] looks a path up in what was written,
//! without a mount.
//!
//! Invariants:
//!
//! - **The same tree gives the same bytes**, on every machine: no time, no random number and no order of a hash table is
//!   in them. So an image is checked by a comparison with what would be written now.
//! - **Trees come from enemies, and so may files that are read as images**: whatever they say, there is a value or an
//!   error. Sizes are computed before anything is written, and nothing is allocated on the word of a file.
//!
//! Not in this crate: compression, mounts, and what the attributes mean.
//!
//! The format is that of Documentation/filesystems/erofs.rst and of fs/erofs/erofs_fs.h of Linux: blocks of 4096 bytes,
//! inodes of 64 bytes (the short form has no nanoseconds), directories as sorted names.

mod error;
mod format;
mod layout;
mod read;
#[cfg(test)]
mod tests;
mod tree;
mod write;

pub use error::{LayoutError, ReadError};
pub use layout::Layout;
pub use read::{Found, Image, Kind};
pub use tree::{Inode, Node, Tree, Xattr};
