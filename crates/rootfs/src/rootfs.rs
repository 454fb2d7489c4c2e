//! The description of a root: layers, a writable layer, bind mounts.

use std::ffi::CString;
use std::path::PathBuf;

/// A container's root file system. The value is a description: nothing in it is mounted or checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rootfs {
    /// Read-only layers, the topmost first, as overlayfs counts them. Never empty.
    pub lowers: Vec<PathBuf>,
    /// A tree that overlayfs can show in place of the lowest layer; `None` if there is no such tree.
    pub own_inodes: Option<OwnInodes>,
    /// Destination of the container's writes.
    pub upper: Upper,
    /// Bind mounts on top of the layers, in this order.
    pub binds: Vec<Bind>,
}

/// An image for overlayfs in which every file has an inode of its own. A store that keeps equal files once has one
/// inode for several files, and programs would see that: in link counts, and in inode numbers that change at the
/// first write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnInodes {
    /// The image, with empty files. Attributes of overlayfs's name the files that have the contents.
    pub tree: PathBuf,
    /// Kind of the file system that the image is in, as in `/proc/filesystems`, if `tree` is a file; `None` if it is a
    /// directory.
    pub fs: Option<&'static str>,
    /// The directory of the files with the contents.
    pub contents: PathBuf,
    /// True if the attributes are `user.*`, which overlayfs reads only if it is mounted in a user namespace. With
    /// the wrong kind, empty files would show as zeros.
    pub user_namespace: bool,
}

/// The writable layer of a [`Rootfs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upper {
    /// Writes are kept in memory until the container ends.
    Tmpfs {
        /// Limit in bytes; `None` is the kernel's default, half of the machine's memory.
        size: Option<u64>,
    },
    /// Writes are kept in a directory.
    Dir {
        /// The directory that receives the writes.
        upper: PathBuf,
        /// An empty directory of the same file system, for overlayfs itself.
        work: PathBuf,
        /// True if the container's root is to own a new `upper`, because its maker is another user inside.
        owned: bool,
    },
    /// Writes go to a file system on a block device of its own.
    Disk {
        /// Kind of file system, as in `/proc/filesystems`.
        fs: &'static str,
        /// The device.
        device: PathBuf,
    },
    /// The root is read-only.
    None,
}

/// Separation of a container's writes from its image. The value is a description, as [`Rootfs`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// The container writes to an overlay.
    Overlay {
        /// Read-only layers, the topmost first; never empty.
        lowers: Vec<PathBuf>,
        /// The tree that is mounted in place of the lowest layer, if its attributes are of the kind that the mount
        /// reads.
        own_inodes: Option<OwnInodes>,
        /// Destination of the writes.
        upper: Upper,
        /// True if the writes are not needed after a crash: overlayfs does not sync at the end.
        volatile: bool,
    },
    /// The container writes to an overlay on top of a file that holds a file system.
    Image {
        /// Kind of file system, as in `/proc/filesystems`; it is mounted read-only.
        fs: &'static str,
        /// The file.
        file: PathBuf,
        /// Destination of the writes: a directory, or memory.
        upper: Upper,
    },
    /// The container can only write to copies of some paths; see [`Split`].
    Split(Split),
    /// The container has a tree of its own; see [`OwnTree`].
    Own(OwnTree),
}

/// A root that consists of the image in an overlay without a writable layer, except for paths of which the
/// container has copies. Writing elsewhere is `EROFS`, and stays so for a container that may remount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The image.
    pub tree: PathBuf,
    /// The tree that is mounted in place of the image, if its attributes are of the kind that the mount reads.
    pub own_inodes: Option<OwnInodes>,
    /// The directory that receives the copies; `None` keeps them in memory until the container ends.
    pub copies: Option<PathBuf>,
    /// Limit in bytes of all copies in memory together.
    pub size: Option<u64>,
    /// Writable paths, relative to the root, none below another. They are in the image, or among `stubs`.
    pub writable: Vec<PathBuf>,
    /// Mount points that the image lacks; the overlay gets them from another layer.
    pub stubs: Vec<Stub>,
    /// True if copies share their content with the image until one side writes, if the file system can.
    pub reflink: bool,
}

/// A mount point that an image lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Path relative to the root.
    pub path: PathBuf,
    /// True for an empty file, false for a directory.
    pub file: bool,
    /// Permission bits.
    pub mode: u32,
}

/// A tree that belongs to the container alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTree {
    /// Path of the tree.
    pub path: PathBuf,
    /// The original, from which the container's process makes the tree, because it has the right ids; `None` if the
    /// tree exists already.
    pub copy_of: Option<CopyOf>,
}

/// How a tree is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOf {
    /// The image.
    pub tree: PathBuf,
    /// True if files share their content with the image's until one side writes, if the file system can.
    pub reflink: bool,
    /// Hard links in the copy.
    pub links: CopiedLinks,
}

/// Hard links of a tree that are kept in its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopiedLinks {
    /// All hard links are kept.
    All,
    /// Only these names, sorted, are hard links. For a tree from a store that merges equal files to save space.
    Only(Vec<LinkedName>),
}

/// A name of a file that has several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkedName {
    /// Inode number of the name's directory.
    pub directory: u64,
    /// The name in that directory.
    pub name: CString,
    /// Number that is equal for all names of a file, and different for other files.
    pub file: u64,
}

/// A directory of the host that shows through in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The host's directory, absolute.
    pub source: PathBuf,
    /// Path in the container, relative to its root. The layers have a directory of this name.
    pub target: PathBuf,
    /// True if mounts below the source are included. In a user namespace that is less privileged than the mount
    /// namespace it was copied from, the kernel refuses (`EINVAL`) to bind without them if there are any.
    pub recursive: bool,
    /// True if the mount is read-only.
    pub read_only: bool,
    /// True if set-user-id bits and file capabilities have no effect.
    pub nosuid: bool,
    /// True if device nodes cannot be opened.
    pub nodev: bool,
}

impl Bind {
    /// Binds a program directory of the host: `name` below `/`, read-only, without privileges, without mounts below
    /// it.
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
