//! The description of a root: layers, a writable layer, bind mounts.

use std::ffi::CString;
use std::path::PathBuf;

/// What a container's root is made of. A description: nothing in it is mounted or checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rootfs {
    /// Read-only layers, the topmost first, as overlayfs counts them. Never empty.
    pub lowers: Vec<PathBuf>,
    /// A tree that overlayfs can show in place of the lowest layer, where there is one.
    pub own_inodes: Option<OwnInodes>,
    /// Where the container's writes go.
    pub upper: Upper,
    /// Mounted on top of the layers, in this order.
    pub binds: Vec<Bind>,
}

/// An image for overlayfs, in which files have inodes of the image's own. A store that keeps every file once has one inode
/// for several files, and programs would see that: in link counts, and in inode numbers that change at the first write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnInodes {
    /// The image, with empty files. Attributes of overlayfs's name the files that have the contents.
    pub tree: PathBuf,
    /// The directory of these.
    pub contents: PathBuf,
    /// Whether the attributes are `user.*`, which overlayfs reads if it is mounted in a user namespace and else not; an empty
    /// file would show as zeros.
    pub user_namespace: bool,
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
    /// Writes go to a file system on a block device, which has nothing else on it.
    Disk {
        /// The kind of file system, as in `/proc/filesystems`.
        fs: &'static str,
        /// The device.
        device: PathBuf,
    },
    /// The root is read-only.
    None,
}

/// How a container's writes are kept apart from its image. A description, as [`Rootfs`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// By overlayfs.
    Overlay {
        /// Read-only layers, the topmost first; never empty.
        lowers: Vec<PathBuf>,
        /// The tree that is mounted in place of the lowest one, where its attributes are those that the mount reads.
        own_inodes: Option<OwnInodes>,
        /// Where the writes go.
        upper: Upper,
        /// Whether nobody wants the writes after a crash: no sync at the end.
        volatile: bool,
    },
    /// By overlayfs on top of a file that holds a file system.
    Image {
        /// The kind of file system, as in `/proc/filesystems`; it is mounted read-only.
        fs: &'static str,
        /// The file.
        file: PathBuf,
        /// Where the writes go: a directory, or memory.
        upper: Upper,
    },
    /// By letting it write only to copies of some paths; see [`Split`].
    Split(Split),
    /// By giving it a tree of its own; see [`OwnTree`].
    Own(OwnTree),
}

/// A root that is the image below an overlay without a writable layer, but for the paths of which the container has copies.
/// Writing elsewhere is `EROFS`, and stays so for a container that may remount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The image.
    pub tree: PathBuf,
    /// The tree that is mounted in its place, where its attributes are those that the mount reads.
    pub own_inodes: Option<OwnInodes>,
    /// The directory that receives the copies; `None` is memory, and they die with the container.
    pub copies: Option<PathBuf>,
    /// Where they are in memory, the limit in bytes of all together.
    pub size: Option<u64>,
    /// Which paths, relative to the root, none below another. They are in the image, or among `stubs`.
    pub writable: Vec<PathBuf>,
    /// What the image lacks, and something is going to be mounted on: the overlay has it from another layer.
    pub stubs: Vec<Stub>,
    /// Whether copies share their content with the image until one side writes, where the file system can.
    pub reflink: bool,
}

/// A mount point that an image lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Relative to the root.
    pub path: PathBuf,
    /// An empty file rather than a directory.
    pub file: bool,
    /// Permission bits.
    pub mode: u32,
}

/// A tree that is the container's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTree {
    /// Where it is.
    pub path: PathBuf,
    /// What it is made from by the container's process, which has the ids to do so; `None` where it is there already.
    pub copy_of: Option<CopyOf>,
}

/// How a tree is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOf {
    /// The image.
    pub tree: PathBuf,
    /// Whether files share their content with the image's until one side writes, where the file system can.
    pub reflink: bool,
    /// Which names are one file in the copy.
    pub links: CopiedLinks,
}

/// Which names of a tree are one file in its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopiedLinks {
    /// All names of one file of the tree stay names of one file.
    All,
    /// Only these, sorted, where a store makes one file of equal ones to save space.
    Only(Vec<LinkedName>),
}

/// A name of a file that has several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkedName {
    /// The inode number of the directory that it is in.
    pub directory: u64,
    /// The name there.
    pub name: CString,
    /// The same for all names of that file, and for no other.
    pub file: u64,
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
