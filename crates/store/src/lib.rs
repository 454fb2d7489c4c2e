//! One store that keeps every file once: what images are made of, and the directories that containers see.
//!
//! ```text
//! STORE/
//! ├── lock                  shared by who adds something, exclusive for a sweep
//! ├── garbage               there if something was removed since the last sweep
//! ├── objects/ab/KEY        contents of files; the key is the hash of the content and one of everything else that an
//! │                         inode holds. Never written in place
//! ├── unsynced              there if something was added since the store was last known to be on the disk
//! ├── layers/DIGEST/        what a layer is, without its files' contents
//! ├── images/DIGEST/        config.json, manifest.json: as received; image.json,
//! │                         and writable.json where a command was traced; or index.json: images for several platforms
//! ├── names/NAME            a name, and the id of its image or index
//! ├── trees/CHAIN/          images as directories, of hard links to the objects or of empty files that lead to these
//! └── trash/                what is no more, but still takes space
//! ```
//!
//! What holds here:
//!
//! - **A file is stored once**, whatever layers and images have it, and its pages are in memory once. What is equal but
//!   for owner, mode, times or extended attributes is two files: a hard link shares all of them.
//! - **A layer comes out as it came in**, byte for byte, so that its digest stays what it was.
//! - **A crash leaves a store that works**: everything gets its name when it is finished, by rename(2), or shows that it
//!   is not. Nothing waits for the disk; what a power cut takes is noticed before it is used, because each record can be
//!   told from a part of it, and because trees and layers know the boot in which they were last known to be whole: what was
//!   written in another one is looked at (`known`).
//! - **What is damaged is as good as absent**: whoever brings it again replaces it, whoever needs it is refused, and a sweep
//!   goes on without it.
//! - **Nothing that is being added is swept away**: who adds holds [`Ingest`], and a sweep excludes it.
//! - An image is an enemy: its sizes are bounded, its paths are never followed out of the tree, and what it says about
//!   extended attributes does not reach overlayfs.
//!
//! This crate is no registry client and knows no compression of layers; it decides neither where it is nor who may use
//! it. It reports no progress: whoever brings a stream can count it.

mod crew;
mod dir;
mod error;
mod fault;
mod gap;
mod image;
mod index;
mod ingest;
mod inodes;
mod intake;
mod key;
mod known;
mod layer;
mod leased;
mod links;
mod lock;
mod model;
mod names;
mod objects;
mod parse;
mod removal;
mod share;
mod store;
mod sweep;
#[cfg(test)]
mod tests;
mod tree;
mod trees;
mod usage;
mod verify;
mod writable;

pub use error::{StoreError, WrongLayer};
pub use image::{Image, ImageRecord};
pub use index::ImageIndex;
pub use ingest::{Ingest, Layer, Slot, Vacancy};
pub use key::Owners;
pub use layer::{LayerArchive, LayerSizes};
pub use leased::{OwnInodes, Tree};
pub use share::ShareHost;
pub use store::{Store, StoreOptions, sha256};
pub use sweep::{Patience, Removed, Swept};
pub use tote_archive::Limits;
pub use trees::TreeMade;
pub use usage::{ImageUsage, Usage};
pub use verify::{Broken, Damage, Depth, Verified};
