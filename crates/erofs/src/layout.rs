//! Places of inodes and directories in an image.
//!
//! ```text
//! superblock │ shared attributes │ inodes, each with its attributes and, if short, its directory or target │ directories │ data
//! ```
//! The children of a directory follow one another, so that a walk reads few blocks.

use crate::LayoutError;
use crate::format::{
    BLOCK, DIRENT, INODE, NAME_MAX, SLOT, SUPERBLOCK, SUPERBLOCK_SIZE, TARGET_MAX, XATTR_HEADER, chunks,
    xattr_size,
};
use crate::tree::{Node, Tree, Xattr};

/// Places of everything in an image, computed before anything is written.
pub struct Layout<'a> {
    pub(crate) tree: &'a dyn Tree,
    pub(crate) uuid: [u8; 16],
    /// True if the image has the data of its files.
    pub(crate) has_data: bool,
    /// Attributes that are written once for all inodes, and their places.
    pub(crate) shared: Vec<(Xattr<'a>, u64)>,
    /// Inodes in the order of their places; the first is the root.
    pub(crate) placed: Vec<Placed>,
    /// Index in `placed` for each number of the tree.
    indexes: Vec<Option<u32>>,
    /// End of the inodes.
    pub(crate) inodes_end: u64,
    /// Blocks of the image.
    pub(crate) blocks: u32,
}

impl std::fmt::Debug for Layout<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layout")
            .field("inodes", &self.placed.len())
            .field("blocks", &self.blocks)
            .finish_non_exhaustive()
    }
}

/// Place of an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// Its number in the tree.
    pub(crate) number: usize,
    /// Its first byte.
    pub(crate) at: u64,
    /// Index of the directory above it; the root is its own.
    pub(crate) parent: u32,
    pub(crate) links: u32,
    /// Size in bytes, as stat(2) gives it.
    pub(crate) size: u64,
    /// Bytes of its extended attributes, with their header.
    pub(crate) xattrs: u64,
    /// First of its own blocks, if it has any.
    pub(crate) first_block: u32,
    /// Bytes that follow the inode and its attributes.
    pub(crate) tail: u64,
}

impl<'a> Layout<'a> {
    /// Places a tree. `uuid` names the file system: overlayfs needs different ones for different images, to recognise the
    /// files that it copied. Each attribute of `shared` is written once, and its inodes refer to it.
    ///
    /// # Errors
    /// [`LayoutError`] if the format cannot hold the tree.
    pub fn of(
        tree: &'a dyn Tree,
        root: usize,
        uuid: [u8; 16],
        shared: &[Xattr<'a>],
    ) -> Result<Self, LayoutError> {
        Self::place_all(tree, root, uuid, shared, false)
    }

    /// Places a tree with the data of its files, for a kernel that finds them nowhere else. [`Layout::write_with_data`]
    /// writes it.
    ///
    /// # Errors
    /// [`LayoutError`] if the format cannot hold the tree.
    pub fn with_data(tree: &'a dyn Tree, root: usize, uuid: [u8; 16]) -> Result<Self, LayoutError> {
        Self::place_all(tree, root, uuid, &[], true)
    }

    fn place_all(
        tree: &'a dyn Tree,
        root: usize,
        uuid: [u8; 16],
        shared: &[Xattr<'a>],
        has_data: bool,
    ) -> Result<Self, LayoutError> {
        let mut end = SUPERBLOCK + SUPERBLOCK_SIZE as u64;
        let mut placed_shared = Vec::new();
        for xattr in shared {
            placed_shared.push((*xattr, end));
            end += xattr_size(xattr.name, xattr.value)?;
        }
        let mut layout = Self {
            tree,
            uuid,
            has_data,
            shared: placed_shared,
            placed: Vec::new(),
            indexes: Vec::new(),
            inodes_end: end,
            blocks: 0,
        };
        layout.place(root, 0)?;
        let mut next = 0;
        while next < layout.placed.len() {
            layout.place_children(next)?;
            next += 1;
        }
        layout.place_blocks()?;
        Ok(layout)
    }

    /// Returns the size of the image in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::from(self.blocks) * BLOCK
    }

    /// Returns the place of an inode that was placed.
    pub(crate) fn index_of(&self, number: usize) -> Option<u32> {
        self.indexes.get(number).copied().flatten()
    }

    /// Places the inode of a number.
    fn place(&mut self, number: usize, parent: u32) -> Result<(), LayoutError> {
        let index = u32::try_from(self.placed.len()).map_err(|_| LayoutError::Blocks)?;
        let node = self.tree.inode(number).node;
        let xattrs = self.xattrs_size(number)?;
        let (size, tail, movable) = match node {
            Node::Directory => {
                let dir = DirSize::of(self.tree, number)?;
                (dir.size(), dir.last, true)
            }
            Node::Symlink(target) if target.len() > TARGET_MAX => return Err(LayoutError::Target),
            Node::Symlink(target) => (target.len() as u64, target.len() as u64, true),
            Node::File(size) if size > i64::MAX as u64 => return Err(LayoutError::Size),
            Node::File(0) => (0, 0, false),
            Node::File(size) if self.has_data => (size, 0, false),
            Node::File(size) => (size, chunks(size).1 * 4, false),
            Node::Device { .. } | Node::Fifo => (0, 0, false),
        };
        let mut at = self.inodes_end.next_multiple_of(SLOT);
        // An inode is in one block.
        if at % BLOCK > BLOCK - INODE {
            at = at.next_multiple_of(BLOCK);
        }
        let mut tail = tail;
        let own = INODE + xattrs;
        if movable && (at + own) % BLOCK + tail > BLOCK {
            // What follows the inode of a directory or a link must be in one block.
            if own + tail <= BLOCK / 2 {
                at = at.next_multiple_of(BLOCK);
            } else {
                tail = 0;
            }
        }
        self.placed.push(Placed {
            number,
            at,
            parent,
            links: if node == Node::Directory { 2 } else { 1 },
            size,
            xattrs,
            first_block: 0,
            tail,
        });
        if self.indexes.len() <= number {
            self.indexes.resize(number + 1, None);
        }
        self.indexes[number] = Some(index);
        self.inodes_end = at + own + tail;
        Ok(())
    }

    fn place_children(&mut self, index: usize) -> Result<(), LayoutError> {
        let number = self.placed[index].number;
        if self.tree.inode(number).node != Node::Directory {
            return Ok(());
        }
        let parent = u32::try_from(index).map_err(|_| LayoutError::Blocks)?;
        let mut children = Vec::new();
        self.tree.names(number, &mut |_, child| children.push(child));
        for child in children {
            if let Some(known) = self.index_of(child) {
                self.placed[known as usize].links += 1;
                continue;
            }
            if self.tree.inode(child).node == Node::Directory {
                self.placed[index].links += 1;
            }
            self.place(child, parent)?;
        }
        Ok(())
    }

    /// Places what does not follow its inode.
    fn place_blocks(&mut self) -> Result<(), LayoutError> {
        let mut next = self.inodes_end.div_ceil(BLOCK);
        // Directories come first: a walk that reads no file finds them close together.
        for of_files in [false, true] {
            for placed in &mut self.placed {
                let has_blocks = match self.tree.inode(placed.number).node {
                    Node::Directory | Node::Symlink(_) => !of_files,
                    Node::File(_) => of_files && self.has_data,
                    Node::Device { .. } | Node::Fifo => false,
                };
                if has_blocks && placed.size > placed.tail {
                    placed.first_block = u32::try_from(next).map_err(|_| LayoutError::Blocks)?;
                    next += (placed.size - placed.tail).div_ceil(BLOCK);
                }
            }
        }
        self.blocks = u32::try_from(next).map_err(|_| LayoutError::Blocks)?;
        Ok(())
    }

    /// Returns the bytes of all attributes of an inode, with their header; 0 if it has none.
    fn xattrs_size(&self, number: usize) -> Result<u64, LayoutError> {
        let mut size = Ok(0);
        self.tree.xattrs(number, &mut |xattr| {
            if let Ok(sum) = size {
                let more = match self.shared_at(xattr) {
                    Some(_) => Ok(4),
                    None => xattr_size(xattr.name, xattr.value),
                };
                size = more.map(|more| sum + more);
            }
        });
        match size? {
            0 => Ok(0),
            size if size / 4 + 1 > u64::from(u16::MAX) => Err(LayoutError::Xattrs),
            size => Ok(XATTR_HEADER + size),
        }
    }

    /// Returns the place of an attribute that is written once.
    pub(crate) fn shared_at(&self, xattr: Xattr<'_>) -> Option<u64> {
        let found = self.shared.iter().find(|(shared, _)| *shared == xattr);
        found.map(|(_, at)| *at)
    }
}

/// Size of a directory.
#[derive(Clone, Copy, Debug, Default)]
struct DirSize {
    /// Blocks before the last one.
    full: u64,
    /// Bytes in the last block.
    last: u64,
}

impl DirSize {
    fn of(tree: &dyn Tree, number: usize) -> Result<Self, LayoutError> {
        let mut size = Ok(Self::default());
        for_each_entry(tree, number, &mut |name, entry| {
            if let Ok(size) = &mut size {
                size.add(name);
            }
            if matches!(entry, Entry::Child(_)) && !is_name(name) {
                size = Err(LayoutError::Name(String::from_utf8_lossy(name).into_owned()));
            }
        });
        size
    }

    fn add(&mut self, name: &[u8]) {
        let more = DIRENT + name.len() as u64;
        if self.last + more > BLOCK {
            self.full += 1;
            self.last = 0;
        }
        self.last += more;
    }

    fn size(self) -> u64 {
        self.full * BLOCK + self.last
    }
}

/// Entry of a directory that is not a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Itself,
    Parent,
    Child(usize),
}

/// Calls `each` for the entries of a directory, sorted, with `.` and `..` among them.
pub(crate) fn for_each_entry<'a>(tree: &'a dyn Tree, number: usize, each: &mut dyn FnMut(&'a [u8], Entry)) {
    const DOTS: [(&[u8], Entry); 2] = [(b".", Entry::Itself), (b"..", Entry::Parent)];
    let mut dots = DOTS.iter().peekable();
    tree.names(number, &mut |name, child| {
        while let Some((dot, entry)) = dots.next_if(|(dot, _)| *dot < name) {
            each(dot, *entry);
        }
        each(name, Entry::Child(child));
    });
    for (dot, entry) in dots {
        each(dot, *entry);
    }
}

/// True for a name that a child can have.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..")
        && name.len() <= NAME_MAX
        && !name.contains(&0)
        && !name.contains(&b'/')
}
