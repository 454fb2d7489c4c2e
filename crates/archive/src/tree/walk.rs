//! A directory as a stream of entries.

use super::attributes::{self, Attributes};
use super::dirs::{names, open_child};
use crate::entry::{Entry, Kind, Timestamp};
use crate::path::EntryPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

/// Why a tree cannot be read. The walk ends with such an error.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// A call on an entry failed.
    #[error("{what} {path}")]
    Entry {
        /// Name of the call.
        what: &'static str,
        /// Path of the entry.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// A file's content cannot be read, or its size has changed.
    #[error("cannot read {path}")]
    Content {
        /// The file.
        path: EntryPath,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A directory would be copied into itself.
    #[error("cannot copy {0} into itself")]
    Itself(EntryPath),
    /// Directories are nested deeper than the limit on descriptors.
    #[error("cannot walk {path}: directories are nested deeper than {limit}", limit = DEPTH_MAX)]
    Depth {
        /// The directory below the limit.
        path: EntryPath,
    },
    /// The upper directory of an overlay has features that keep content elsewhere.
    #[error("{path} has the attribute overlay.{attribute}: its content is in another layer")]
    Elsewhere {
        /// The file or directory.
        path: EntryPath,
        /// `redirect` or `metacopy`.
        attribute: &'static str,
    },
}

/// Maximum depth: each level holds a descriptor. Archives may not be deeper either.
pub(crate) const DEPTH_MAX: usize = 512;

/// Reads the tree below `root`: first the root itself, then its entries, sorted by name, each directory followed by
/// its content. This is the order of [`EntryPath`].
///
/// No link is followed. Files are returned open for reading. A file with several names is returned as a file the
/// first time, and as [`Kind::Hardlink`] to that name afterwards. Sockets are left out, since archives cannot hold
/// them, and so are attributes of overlayfs and of the host: only `user.*` and file capabilities belong to an
/// entry. Entries that vanish meanwhile are left out as well.
///
/// Symbolic links and special files are assumed to have no attributes; Linux gives them only labels of security
/// modules.
pub fn walk(root: BorrowedFd<'_>) -> Walk {
    Walk {
        start: Some(reopened(root)),
        frames: Vec::new(),
        links: Some(Links::default()),
        foreign: None,
        files_only: false,
    }
}

/// The iterator of [`walk`].
#[derive(Debug)]
pub struct Walk {
    start: Option<Result<OwnedFd, Errno>>,
    frames: Vec<Frame>,
    links: Option<Links>,
    /// Device and inode number of a directory that the walk must not meet.
    foreign: Option<(u64, u64)>,
    /// True if file systems of the kernel's own are returned as empty directories.
    files_only: bool,
}

/// A directory that is being read.
#[derive(Debug)]
struct Frame {
    dir: OwnedFd,
    path: EntryPath,
    names: std::vec::IntoIter<Vec<u8>>,
}

/// First names of files that have several, by device and inode number.
#[derive(Debug, Default)]
pub(crate) struct Links(HashMap<(u64, u64), EntryPath>);

/// An entry, with the descriptors that were opened to read it.
pub(crate) struct Found {
    pub(crate) entry: Entry,
    pub(crate) overlay: attributes::Overlay,
    pub(crate) open: Open,
}

pub(crate) enum Open {
    Nothing,
    File(File),
    Directory(OwnedFd),
}

impl Walk {
    /// Returns every name as a file of its own: for trees whose hard links only save space.
    #[must_use]
    pub fn without_links(mut self) -> Self {
        self.links = None;
        self
    }

    /// Returns procfs, sysfs and their kin, where they are mounted below the root, as empty directories: their
    /// files have no stored content.
    #[must_use]
    pub fn files_only(mut self) -> Self {
        self.files_only = true;
        self
    }

    /// Makes it an error to meet this directory below the root, because the result of the walk is written to it.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn outside_of(mut self, dir: BorrowedFd<'_>) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(dir)?;
        self.foreign = Some((stat.st_dev, stat.st_ino));
        Ok(self)
    }

    fn step(&mut self) -> Result<Option<(Entry, Option<File>)>, WalkError> {
        if let Some(start) = self.start.take() {
            let root = start.map_err(failed("open", &EntryPath::root()))?;
            let entry = root_entry(&root)?;
            self.push(root, EntryPath::root())?;
            return Ok(Some((entry, None)));
        }
        while let Some(frame) = self.frames.last_mut() {
            let Some(name) = frame.names.next() else {
                self.frames.pop();
                continue;
            };
            let path = child_path(&frame.path, &name)?;
            let Some(stat) = stat(&frame.dir, &name, &path)? else {
                continue;
            };
            if self.foreign == Some((stat.st_dev, stat.st_ino)) {
                return Err(WalkError::Itself(path));
            }
            let Some(found) = find(frame.dir.as_fd(), &name, path, &stat, self.links.as_mut())? else {
                continue;
            };
            return Ok(Some(match found.open {
                Open::Nothing => (found.entry, None),
                Open::File(file) => (found.entry, Some(file)),
                Open::Directory(dir) if self.files_only && is_kernels(&dir) => (found.entry, None),
                Open::Directory(dir) => {
                    self.push(dir, found.entry.path.clone())?;
                    (found.entry, None)
                }
            }));
        }
        Ok(None)
    }

    fn push(&mut self, dir: OwnedFd, path: EntryPath) -> Result<(), WalkError> {
        if self.frames.len() >= DEPTH_MAX {
            return Err(WalkError::Depth { path });
        }
        let names = names(&dir).map_err(failed("list", &path))?.into_iter();
        self.frames.push(Frame { dir, path, names });
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Result<(Entry, Option<File>), WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.frames.clear();
        }
        step.transpose()
    }
}

/// True if a directory is on a file system that the kernel generates, by the `*_MAGIC` numbers of linux/magic.h and
/// its kin.
fn is_kernels(dir: &OwnedFd) -> bool {
    const KERNELS: [rustix::fs::FsWord; 13] = [
        rustix::fs::PROC_SUPER_MAGIC,
        0x6265_6572, // sysfs
        0x0027_e0eb, // cgroup
        0x6367_7270, // cgroup2
        0x1cd1,      // devpts
        0x1980_0202, // mqueue
        0x6462_6720, // debugfs
        0x7472_6163, // tracefs
        0x7363_6673, // securityfs
        0x6265_6570, // configfs
        0xcafe_4a11, // bpf
        0xde5e_81e4, // efivarfs
        0x6165_676c, // pstore
    ];
    rustix::fs::fstatfs(dir).is_ok_and(|found| KERNELS.contains(&found.f_type))
}

/// Opens the directory for reading; the caller's descriptor may be one with `O_PATH`.
pub(crate) fn reopened(root: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    open_child(root, b".")
}

pub(crate) fn child_path(parent: &EntryPath, name: &[u8]) -> Result<EntryPath, WalkError> {
    // Only a broken file system returns names that cannot be joined.
    parent.join(name).map_err(|_| WalkError::Entry {
        what: "list",
        path: parent.clone(),
        source: Errno::INVAL,
    })
}

/// Returns the metadata of an entry; `None` if it has vanished.
pub(crate) fn stat(dir: impl AsFd, name: &[u8], path: &EntryPath) -> Result<Option<Stat>, WalkError> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(source) => Err(failed("stat", path)(source)),
    }
}

pub(crate) fn failed(what: &'static str, path: &EntryPath) -> impl Fn(Errno) -> WalkError + use<> {
    let path = path.clone();
    move |source| WalkError::Entry {
        what,
        path: path.clone(),
        source,
    }
}

fn root_entry(root: &OwnedFd) -> Result<Entry, WalkError> {
    let path = EntryPath::root();
    let stat = rustix::fs::fstat(root).map_err(failed("stat", &path))?;
    let attributes = attributes::read(root).map_err(failed("read the attributes of", &path))?;
    Ok(entry(path, Kind::Directory, &stat, attributes.own))
}

pub(crate) fn entry(path: EntryPath, kind: Kind, stat: &Stat, xattrs: Vec<(Vec<u8>, Vec<u8>)>) -> Entry {
    Entry {
        path,
        kind,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: Timestamp {
            secs: stat.st_mtime,
            nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
        },
        xattrs,
    }
}

/// Reads an entry with known metadata. `None` for sockets, and if another kind of entry has taken its place since.
pub(crate) fn find(
    dir: BorrowedFd<'_>,
    name: &[u8],
    path: EntryPath,
    stat: &Stat,
    links: Option<&mut Links>,
) -> Result<Option<Found>, WalkError> {
    let plain = |path, kind| Found {
        entry: entry(path, kind, stat, Vec::new()),
        overlay: attributes::Overlay::default(),
        open: Open::Nothing,
    };
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind != FileType::Directory
        && stat.st_nlink > 1
        && let Some(links) = links
    {
        let first = links
            .0
            .entry((stat.st_dev, stat.st_ino))
            .or_insert_with(|| path.clone());
        if *first != path {
            let target = first.clone();
            return Ok(Some(plain(path, Kind::Hardlink { target })));
        }
    }
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    Ok(Some(match kind {
        FileType::RegularFile | FileType::Directory => return opened(dir, name, path, stat),
        FileType::Symlink => {
            let target =
                rustix::fs::readlinkat(dir, name, Vec::new()).map_err(failed("read the link", &path))?;
            plain(
                path,
                Kind::Symlink {
                    target: target.into_bytes(),
                },
            )
        }
        FileType::CharacterDevice => plain(path, Kind::Character { major, minor }),
        FileType::BlockDevice => plain(path, Kind::Block { major, minor }),
        FileType::Fifo => plain(path, Kind::Fifo),
        _ => return Ok(None),
    }))
}

/// Opens a regular file, and nothing else. A container may have put a device in its place since stat(2), and on the
/// file system that holds the container's files, opening a device has effects: a watchdog starts, a tape rewinds.
fn open_regular(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<(OwnedFd, Stat)>, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        held => held?,
    };
    let stat = rustix::fs::fstat(&held)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    // Open by the descriptor, because the name may lead elsewhere by now. If procfs is missing, that is an error:
    // it must not look like a missing file.
    let again = format!("/proc/self/fd/{}", held.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(again, flags, Mode::empty())?;
    Ok(Some((file, stat)))
}

fn open_directory(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<(OwnedFd, Stat)>, Errno> {
    let fd = match open_child(dir, name) {
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(None),
        fd => fd?,
    };
    let stat = rustix::fs::fstat(&fd)?;
    Ok(Some((fd, stat)))
}

/// Builds the entry of a file or a directory, with its attributes.
fn opened(
    dir: BorrowedFd<'_>,
    name: &[u8],
    path: EntryPath,
    seen: &Stat,
) -> Result<Option<Found>, WalkError> {
    let kind = FileType::from_raw_mode(seen.st_mode);
    let found = match kind {
        FileType::Directory => open_directory(dir, name),
        _ => open_regular(dir, name),
    };
    let Some((fd, stat)) = found.map_err(failed("open", &path))? else {
        return Ok(None);
    };
    let Attributes { own, overlay } =
        attributes::read(&fd).map_err(failed("read the attributes of", &path))?;
    let (kind, open) = if kind == FileType::Directory {
        (Kind::Directory, Open::Directory(fd))
    } else {
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        (Kind::File { size }, Open::File(File::from(fd)))
    };
    Ok(Some(Found {
        entry: entry(path, kind, &stat, own),
        overlay,
        open,
    }))
}

#[cfg(test)]
mod tests {
    use super::{find, stat};
    use crate::path::EntryPath;
    use rustix::fs::{CWD, FileType, Mode, inotify};
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd as _;

    /// Calls stat(2) on a file, exchanges it, and then calls `find`; returns whether that opened the new file.
    fn opens(exchange: impl FnOnce(&std::path::Path)) -> bool {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("x");
        std::fs::write(&file, "content").unwrap();
        let dir = std::fs::File::open(temp.path()).unwrap();
        let path = EntryPath::root().join(b"x").unwrap();
        let seen = stat(&dir, b"x", &path).unwrap().unwrap();
        std::fs::remove_file(&file).unwrap();
        exchange(&file);
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let watch = inotify::init(flags).unwrap();
        inotify::add_watch(&watch, &file, inotify::WatchFlags::OPEN).unwrap();
        let found = find(dir.as_fd(), b"x", path, &seen, None).unwrap();
        let mut space = [MaybeUninit::uninit(); 1024];
        let opened = inotify::Reader::new(&watch, &mut space).next().is_ok();
        assert_eq!(found.is_some(), opened);
        opened
    }

    #[test]
    fn only_a_regular_file_is_opened() {
        assert!(opens(|file| std::fs::write(file, "another").unwrap()));
        assert!(!opens(|file| rustix::fs::mknodat(
            CWD,
            file,
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0
        )
        .unwrap()));
        assert!(!opens(|file| std::fs::create_dir(file).unwrap()));
        assert!(!opens(|file| {
            std::os::unix::net::UnixListener::bind(file).map(drop).unwrap();
        }));
    }
}
