//! Storage drivers: separation of a container's writes from the read-only tree of its image.
//!
//! A [`Driver`] is chosen for each container. [`prepare`] makes its parts on disk and describes the rest as a
//! [`tote_rootfs::Storage`], which the container's own process mounts and copies. [`remove`] removes everything
//! that any driver left in a container's directory, and [`probe`] lists the drivers that work on this machine.
//!
//! Invariants:
//!
//! - The crate mounts nothing: no mount of a container shows on the host, but for that of `tote mount`.
//! - All files that a driver makes for a container are in that container's directory. So they can be removed
//!   without knowing how far a killed command came, and removing twice does no harm. Files for an image are
//!   finished in that directory before they become templates.
//! - The image's tree is only read. Its paths are resolved inside it, wherever its links point.
//!
//! This crate is not a store: it does not decide where trees of images come from, or when they are removed.

mod btrfs;
mod directory;
mod disk;
mod driver;
mod erofs;
mod error;
mod foreign;
mod look;
mod overlay;
mod own;
mod prepare;
mod prepared;
mod probe;
mod program;
mod qgroup;
mod remove;
mod request;
mod split;
mod survey;
mod template;

pub use disk::make_disk;
pub use driver::{Driver, DriverError};
pub use error::PrepareError;
pub use foreign::OwnFiles;
pub use prepare::{copies_tree, prepare, reads_contents};
pub use prepared::{Beside, Limit, Prepared};
pub use probe::{Probe, probe};
pub use remove::{RemoveError, remove, remove_rest};
pub use request::{MountPoint, Request};
pub use split::DEFAULT_WRITABLE;
pub use survey::Survey;
pub use template::forget as forget_templates;
