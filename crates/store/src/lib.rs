//! A store that keeps every file once: the parts of images, and the directories that containers see.
//!
//! ```text
//! STORE/
//! ├── lock                  held shared for additions, exclusively for a sweep
//! ├── garbage               exists if something was removed since the last sweep
//! ├── objects/ab/KEY        contents of files; the key is the hash of the content and a hash of everything else that
//! │                         an inode holds. Never written in place
//! ├── unsynced              exists if something was added since the last sync to the disk
//! ├── layers/DIGEST/        a layer without its files' contents
//! ├── images/DIGEST/        config.json, manifest.json: as received; image.json,
//! │                         writable.json if a command was traced, misses.json if it stood behind a smaller image; or index.json: images for several platforms
//! ├── nodes/DIGEST           the document of a part of a root, with the digest of its layer; once there is one
//! ├── names/NAME            a name, and the id of its image or index; the directory is locked while a command decides about images
//! ├── trees/CHAIN/          images as trees without contents, which lead to the objects, or as directories of hard links;
//! │                         and the same for containers that have other owners ([`Shift`])
//! └── trash/                what is no more, but still takes space
//! ```
//!
//! Invariants:
//!
//! - **A file is stored once**, however many layers and images have it, and its pages are in memory once. Files
//!   that differ only in owner, mode, times or extended attributes are stored separately, because a hard link
//!   shares all of these.
//! - **A layer comes out as it came in**, byte for byte, so that its digest stays the same.
//! - **After a crash the store works**: each file gets its name when it is finished, by rename(2), or can be told
//!   to be unfinished. Nothing waits for the disk. Damage by a power cut is noticed before use, because each
//!   complete record can be told from a part of it, and because trees and layers record the boot in which they were
//!   last known to be complete: those of another boot are checked (`known`).
//! - **Damaged parts count as missing**: adding them again replaces them, using them is refused, and a sweep
//!   ignores them.
//! - **An object goes only if neither a layer nor a tree needs it**, also where a container has outlived its image
//!   (`held`).
//! - **Nothing that is being added is swept away**: adding needs an [`Ingest`], which excludes a sweep.
//! - **A decision about an image rests on names that stay**: what reads names and then removes or changes something holds a
//!   [`Decision`].
//! - An image may come from an attacker: its sizes are limited, its paths are never followed out of the tree, and
//!   its extended attributes cannot influence overlayfs.
//!
//! This crate is not a client of registries and knows no compression of layers. It decides neither where it is nor
//! which users may use it. It reports no progress: a caller can count the bytes of the stream that it passes in.

mod crew;
mod decision;
mod dir;
mod disk;
mod doomed;
mod erofs;
mod error;
mod expected;
mod fault;
mod forms;
mod gap;
mod hashed;
mod held;
mod idle;
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
mod misses;
mod model;
mod names;
mod nodes;
mod objects;
mod parse;
mod parts;
mod patience;
mod recent;
mod removal;
mod share;
mod shifted;
mod store;
mod stored_image;
mod sweep;
#[cfg(test)]
mod tests;
mod tree;
mod trees;
mod usage;
mod verify;
mod whole;
mod writable;

pub use decision::{Decision, Steady};
pub use error::{StoreError, WrongLayer};
pub use forms::TreeMade;
pub use gap::Gap;
pub use index::ImageIndex;
pub use ingest::{Ingest, Slot, Vacancy};
pub use key::{ContentHash, Owners, content_hashes};
pub use layer::{Layer, LayerArchive, LayerSizes};
pub use leased::{Opened, OwnInodes, Tree};
pub use nodes::FileContent;
pub use patience::Patience;
pub use share::ShareHost;
pub use shifted::Shifted;
pub use store::{Store, StoreOptions, sha256};
pub use stored_image::{Image, ImageRecord};
pub use sweep::{Removed, Swept};
pub use tote_archive::{Limits, Shift};
pub use usage::{ImageUsage, Usage};
pub use verify::{Broken, Damage, Depth, Verified};
