//! Description of a container's root file system.
//!
//! A [`Rootfs`] lists the read-only layers, the writable layer and the bind mounts of a root, and [`Storage`] tells
//! how writes are kept apart from the image. This crate makes the pieces: [`HostImage`] turns the host's own `/usr`
//! into an image without copying it, [`Directory`] checks an unpacked directory, and [`OverlayOptions`] writes the
//! options of overlayfs. [`read_in_root`], [`interpreter_of`] and [`lookup_executable`] look into a root without
//! ever leaving it.
//!
//! Invariants:
//!
//! - The crate mounts nothing. The runtime mounts, from a plan made of these values.
//! - A host image contains no file that other users of the host could not read, and no name of the host's users.
//! - A root may come from an attacker: its symbolic links are resolved inside it, its sizes are limited, and its
//!   device nodes are refused.
//!
//! This crate is not a store: it does not know registries, layer digests or images by name.

mod directory;
mod host;
mod inside;
mod overlay;
mod rootfs;

pub use directory::{Directory, DirectoryError};
pub use host::{HostImage, HostImageError, sweep, sweep_abandoned};
pub use inside::{
    Executable, Interpreter, InterpreterKind, LookupError, Needs, ReadError, executable_in, interpreter_of,
    lookup_executable, read_content, read_content_in_root, read_in_root, resolve_in,
};
pub use overlay::{OverlayOptions, escape_overlay};
pub use rootfs::{
    Bind, CopiedLinks, CopyOf, LinkedName, OwnInodes, OwnTree, Rootfs, Split, Storage, Stub, Upper,
};
