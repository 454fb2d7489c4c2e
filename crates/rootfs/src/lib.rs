//! What the root of a container is made of.
//!
//! A [`Rootfs`] says which read-only layers, which writable layer and which bind mounts make a root, and [`Storage`] how
//! writes are kept apart from them; the pieces come from here: [`HostImage`] turns the host's own `/usr` into an image
//! without copying it, [`Directory`] checks a directory somebody unpacked, and [`OverlayOptions`] says the whole in
//! overlayfs's words. [`read_in_root`], [`interpreter_of`] and [`lookup_executable`] look into a root without ever
//! leaving it.
//!
//! What holds here:
//!
//! - Nothing is mounted. The runtime mounts, from a plan made of these values.
//! - A host image holds nothing that a stranger on the host could not read, and no name of the host's people.
//! - A root is enemy territory: its symbolic links, its sizes and its device nodes are resolved, bounded and refused.
//!
//! This crate is not a store: it knows no registry, no layer digests and no images by name.

mod directory;
mod host;
mod inside;
mod overlay;
mod rootfs;

pub use directory::{Directory, DirectoryError};
pub use host::{HostImage, HostImageError, private_paths, sweep, sweep_abandoned};
pub use inside::{
    Interpreter, InterpreterKind, LookupError, ReadError, interpreter_of, lookup_executable,
    read_content_in_root, read_in_root,
};
pub use overlay::{OverlayOptions, escape_overlay};
pub use rootfs::{
    Bind, CopiedLinks, CopyOf, LinkedName, OwnInodes, OwnTree, Rootfs, Split, Storage, Stub, Upper,
};
