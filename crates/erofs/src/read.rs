//! Looking into an image without a mount.

use crate::ReadError;
use crate::format::{
    BLOCK, BLOCK_BITS, CHUNKED, CHUNKS, DIRECTORY, DIRENT, INLINE, INODE, KINDS, LONG, MAGIC, PLAIN, REGULAR,
    SLOT, SUPERBLOCK, SUPERBLOCK_SIZE, SYMLINK, TARGET_MAX, XATTR_ENTRY, XATTR_HEADER, split_xattr,
};
use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, PoisonError};

/// Largest number of symbolic links on a path, as in path_resolution(7).
const LINKS: usize = 40;
/// Largest directory that is read, in bytes: a tree in memory is limited before.
const DIRECTORY_MAX: u64 = 1 << 30;

/// An image that [`Layout`](crate::Layout) wrote, open for reading. Other images of EROFS are not understood.
#[derive(Debug)]
pub struct Image {
    file: File,
    size: u64,
    root: u64,
    /// The block that was read last, and its number.
    block: Mutex<(u64, Vec<u8>)>,
}

/// Kind of a found file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Any other kind.
    Other,
}

/// An inode of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Number of the inode, as stat(2) gives it.
    pub number: u64,
    /// Kind of the file.
    pub kind: Kind,
    /// Mode, with the kind, as stat(2) gives it.
    pub mode: u16,
    /// Size in bytes.
    pub size: u64,
    format: u16,
    /// First block of its data.
    place: u32,
    /// Bytes of its extended attributes, with their header.
    xattrs: u64,
}

/// Place of an attribute's value: its first byte and its length.
type Value = (u64, usize);

impl Image {
    /// Opens an image.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(file: File) -> Result<Self, ReadError> {
        let size = file.metadata().map_err(ReadError::Io)?.len();
        let mut image = Self {
            file,
            size,
            root: 0,
            block: Mutex::new((u64::MAX, Vec::new())),
        };
        let mut superblock = [0; SUPERBLOCK_SIZE];
        image.read(SUPERBLOCK, &mut superblock)?;
        let blocks = u64::from(u32_at(&superblock, 36));
        let is_right = u32_at(&superblock, 0) == MAGIC
            && superblock[12] == BLOCK_BITS
            && u32_at(&superblock, 80) == CHUNKED
            && blocks * BLOCK == size;
        if !is_right {
            return Err(ReadError::Damaged("its superblock is another one"));
        }
        image.root = u64::from(u16_at(&superblock, 14));
        Ok(image)
    }

    /// Returns the root directory.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn root(&self) -> Result<Found, ReadError> {
        self.inode(self.root)
    }

    /// Finds the file of a path, which begins at the root; symbolic links are followed and lead nowhere else.
    /// `None` if nothing has that path.
    ///
    /// # Errors
    /// [`ReadError`], also for too many symbolic links.
    pub fn find(&self, path: &[u8]) -> Result<Option<Found>, ReadError> {
        let mut above = vec![self.root()?];
        let mut rest: VecDeque<Vec<u8>> = names_of(path).collect();
        let mut links = 0;
        let mut file = None;
        while let Some(name) = rest.pop_front() {
            // Only a directory has something below it.
            let (None, Some(here)) = (file, above.last()) else {
                return Ok(None);
            };
            if name == b".." {
                above.truncate((above.len() - 1).max(1));
                continue;
            }
            let Some(found) = self.child(here, &name)? else {
                return Ok(None);
            };
            match found.kind {
                Kind::Directory => above.push(found),
                Kind::Symlink => {
                    links += 1;
                    if links > LINKS {
                        return Err(ReadError::Damaged("too many symbolic links are on the way"));
                    }
                    let target = self.target(&found)?;
                    if target.starts_with(b"/") {
                        above.truncate(1);
                    }
                    for name in names_of(&target).rev() {
                        rest.push_front(name);
                    }
                }
                Kind::File | Kind::Other => file = Some(found),
            }
        }
        Ok(file.or(above.last().copied()))
    }

    /// Returns the value of an extended attribute that the inode itself has; `None` if it has none of this name.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn xattr(&self, of: &Found, name: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let Ok((prefix, rest)) = split_xattr(name) else {
            return Ok(None);
        };
        let Some((at, length)) = self.find_xattr(of, prefix, rest)? else {
            return Ok(None);
        };
        let mut value = vec![0; length];
        self.read(at, &mut value)?;
        Ok(Some(value))
    }

    /// Calls `each` for each inode once, the root first.
    ///
    /// # Errors
    /// [`ReadError`], and those of `each`.
    pub fn for_each<E: From<ReadError>>(
        &self,
        mut each: impl FnMut(&Found) -> Result<(), E>,
    ) -> Result<(), E> {
        let root = self.root()?;
        let mut seen = HashSet::from([root.number]);
        let mut open = vec![root];
        each(&root)?;
        while let Some(dir) = open.pop() {
            let mut children = Vec::new();
            self.entries(&dir, &mut |name, number| {
                if name != b"." && name != b".." {
                    children.push(number);
                }
                true
            })?;
            for number in children {
                if seen.insert(number) {
                    let found = self.inode(number)?;
                    each(&found)?;
                    if found.kind == Kind::Directory {
                        open.push(found);
                    }
                }
            }
        }
        Ok(())
    }

    fn inode(&self, number: u64) -> Result<Found, ReadError> {
        let at = number.checked_mul(SLOT).ok_or(OUTSIDE)?;
        let mut bytes = [0; INODE as usize];
        self.read(at, &mut bytes)?;
        let format = u16_at(&bytes, 0);
        if format & LONG == 0 {
            return Err(ReadError::Damaged("an inode has another form"));
        }
        let mode = u16_at(&bytes, 4);
        let xattrs = match u64::from(u16_at(&bytes, 2)) {
            0 => 0,
            count => XATTR_HEADER + (count - 1) * 4,
        };
        Ok(Found {
            number,
            kind: match mode & KINDS {
                REGULAR => Kind::File,
                DIRECTORY => Kind::Directory,
                SYMLINK => Kind::Symlink,
                _ => Kind::Other,
            },
            mode,
            size: u64_at(&bytes, 8),
            format: format >> 1,
            place: u32_at(&bytes, 16),
            xattrs,
        })
    }

    fn child(&self, dir: &Found, name: &[u8]) -> Result<Option<Found>, ReadError> {
        let mut child = None;
        self.entries(dir, &mut |entry, number| {
            if entry == name {
                child = Some(number);
            }
            entry < name
        })?;
        child.map(|number| self.inode(number)).transpose()
    }

    /// Calls `each` for the entries of a directory as long as it returns true.
    fn entries(&self, dir: &Found, each: &mut dyn FnMut(&[u8], u64) -> bool) -> Result<(), ReadError> {
        if dir.kind != Kind::Directory || dir.size > DIRECTORY_MAX {
            return Err(ReadError::Damaged("a directory is too large"));
        }
        let mut done = 0;
        let mut block = Vec::new();
        while done < dir.size {
            let length = (dir.size - done).min(BLOCK);
            block.resize(usize::try_from(length).unwrap_or_default(), 0);
            self.read(self.place(dir, done)?, &mut block)?;
            if !entries_of(&block, each)? {
                return Ok(());
            }
            done += length;
        }
        Ok(())
    }

    fn target(&self, link: &Found) -> Result<Vec<u8>, ReadError> {
        let length = usize::try_from(link.size).unwrap_or(usize::MAX);
        if length > TARGET_MAX {
            return Err(ReadError::Damaged("a symbolic link is too long"));
        }
        let mut target = vec![0; length];
        self.read(self.place(link, 0)?, &mut target)?;
        Ok(target)
    }

    /// Returns the place of a part of a directory or link, which begins with a block.
    fn place(&self, of: &Found, offset: u64) -> Result<u64, ReadError> {
        let is_last = of.size - offset <= BLOCK;
        match of.format {
            // A last block that is full is not after its inode.
            INLINE if is_last && of.size - offset < BLOCK => Ok(Self::after(of)),
            INLINE | PLAIN => Ok(u64::from(of.place) * BLOCK + offset),
            CHUNKS => Err(ReadError::Damaged("a directory is a file")),
            _ => Err(ReadError::Damaged("an inode has another form")),
        }
    }

    /// Returns the place after an inode and its attributes.
    fn after(of: &Found) -> u64 {
        of.number * SLOT + INODE + of.xattrs
    }

    fn find_xattr(&self, of: &Found, prefix: u8, rest: &[u8]) -> Result<Option<Value>, ReadError> {
        if of.xattrs == 0 {
            return Ok(None);
        }
        let begin = of.number * SLOT + INODE;
        let mut header = [0; XATTR_HEADER as usize];
        self.read(begin, &mut header)?;
        let end = begin + of.xattrs;
        let mut at = begin + XATTR_HEADER + u64::from(header[4]) * 4;
        while at + XATTR_ENTRY <= end {
            let mut entry = [0; XATTR_ENTRY as usize];
            self.read(at, &mut entry)?;
            let (name, length) = (usize::from(entry[0]), usize::from(u16_at(&entry, 2)));
            let value = at + XATTR_ENTRY + name as u64;
            if entry[1] == prefix && name == rest.len() {
                let mut found = vec![0; name];
                self.read(at + XATTR_ENTRY, &mut found)?;
                if found == rest {
                    return Ok(Some((value, length)));
                }
            }
            at = (value + length as u64).next_multiple_of(4);
        }
        Ok(None)
    }

    /// Reads some bytes, which may be in several blocks.
    fn read(&self, mut at: u64, mut out: &mut [u8]) -> Result<(), ReadError> {
        if at.checked_add(out.len() as u64).is_none_or(|end| end > self.size) {
            return Err(OUTSIDE);
        }
        let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        while !out.is_empty() {
            let number = at / BLOCK;
            if block.0 != number {
                block.0 = u64::MAX;
                let length = (self.size - number * BLOCK).min(BLOCK);
                block.1.resize(usize::try_from(length).unwrap_or_default(), 0);
                let read = self.file.read_exact_at(&mut block.1, number * BLOCK);
                read.map_err(ReadError::Io)?;
                block.0 = number;
            }
            let from = usize::try_from(at % BLOCK).unwrap_or_default();
            let length = out.len().min(block.1.len() - from);
            let (now, later) = out.split_at_mut(length);
            now.copy_from_slice(&block.1[from..from + length]);
            out = later;
            at += length as u64;
        }
        Ok(())
    }
}

/// Error of a place beyond the end of the image.
const OUTSIDE: ReadError = ReadError::Damaged("something is beyond its end");

/// Calls `each` for the entries in a block of a directory as long as it returns true, and returns whether it always did.
fn entries_of(block: &[u8], each: &mut dyn FnMut(&[u8], u64) -> bool) -> Result<bool, ReadError> {
    const DAMAGED: ReadError = ReadError::Damaged("a directory has wrong names");
    let size = DIRENT as usize;
    if block.len() < size {
        return Err(DAMAGED);
    }
    let count = usize::from(u16_at(block, 8)) / size;
    if count == 0 || count * size > block.len() {
        return Err(DAMAGED);
    }
    for index in 0..count {
        let entry = &block[index * size..][..size];
        let begin = usize::from(u16_at(entry, 8));
        let end = match index + 1 < count {
            true => usize::from(u16_at(&block[(index + 1) * size..], 8)),
            false => block.len(),
        };
        let name = block.get(begin..end).ok_or(DAMAGED)?;
        // Zeros fill up the last name of a block.
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        if !each(&name[..length], u64_at(entry, 0)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn names_of(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    let names = path.split(|byte| *byte == b'/');
    names
        .filter(|name| !name.is_empty() && *name != b".")
        .map(<[u8]>::to_vec)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let mut value = [0; 2];
    value.copy_from_slice(&bytes[at..at + 2]);
    u16::from_le_bytes(value)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}
