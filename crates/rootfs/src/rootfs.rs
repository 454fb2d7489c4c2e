//! The description of a root: layers, a writable layer, bind mounts.

use std::path::PathBuf;

/// What a container's root is made of. A description: nothing in it is mounted or checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rootfs {
    /// Read-only layers, the topmost first, as overlayfs counts them. Never empty.
    pub lowers: Vec<PathBuf>,
    /// Where the container's writes go.
    pub upper: Upper,
    /// Mounted on top of the layers, in this order.
    pub binds: Vec<Bind>,
}

/// The writable layer of a [`Rootfs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upper {
    /// Writes live in memory and die with the container.
    Tmpfs {
        /// The limit in bytes; `None` is the kernel's default, half of the machine's memory.
        size: Option<u64>,
    },
    /// Writes are kept in a directory.
    Dir {
        /// The directory that receives the writes.
        upper: PathBuf,
        /// An empty directory of the same file system, overlayfs's own.
        work: PathBuf,
    },
    /// The root is read-only.
    None,
}

/// A directory of the host that shows through in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The host's directory, absolute.
    pub source: PathBuf,
    /// Where it appears, relative to the container's root. The layers have a directory of this name.
    pub target: PathBuf,
    /// Whether mounts below the source come along. In a user namespace that is less privileged than the mount
    /// namespace it was copied from, the kernel refuses (`EINVAL`) to bind without them where there are any.
    pub recursive: bool,
    /// No writes through the mount.
    pub read_only: bool,
    /// Set-user-id bits and file capabilities have no effect.
    pub nosuid: bool,
    /// Device nodes do not open.
    pub nodev: bool,
}

impl Bind {
    /// A program directory of the host: `name` below `/`, read-only, without privileges, without mounts below it.
    #[must_use]
    pub(crate) fn of_host(name: &str) -> Self {
        Bind {
            source: PathBuf::from(format!("/{name}")),
            target: PathBuf::from(name),
            recursive: false,
            read_only: true,
            nosuid: true,
            nodev: true,
        }
    }
}
