//! Storage drivers: how a container's writes are kept apart from the read-only tree of its image.
//!
//! A [`Driver`] is chosen for each container. [`prepare`] makes what it needs on disk and describes the rest as a
//! [`tote_rootfs::Storage`], which the container's own process mounts and copies; [`remove`] takes away what any driver
//! left in a container's directory, and [`probe`] says which drivers there are on this machine.
//!
//! What holds here:
//!
//! - Nothing is mounted: no mount of a container's ever shows on the host.
//! - All that a driver makes for a container is in that container's directory, so it can be removed without knowing how
//!   far a killed command came, and removing twice does no harm. What it makes for an image is finished there before it
//!   goes among the templates.
//! - The image's tree is only read. Its paths are resolved inside it, wherever its links point.
//!
//! This crate is not a store: where trees of images come from, and when they go, is not its business.

mod btrfs;
mod disk;
mod driver;
mod erofs;
mod error;
mod foreign;
mod look;
mod overlay;
mod own;
mod prepare;
mod probe;
mod program;
mod qgroup;
mod remove;
mod split;
mod survey;
mod template;

pub use driver::{Driver, DriverError};
pub use error::PrepareError;
pub use foreign::{MapLine, OwnFiles};
pub use prepare::{Beside, Limit, MountPoint, Prepared, Request, copies_tree, prepare, reads_contents};
pub use probe::{Probe, probe};
pub use remove::{RemoveError, remove, remove_rest};
pub use split::DEFAULT_WRITABLE;
pub use survey::Survey;
pub use template::forget as forget_templates;
