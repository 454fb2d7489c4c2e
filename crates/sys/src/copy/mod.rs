//! Copies of trees: for `tmpcopyup`, and for a container that writes into a copy of its image.
//!
//! The tree belongs to a stranger: the copy follows no link in it, opens nothing but directories and regular files,
//! and limits the depth. Owners, modes, times, extended attributes, holes and, on request, hard links are kept;
//! sockets, whose servers are gone, and mounts in the tree are left out.

mod content;
mod like;

use crate::Errno;
use content::Content;
use like::{Buffers, like};
pub(crate) use like::{chmod_node, times_of};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;

/// Levels that a copy descends. A level takes about 9 KiB of the stack and a few descriptors.
const DEPTH: u32 = 128;

/// Directory in which copies of files with several names wait for the other names.
const LINKS: &CStr = c".tote-links";

/// A tree to copy, and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeCopy {
    /// Original, a directory on the host.
    pub from: CString,
    /// Name on the host until the copy is complete; it does not exist before.
    pub fresh: CString,
    /// Final name, in the same directory.
    pub to: CString,
    /// Options of the copy.
    pub how: CopyMode,
    /// The only names that share one file in the copy, sorted; `None` keeps the links of the original.
    pub links: Option<Vec<LinkedName>>,
}

/// Name of a file that has several in the copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkedName {
    /// Inode number of the original's directory that contains it.
    pub directory: u64,
    /// Name in that directory.
    pub name: CString,
    /// Number of the file: equal for all its names, different for other files.
    pub file: u64,
}

/// Options of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyMode {
    /// True if contents are shared until one side writes, on file systems with `FICLONE`.
    pub reflink: bool,
    /// True if hard links stay hard links in the copy.
    pub hard_links: bool,
}

/// Copies the contents of a directory, which may be held by O_PATH, and the directory's own attributes.
pub(crate) fn copy_up(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
    copy_below(from, to, CopyMode::default())
}

/// Copies a tree, and gives the copy its final name when it is complete.
pub(crate) fn copy_tree(copy: &TreeCopy) -> Result<(), Errno> {
    let from = open_dir(CWD, &copy.from, OFlags::empty())?;
    rustix::fs::mkdirat(CWD, copy.fresh.as_c_str(), Mode::RWXU)?;
    let to = open_dir(CWD, &copy.fresh, OFlags::NOFOLLOW)?;
    copy_linked(from.as_fd(), to.as_fd(), copy.how, copy.links.as_deref())?;
    rustix::fs::renameat(CWD, copy.fresh.as_c_str(), CWD, copy.to.as_c_str())
}

/// Copies a directory or a regular file of an image to a name that does not exist yet. `from` may be held by O_PATH.
// Inlined, the 80 KiB of its buffers would be in the frame of every new process, which touches each page when it begins.
#[inline(never)]
pub(crate) fn copy_to(
    from: BorrowedFd<'_>,
    dir: BorrowedFd<'_>,
    name: &CStr,
    how: CopyMode,
) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(from)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            rustix::fs::mkdirat(dir, name, Mode::RWXU)?;
            copy_below(from, open_dir(dir, name, OFlags::NOFOLLOW)?.as_fd(), how)
        }
        FileType::RegularFile => {
            let mut copier = Copier::new(how, 0);
            let source = reopen(from)?;
            let copy = create(dir, name)?;
            copier.content.copy(source.as_fd(), copy.as_fd(), &stat)?;
            like(copy.as_fd(), Some(source.as_fd()), &stat, &mut copier.buffers)
        }
        _ => Err(Errno::INVAL),
    }
}

/// Copies the contents of a directory, and the directory's own attributes, into an existing empty directory. Both may
/// be held by O_PATH.
///
/// # Errors
/// Those of the calls on the way; `ELOOP` for a tree that is too deep.
pub fn copy_below(from: BorrowedFd<'_>, to: BorrowedFd<'_>, how: CopyMode) -> Result<(), Errno> {
    copy_linked(from, to, how, None)
}

/// Does [`copy_below`]; with `links`, which are sorted, only these names share a file in the copy.
///
/// # Errors
/// Those of [`copy_below`].
// As `copy_to`.
#[inline(never)]
pub fn copy_linked(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    how: CopyMode,
    links: Option<&[LinkedName]>,
) -> Result<(), Errno> {
    let mut copier = Copier::new(how, 0);
    copier.only = links;
    copier.whole(from, to, how)
}

/// Does [`copy_below`], and gives all copies to one owner, if there is one.
///
/// # Errors
/// Those of [`copy_below`].
// As `copy_to`.
#[inline(never)]
pub(crate) fn copy_owned(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    how: CopyMode,
    owner: Option<Owner>,
) -> Result<(), Errno> {
    let mut copier = Copier::new(how, 0);
    copier.owner = owner;
    copier.whole(from, to, how)
}

/// Gives a directory the metadata of another one that looked so.
// As `copy_to`.
#[inline(never)]
pub(crate) fn like_original(copy: BorrowedFd<'_>, source: BorrowedFd<'_>, stat: &Stat) -> Result<(), Errno> {
    like(copy, Some(source), stat, &mut Buffers::new())
}

/// Owner of copies, in ids of the process that copies.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

fn open_dir(dir: impl AsFd, name: &CStr, more: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

fn create(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)
}

/// Opens a descriptor held by O_PATH for reading: a regular file of the image, found before.
fn reopen(file: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let path = descriptor_path(file);
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::INVAL)?;
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Returns the path in procfs of an open descriptor, with a NUL.
pub(crate) fn descriptor_path(fd: BorrowedFd<'_>) -> [u8; 25] {
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
    let mut digits = [0u8; 10];
    let (mut rest, mut length) = (fd.as_raw_fd().unsigned_abs(), 0);
    loop {
        digits[length] = b'0' + (rest % 10) as u8;
        (rest, length) = (rest / 10, length + 1);
        if rest == 0 {
            break;
        }
    }
    for (place, digit) in path[14..].iter_mut().zip(digits[..length].iter().rev()) {
        *place = *digit;
    }
    path
}

struct Copier<'a> {
    /// Device of the original; entries on another device are mounts.
    device: u64,
    /// Device and inode of the copy itself, in case it lies inside the original.
    never: (u64, u64),
    links: Option<OwnedFd>,
    /// The only names that share files in the copy, if the original has more of them.
    only: Option<&'a [LinkedName]>,
    /// Owner of all copies, in place of the originals' owners.
    owner: Option<Owner>,
    content: Content,
    buffers: Buffers,
}

impl Copier<'_> {
    fn new(how: CopyMode, device: u64) -> Self {
        Self {
            device,
            never: (0, 0),
            links: None,
            only: None,
            owner: None,
            content: Content::new(how.reflink),
            buffers: Buffers::new(),
        }
    }

    /// Copies the contents of a directory, and the directory's own attributes, into an existing empty one.
    fn whole(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, how: CopyMode) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(from)?;
        let from = open_dir(from, c".", OFlags::NOFOLLOW)?;
        let to = open_dir(to, c".", OFlags::NOFOLLOW)?;
        self.device = stat.st_dev;
        self.never = rustix::fs::fstat(&to).map(|stat| (stat.st_dev, stat.st_ino))?;
        if how.hard_links {
            rustix::fs::mkdirat(&to, LINKS, Mode::RWXU)?;
            self.links = Some(open_dir(&to, LINKS, OFlags::NOFOLLOW)?);
        }
        self.dir(from.as_fd(), to.as_fd(), stat.st_ino, DEPTH)?;
        self.forget_links(to.as_fd())?;
        self.like(to.as_fd(), Some(from.as_fd()), &stat)
    }

    /// Gives a copy the metadata of its original, but for the owner that all copies get.
    fn like(
        &mut self,
        copy: BorrowedFd<'_>,
        source: Option<BorrowedFd<'_>>,
        stat: &Stat,
    ) -> Result<(), Errno> {
        let mut stat = *stat;
        if let Some(owner) = self.owner {
            (stat.st_uid, stat.st_gid) = (owner.uid, owner.gid);
        }
        like(copy, source, &stat, &mut self.buffers)
    }

    /// Copies a directory's entries. `number` is the inode number of `from`.
    fn dir(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        number: u64,
        depth: u32,
    ) -> Result<(), Errno> {
        let depth = depth.checked_sub(1).ok_or(Errno::LOOP)?;
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(from, &mut space);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                self.entry((from, number), to, name, depth)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        (from, directory): (BorrowedFd<'_>, u64),
        to: BorrowedFd<'_>,
        name: &CStr,
        depth: u32,
    ) -> Result<(), Errno> {
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        match kind {
            FileType::Directory if (stat.st_dev, stat.st_ino) == self.never => Ok(()),
            FileType::Directory => {
                rustix::fs::mkdirat(to, name, Mode::RWXU)?;
                let copy = open_dir(to, name, OFlags::NOFOLLOW)?;
                let source = open_dir(from, name, OFlags::NOFOLLOW)?;
                if stat.st_dev == self.device {
                    self.dir(source.as_fd(), copy.as_fd(), stat.st_ino, depth)?;
                }
                self.like(copy.as_fd(), Some(source.as_fd()), &stat)
            }
            FileType::Socket => Ok(()),
            _ => match self.shared(directory, name, &stat) {
                Some(file) => self.linked(from, to, (name, file), &stat),
                None => self.file(from, name, to, name, &stat),
            },
        }
    }

    /// Returns the number of a file that has several names in the copy.
    fn shared(&self, directory: u64, name: &CStr, stat: &Stat) -> Option<u64> {
        if stat.st_nlink < 2 || self.links.is_none() {
            return None;
        }
        let Some(only) = self.only else {
            return Some(stat.st_ino);
        };
        let wanted = (directory, name);
        let at = only.binary_search_by(|link| (link.directory, link.name.as_c_str()).cmp(&wanted));
        at.ok().and_then(|at| only.get(at)).map(|link| link.file)
    }

    /// Copies a file that may have been copied already under another name. Its copy lies in the directory of links,
    /// under its number.
    fn linked(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        (name, file): (&CStr, u64),
        stat: &Stat,
    ) -> Result<(), Errno> {
        let Some(links) = self.links.take() else {
            return Err(Errno::BADF);
        };
        let number = hexadecimal(file);
        let number = CStr::from_bytes_until_nul(&number).map_err(|_| Errno::INVAL)?;
        let link = || rustix::fs::linkat(&links, number, to, name, AtFlags::empty());
        let made = match link() {
            Err(Errno::NOENT) => {
                self.file(from, name, links.as_fd(), number, stat)
                    .and_then(|()| match link() {
                        // The file was left out: a device node in a user namespace.
                        Err(Errno::NOENT) => Ok(()),
                        other => other,
                    })
            }
            other => other,
        };
        self.links = Some(links);
        made
    }

    /// Copies anything but a directory.
    fn file(
        &mut self,
        from: BorrowedFd<'_>,
        name: &CStr,
        to: BorrowedFd<'_>,
        copy: &CStr,
        stat: &Stat,
    ) -> Result<(), Errno> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        match kind {
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let source = rustix::fs::openat(from, name, flags, Mode::empty())?;
                let copy = create(to, copy)?;
                self.content.copy(source.as_fd(), copy.as_fd(), stat)?;
                return self.like(copy.as_fd(), Some(source.as_fd()), stat);
            }
            FileType::Symlink => {
                let mut text = [0u8; 4096];
                let length = rustix::fs::readlinkat_raw(from, name, &mut text[..4095])?;
                let text = CStr::from_bytes_with_nul(&text[..=length]).map_err(|_| Errno::INVAL)?;
                rustix::fs::symlinkat(text, to, copy)?;
            }
            FileType::Socket => return Ok(()),
            _ => match rustix::fs::mknodat(to, copy, kind, Mode::RUSR, stat.st_rdev) {
                // Device nodes cannot be made in a user namespace, and would have no effect there.
                Err(Errno::PERM) if kind != FileType::Fifo => return Ok(()),
                other => other?,
            },
        }
        let made = rustix::fs::openat(
            to,
            copy,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        self.like(made.as_fd(), None, stat)
    }

    fn forget_links(&mut self, to: BorrowedFd<'_>) -> Result<(), Errno> {
        let Some(links) = self.links.take() else {
            return Ok(());
        };
        let mut space = [MaybeUninit::uninit(); 4096];
        // Removing entries while reading a directory may hide others, so it is read until it is empty.
        loop {
            let mut found = false;
            rustix::fs::seek(&links, rustix::fs::SeekFrom::Start(0))?;
            let mut entries = RawDir::new(&links, &mut space);
            while let Some(entry) = entries.next() {
                let entry = entry?;
                if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                    rustix::fs::unlinkat(&links, entry.file_name(), AtFlags::empty())?;
                    found = true;
                }
            }
            if !found {
                return rustix::fs::unlinkat(to, LINKS, AtFlags::REMOVEDIR);
            }
        }
    }
}

/// Formats a number as sixteen digits and a NUL.
pub(crate) fn hexadecimal(number: u64) -> [u8; 17] {
    let mut text = [0; 17];
    for (shift, place) in (0..16).rev().zip(&mut text) {
        *place = b"0123456789abcdef"[(number >> (4 * shift) & 15) as usize];
    }
    text
}

#[cfg(test)]
mod tests;
