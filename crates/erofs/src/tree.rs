//! The tree that becomes an image.

/// A tree of inodes, which are named by numbers of the caller's.
pub trait Tree {
    /// Returns the inode of a number.
    fn inode(&self, number: usize) -> Inode<'_>;

    /// Calls `each` for each name in a directory, in the order of their bytes, with the number of its inode.
    fn names<'a>(&'a self, number: usize, each: &mut dyn FnMut(&'a [u8], usize));

    /// Calls `each` for each extended attribute of an inode, always in the same order.
    fn xattrs(&self, number: usize, each: &mut dyn FnMut(Xattr<'_>));
}

/// An inode, without its names and extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode<'a> {
    /// Permissions with setuid, setgid and sticky.
    pub mode: u16,
    /// User that owns it.
    pub uid: u32,
    /// Group that owns it.
    pub gid: u32,
    /// Modification time in seconds since 1970.
    pub secs: i64,
    /// Nanoseconds of the modification time.
    pub nanos: u32,
    /// Kind of the file.
    pub node: Node<'a>,
}

/// Kind of a file, with what only this kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node<'a> {
    /// A directory.
    Directory,
    /// A regular file of that size in bytes, whose data the tree does not have.
    File(u64),
    /// A symbolic link with its target.
    Symlink(&'a [u8]),
    /// A device node.
    Device {
        /// True for a block device, false for a character device.
        block: bool,
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
}

/// An extended attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xattr<'a> {
    /// The whole name.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}
