//! Archives and trees: tar streams in and out, and directories as streams of the same entries.
//!
//! An [`Entry`] is something in a tree; a [`Change`] is what a layer does to the layers below. A [`Reader`] turns a tar
//! stream into changes and contents, a [`Writer`] makes such a stream, and [`Decoder`] and [`Encoder`] are the compression
//! around it, for which a [`ReadAhead`] takes another processor. [`extract`] makes a directory from a stream, [`walk`]
//! makes entries from a directory, [`transfer`] puts such entries into another one, [`diff`] makes changes from the upper directory of an overlay and [`compare`] from a
//! tree and its copy, and [`tree_digest`] says whether two trees are the same.
//!
//! What holds here:
//!
//! - An archive is an enemy's. No input makes the reader panic, nor allocate more than [`Limits`] allow; what it says
//!   about sizes is believed only as far as bytes follow.
//! - An [`EntryPath`] never leaves its tree by itself. Links on the way are another matter, and never followed blindly.
//! - Nothing leaves the directory that is extracted to or walked: see [`extract`] for how.
//! - Names and links are bytes. Nothing is required to be UTF-8.
//! - Every byte of an archive is either a file's content or reported to its [`Framing`], so that [`Rebuild`] makes the
//!   same archive again.
//!
//! This crate is not a store: it knows no digests of layers, no images, no cache, and decides no path.

mod compression;
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
mod source;
mod sparse;
mod tree;
mod writer;

pub use compression::{Compression, Decoder, Encoder, Expansion};
pub use entry::{Change, Entry, Kind, Timestamp};
pub use error::{LinkError, ReadError};
pub use framing::{Content, Framing, FramingReader, FramingWriter, Rebuild, Segment};
pub use limits::{LimitError, Limits};
pub use path::{EntryPath, PathError};
pub use pax::PaxError;
pub use read_ahead::ReadAhead;
pub use reader::Reader;
pub use sparse::{Extent, SparseError};
pub use tree::{
    Compare, Devices, Diff, Difference, ExtractError, ExtractOptions, Extracted, Nameless, Overwrite, Owner,
    Status, TransferError, Walk, WalkError, Whiteouts, compare, diff, entry_of, extract, transfer,
    tree_digest, walk,
};
pub use writer::{WriteError, Writer};
