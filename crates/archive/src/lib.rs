//! Archives and trees: tar streams in and out, and directories as streams of the same entries.
//!
//! An [`Entry`] is an object in a tree; a [`Change`] is a layer's change to the layers below. A [`Reader`] turns a
//! tar stream into changes and contents, and a [`Writer`] makes such a stream. [`Decoder`] and [`Encoder`] handle
//! the compression around it; a [`ReadAhead`] moves decompression to another processor. [`extract`] makes a
//! directory from a stream, [`walk`] makes entries from a directory, [`transfer`] puts such entries into another
//! one, [`diff`] makes changes from the upper directory of an overlay and [`compare`] from a tree and its copy, and
//! [`tree_digest`] tells whether two trees are the same.
//!
//! A [`DebianPackage`] has such a stream, and a description.
//!
//! Invariants:
//!
//! - An archive may come from an attacker. No input makes the reader panic, nor allocate more than [`Limits`]
//!   allow; announced sizes are believed only as far as bytes follow.
//! - An [`EntryPath`] alone never leaves its tree. Links on the way could, and are never followed blindly.
//! - Extracting and walking reach nothing outside of their directory: see [`extract`] for how.
//! - Names and links are bytes; they need not be UTF-8.
//! - Every byte of an archive is either a file's content or reported to its [`Framing`], so that [`Rebuild`] makes
//!   the same archive again.
//!
//! This crate is not a store: it does not know digests of layers, images or a cache, and it chooses no paths.

mod compression;
mod debian;
mod entry;
mod error;
mod framing;
mod header;
mod limits;
mod member;
mod numbers;
mod path;
mod pax;
mod read_ahead;
mod reader;
mod shift;
mod source;
mod sparse;
mod tree;
mod writer;

pub use compression::{Compression, Decoder, Encoder, Expansion};
pub use debian::{DebianPackage, PACKAGE_LIMITS, PackageError};
pub use entry::{Change, Entry, Kind, Timestamp};
pub use error::{LinkError, ReadError};
pub use framing::{Content, Framing, FramingReader, FramingWriter, Rebuild, Segment};
pub use limits::{LimitError, Limits};
pub use path::{EntryPath, PathError};
pub use pax::PaxError;
pub use read_ahead::{CHUNK, MOST_LENT, Piece, ReadAhead, Reading};
pub use reader::Reader;
pub use shift::Shift;
pub use sparse::{Extent, SparseError};
pub use tree::{
    Compare, CreationMask, Devices, Diff, Difference, ExtractError, ExtractOptions, Extracted, Nameless,
    Overwrite, Owner, Status, TransferError, Walk, WalkError, Whiteouts, compare, diff, entry_of, extract,
    transfer, tree_digest, walk,
};
pub use writer::{WriteError, Writer};
