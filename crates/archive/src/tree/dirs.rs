//! Open directories of a tree that is written to.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Number of descriptors kept open. Archives are sorted by directory, so a few suffice; this is far below any
/// limit.
const KEPT: usize = 128;

/// A directory in which entries are created.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) fd: OwnedFd,
    /// Group of new entries, if the directory is setgid; `None` if they get the process's.
    pub(crate) group: Option<u32>,
}

/// Cache of open directories.
///
/// Links on the way are followed as inside of a chroot(2): openat2(2) ends no lookup outside of the root. An open
/// directory stays the right one until an entry is replaced; then [`Dirs::forget`] must be called.
#[derive(Debug)]
pub(crate) struct Dirs<'a> {
    root: BorrowedFd<'a>,
    open: HashMap<Box<[u8]>, Rc<Dir>>,
    /// The directory asked for last, which is usually the next one asked for.
    last: Option<(Box<[u8]>, Rc<Dir>)>,
}

impl<'a> Dirs<'a> {
    pub(crate) fn new(root: BorrowedFd<'a>) -> Self {
        Self {
            root,
            open: HashMap::new(),
            last: None,
        }
    }

    /// Returns the directory at that path, given as [`EntryPath::as_bytes`](crate::EntryPath::as_bytes).
    pub(crate) fn get(&mut self, path: &[u8]) -> Result<Rc<Dir>, Errno> {
        if let Some((last, dir)) = &self.last
            && **last == *path
        {
            return Ok(Rc::clone(dir));
        }
        let dir = match self.open.get(path) {
            Some(dir) => Rc::clone(dir),
            None => {
                let dir = Rc::new(Dir::of(open_in_root(self.root, path)?)?);
                if self.open.len() >= KEPT {
                    self.open.clear();
                }
                self.open.insert(path.into(), Rc::clone(&dir));
                dir
            }
        };
        self.last = Some((path.into(), Rc::clone(&dir)));
        Ok(dir)
    }

    /// Closes all descriptors, because a directory or a link on the way to one may have been replaced.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
        self.last = None;
    }
}

impl Dir {
    pub(crate) fn of(fd: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&fd)?;
        let setgid = Mode::from_raw_mode(stat.st_mode).contains(Mode::SGID);
        Ok(Self {
            fd,
            group: setgid.then_some(stat.st_gid),
        })
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens a directory below `root`, following links as if `root` were `/`.
#[expect(
    clippy::disallowed_methods,
    reason = "called again when it has to be, without tote_sys"
)]
pub(crate) fn open_in_root(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    // The kernel returns EAGAIN when another process renames directories while a `..` is resolved.
    const ATTEMPTS: usize = 64;
    let path = if path.is_empty() { b"." } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let mut answer = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        answer = rustix::fs::openat2(root, path, flags, Mode::empty(), resolve);
        if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    answer
}

/// Opens an entry of a directory as a directory, without following a link.
pub(crate) fn open_child(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

/// Lists the names in a directory, without `.` and `..`, sorted.
pub(crate) fn names(dir: impl AsFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(name.to_vec()),
        }
    }
    names.sort_unstable();
    Ok(names)
}
