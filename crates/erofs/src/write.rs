//! The bytes of an image.

use crate::format::{
    BLOCK, BLOCK_BITS, BLOCK_DEVICE, CHARACTER, CHUNKED, CHUNKS, DIRECTORY, DIRENT, FIFO, HOLE, INLINE, LONG,
    MAGIC, PLAIN, REGULAR, SLOT, SUPERBLOCK, SYMLINK, XATTR_HEADER, chunks, device, dirent_kind, split_xattr,
};
use crate::layout::{Entry, Layout, Placed, for_each_entry};
use crate::tree::{Inode, Node, Xattr};
use std::io::{BufWriter, ErrorKind, Write};

/// Bytes that are collected before they are written.
const BUFFER: usize = 256 << 10;

impl Layout<'_> {
    /// Writes the image, which has no data of files.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: impl Write) -> std::io::Result<()> {
        self.write_with_data(out, &mut |_, _| Ok(()))
    }

    /// Writes the image. `data` writes the data of the file with a number of the tree's; it must have the size that the tree
    /// says.
    ///
    /// # Errors
    /// Those of `out` and `data`; [`ErrorKind::InvalidData`] if the data of a file have another size.
    pub fn write_with_data(
        &self,
        out: impl Write,
        data: &mut dyn FnMut(usize, &mut dyn Write) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut out = Output {
            out: BufWriter::with_capacity(BUFFER, out),
            at: 0,
        };
        self.write_head(&mut out)?;
        for (begin, size, number) in self.files() {
            out.pad_to(begin)?;
            data(number, &mut out)?;
            if out.at != begin + size {
                return Err(ErrorKind::InvalidData.into());
            }
        }
        out.pad_to(self.size())?;
        out.out.flush()
    }

    /// Returns the image up to the data of its files, for a reader who gets these from elsewhere: [`Layout::files`] says where
    /// they are.
    ///
    /// # Errors
    /// None but for a lack of memory.
    pub fn head(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut out = Output {
            out: BufWriter::with_capacity(BUFFER, &mut bytes),
            at: 0,
        };
        self.write_head(&mut out)?;
        out.out.flush()?;
        drop(out);
        Ok(bytes)
    }

    /// Iterates over the files with data, in the order of their places: the first byte of each, its size, and the number of the tree's.
    pub fn files(&self) -> impl Iterator<Item = (u64, u64, usize)> {
        let files = self
            .placed
            .iter()
            .filter(|placed| placed.first_block > 0 && self.is_file(placed));
        files.map(|placed| (u64::from(placed.first_block) * BLOCK, placed.size, placed.number))
    }

    /// Writes everything but the data of files.
    fn write_head<W: Write>(&self, out: &mut Output<W>) -> std::io::Result<()> {
        out.pad_to(SUPERBLOCK)?;
        out.put(&self.superblock())?;
        let mut bytes = Vec::new();
        for (xattr, at) in &self.shared {
            out.pad_to(*at)?;
            bytes.clear();
            push_xattr(&mut bytes, *xattr);
            out.put(&bytes)?;
        }
        for placed in &self.placed {
            bytes.clear();
            self.push_inode(placed, &mut bytes);
            out.pad_to(placed.at)?;
            out.put(&bytes)?;
        }
        for placed in &self.placed {
            if placed.first_block > 0 && !self.is_file(placed) {
                bytes.clear();
                self.push_data(placed, &mut bytes);
                let own = bytes.len() - usize::try_from(placed.tail).unwrap_or(bytes.len());
                out.pad_to(u64::from(placed.first_block) * BLOCK)?;
                out.put(&bytes[..own])?;
            }
        }
        Ok(())
    }

    fn is_file(&self, placed: &Placed) -> bool {
        matches!(self.tree.inode(placed.number).node, Node::File(_))
    }

    fn superblock(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        push_u32(&mut bytes, MAGIC);
        // No checksum, and no features that older kernels may ignore.
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&[BLOCK_BITS, 0]);
        // The root comes first, so that its number fits.
        let root = self.placed.first().map_or(0, |root| root.at / SLOT);
        push_u16(&mut bytes, u16::try_from(root).unwrap_or_default());
        push_u64(&mut bytes, self.placed.len() as u64);
        // Time of the short inodes, which this crate does not write.
        bytes.extend_from_slice(&[0; 12]);
        push_u32(&mut bytes, self.blocks);
        // Inodes and shared attributes are counted from the first block.
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&self.uuid);
        // The volume has no name.
        bytes.extend_from_slice(&[0; 16]);
        push_u32(&mut bytes, CHUNKED);
        bytes.resize(128, 0);
        bytes
    }

    fn push_inode(&self, placed: &Placed, bytes: &mut Vec<u8>) {
        let inode = self.tree.inode(placed.number);
        let xattrs = placed.xattrs.saturating_sub(XATTR_HEADER) / 4;
        let count = if placed.xattrs == 0 { 0 } else { xattrs + 1 };
        let inlined = placed.tail > 0;
        let (kind, layout, place) = match inode.node {
            Node::Directory if inlined => (DIRECTORY, INLINE, placed.first_block),
            Node::Directory => (DIRECTORY, PLAIN, placed.first_block),
            Node::Symlink(_) if inlined => (SYMLINK, INLINE, 0),
            Node::Symlink(_) => (SYMLINK, PLAIN, placed.first_block),
            Node::File(0) => (REGULAR, PLAIN, 0),
            Node::File(_) if self.has_data => (REGULAR, PLAIN, placed.first_block),
            Node::File(size) => (REGULAR, CHUNKS, chunks(size).0 - u32::from(BLOCK_BITS)),
            Node::Device { block, major, minor } => {
                let kind = if block { BLOCK_DEVICE } else { CHARACTER };
                (kind, PLAIN, device(major, minor))
            }
            Node::Fifo => (FIFO, PLAIN, 0),
        };
        push_u16(bytes, LONG | layout << 1);
        push_u16(bytes, u16::try_from(count).unwrap_or_default());
        push_u16(bytes, kind | inode.mode & 0o7777);
        push_u16(bytes, 0);
        push_u64(bytes, placed.size);
        push_u32(bytes, place);
        // A number for stat(2) of 32 bits.
        push_u32(bytes, u32::try_from(placed.at / SLOT).unwrap_or_default());
        self.push_owner_and_times(&inode, placed, bytes);
        self.push_xattrs(placed, bytes);
        match inode.node {
            Node::File(size) if size > 0 && !self.has_data => {
                for _ in 0..chunks(size).1 {
                    push_u32(bytes, HOLE);
                }
            }
            Node::Directory | Node::Symlink(_) if inlined => {
                let mut data = Vec::new();
                self.push_data(placed, &mut data);
                let tail = usize::try_from(placed.tail).unwrap_or_default().min(data.len());
                bytes.extend_from_slice(&data[data.len() - tail..]);
            }
            _ => {}
        }
    }

    fn push_owner_and_times(&self, inode: &Inode<'_>, placed: &Placed, bytes: &mut Vec<u8>) {
        push_u32(bytes, inode.uid);
        push_u32(bytes, inode.gid);
        bytes.extend_from_slice(&inode.secs.to_le_bytes());
        push_u32(bytes, inode.nanos);
        push_u32(bytes, placed.links);
        bytes.extend_from_slice(&[0; 16]);
    }

    fn push_xattrs(&self, placed: &Placed, bytes: &mut Vec<u8>) {
        if placed.xattrs == 0 {
            return;
        }
        let (mut shared, mut own) = (Vec::new(), Vec::new());
        self.tree
            .xattrs(placed.number, &mut |xattr| match self.shared_at(xattr) {
                Some(at) => push_u32(&mut shared, u32::try_from(at / 4).unwrap_or_default()),
                None => push_xattr(&mut own, xattr),
            });
        push_u32(bytes, 0);
        bytes.push(u8::try_from(shared.len() / 4).unwrap_or_default());
        bytes.extend_from_slice(&[0; 7]);
        bytes.extend_from_slice(&shared);
        bytes.extend_from_slice(&own);
    }

    /// Appends all entries of a directory, or the target of a link.
    fn push_data(&self, placed: &Placed, bytes: &mut Vec<u8>) {
        if let Node::Symlink(target) = self.tree.inode(placed.number).node {
            bytes.extend_from_slice(target);
            return;
        }
        let mut block: Vec<(&[u8], Entry)> = Vec::new();
        let mut used = 0;
        for_each_entry(self.tree, placed.number, &mut |name, entry| {
            let more = DIRENT + name.len() as u64;
            if used + more > BLOCK {
                self.push_entries(placed, &block, bytes);
                bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
                block.clear();
                used = 0;
            }
            block.push((name, entry));
            used += more;
        });
        self.push_entries(placed, &block, bytes);
    }

    fn push_entries(&self, dir: &Placed, entries: &[(&[u8], Entry)], bytes: &mut Vec<u8>) {
        let mut name_at = entries.len() * DIRENT as usize;
        for (name, entry) in entries {
            let (at, mode) = match entry {
                Entry::Itself => (dir.at, DIRECTORY),
                Entry::Parent => (self.placed[dir.parent as usize].at, DIRECTORY),
                Entry::Child(number) => self.child(*number),
            };
            push_u64(bytes, at / SLOT);
            push_u16(bytes, u16::try_from(name_at).unwrap_or_default());
            bytes.extend_from_slice(&[dirent_kind(mode), 0]);
            name_at += name.len();
        }
        for (name, _) in entries {
            bytes.extend_from_slice(name);
        }
    }

    /// Returns the place and the kind of a child.
    fn child(&self, number: usize) -> (u64, u16) {
        let kind = match self.tree.inode(number).node {
            Node::Directory => DIRECTORY,
            Node::File(_) => REGULAR,
            Node::Symlink(_) => SYMLINK,
            Node::Device { block: true, .. } => BLOCK_DEVICE,
            Node::Device { block: false, .. } => CHARACTER,
            Node::Fifo => FIFO,
        };
        let index = self.index_of(number).unwrap_or_default();
        (self.placed[index as usize].at, kind)
    }
}

/// A writer that knows how much was written.
struct Output<W: Write> {
    out: BufWriter<W>,
    at: u64,
}

impl<W: Write> Output<W> {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn pad_to(&mut self, at: u64) -> std::io::Result<()> {
        const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
        while self.at < at {
            let length = (at - self.at).min(BLOCK);
            self.put(&ZEROS[..usize::try_from(length).unwrap_or_default()])?;
        }
        Ok(())
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.put(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn push_xattr(bytes: &mut Vec<u8>, xattr: Xattr<'_>) {
    // The layout has accepted the name.
    let (prefix, rest) = split_xattr(xattr.name).unwrap_or((0, b""));
    bytes.extend_from_slice(&[u8::try_from(rest.len()).unwrap_or_default(), prefix]);
    push_u16(bytes, u16::try_from(xattr.value.len()).unwrap_or_default());
    bytes.extend_from_slice(rest);
    bytes.extend_from_slice(xattr.value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn push_u16(bytes: &mut Vec<u8>, value: u16) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn push_u32(bytes: &mut Vec<u8>, value: u32) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn push_u64(bytes: &mut Vec<u8>, value: u64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}
