//! Directories of containers: one for each, made by mkdir(2), which only one of two creators can win.

use crate::record::{Record, document};
use crate::{ContainerError, Id, OciError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, ResolveFlags};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tote_sys::{Errno, LockKind, WORK_LOCK, best_effort, lock_within};

/// File name of the record.
const RECORD: &str = "state.json";
/// File name of a new record until it is complete.
const FRESH: &str = "state.new";
/// File name of the start gate.
pub(crate) const GATE: &str = "start";
/// Bound of the record in bytes: a spec within its own limit fits.
const LONGEST: u64 = 32 << 20;

/// Directory below which containers are kept.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
}

/// Directory of a container.
#[derive(Debug)]
pub(crate) struct Place {
    dir: OwnedFd,
    path: PathBuf,
    locked: bool,
}

impl Store {
    /// Names the store at that path; the directory is made with the first container.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the default store: `/run/tote-oci`, or below the caller's runtime directory, if it uses one
    /// ([`crate::has_runtime_dir`]).
    #[must_use]
    pub fn usual(runtime_dir: Option<PathBuf>) -> Self {
        match runtime_dir {
            Some(dir) if dir.is_absolute() => Self::new(dir.join("tote-oci")),
            _ => Self::new(PathBuf::from("/run/tote-oci")),
        }
    }

    /// Returns the directory of the store.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the place of a new container, and locks it.
    pub(crate) fn make(&self, id: &Id) -> Result<Place, OciError> {
        match self.make_once(id) {
            Err(OciError::Container(ContainerError::Exists)) => match self.abandoned(id) {
                Some(place) => {
                    place.remove()?;
                    self.make_once(id)
                }
                None => Err(OciError::Container(ContainerError::Exists)),
            },
            other => other,
        }
    }

    /// Returns the place, locked, if it was made by a command that was killed before it wrote a record.
    fn abandoned(&self, id: &Id) -> Option<Place> {
        let place = self.open(id).ok()?;
        tote_sys::flock(&place.dir, FlockOperation::NonBlockingLockExclusive).ok()?;
        let same = place.is_still_there() && matches!(place.read(), Ok(None));
        same.then_some(place)
    }

    fn make_once(&self, id: &Id) -> Result<Place, OciError> {
        let path = self.path.join(id.as_str());
        let mode = Mode::from_raw_mode(0o700);
        let made = match rustix::fs::mkdir(&path, mode) {
            Err(Errno::NOENT) => {
                use std::os::unix::fs::DirBuilderExt as _;
                std::fs::DirBuilder::new()
                    .recursive(true)
                    .mode(0o711)
                    .create(&self.path)
                    .map_err(OciError::file("make", &self.path))?;
                rustix::fs::mkdir(&path, mode)
            }
            other => other,
        };
        match made {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(OciError::Container(ContainerError::Exists)),
            Err(errno) => return Err(OciError::file("make", path)(errno.into())),
        }
        // Before it is locked, another creator may take it for an abandoned place, and then has won.
        let mut place = self
            .open(id)
            .map_err(|_| OciError::Container(ContainerError::Exists))?;
        place
            .lock()
            .map_err(|_| OciError::Container(ContainerError::Exists))?;
        // This may have opened the other creator's directory. The lock decides: the first to take it owns the
        // directory, and the second finds a record.
        match place.read() {
            Ok(None) => Ok(place),
            _ => Err(OciError::Container(ContainerError::Exists)),
        }
    }

    /// Opens the place of an existing container.
    pub(crate) fn open(&self, id: &Id) -> Result<Place, OciError> {
        let path = self.path.join(id.as_str());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(dir) => Ok(Place {
                dir,
                path,
                locked: false,
            }),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                Err(OciError::Container(ContainerError::NotFound))
            }
            Err(errno) => Err(OciError::file("open", path)(errno.into())),
        }
    }

    /// Returns the ids of all containers, in order; none if the store does not exist.
    pub(crate) fn ids(&self) -> Result<Vec<Id>, OciError> {
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(OciError::file("read", &self.path)(error)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut ids: Vec<Id> = names.collect();
        ids.sort();
        Ok(ids)
    }
}

impl Place {
    /// Returns the open directory.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Returns the user that owns it.
    pub(crate) fn owner(&self) -> u32 {
        rustix::fs::fstat(&self.dir).map_or(0, |found| found.st_uid)
    }

    /// Waits until no other command changes this container.
    pub(crate) fn lock(&mut self) -> Result<(), OciError> {
        if self.locked {
            return Ok(());
        }
        // A command has it as long as hooks of the container run.
        lock_within(self.dir.as_fd(), LockKind::Exclusive, WORK_LOCK, &self.path)
            .map_err(OciError::file("lock", &self.path))?;
        // After waiting, the locked directory may have been removed, while its name belongs to another container.
        self.locked = self.is_still_there();
        if self.locked {
            Ok(())
        } else {
            Err(OciError::Container(ContainerError::NotFound))
        }
    }

    /// True if the path still leads to this very directory.
    fn is_still_there(&self) -> bool {
        let identity = |found: rustix::fs::Stat| (found.st_dev, found.st_ino);
        let here = rustix::fs::fstat(&self.dir).map(identity);
        here.is_ok() && here == rustix::fs::lstat(&self.path).map(identity)
    }

    /// Lets other commands change this container.
    pub(crate) fn unlock(&mut self) {
        // A lock that cannot be released ends with this process.
        best_effort(tote_sys::flock(&self.dir, FlockOperation::Unlock));
        self.locked = false;
    }

    /// True if another command is changing this container.
    pub(crate) fn is_busy(&self) -> bool {
        if self.locked {
            return false;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // The directory is opened anew: a lock belongs to the open file, and this one is closed at once.
        // absence: the lock that the caller takes next decides
        let Ok(other) = rustix::fs::openat(&self.dir, c".", flags, Mode::empty()) else {
            return false;
        };
        tote_sys::flock(other, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    }

    /// Makes the start gate, in place of one that a killed creator left.
    pub(crate) fn make_gate(&self) -> Result<OwnedFd, OciError> {
        let made = match tote_sys::start_gate(self.dir(), GATE) {
            Err(Errno::ADDRINUSE) => rustix::fs::unlinkat(&self.dir, GATE, AtFlags::empty())
                .and_then(|()| tote_sys::start_gate(self.dir(), GATE)),
            other => other,
        };
        made.map_err(OciError::kernel("make the start gate"))
    }

    /// Writes the record. Readers see either the old or the new one.
    pub(crate) fn write(&self, record: &Record, kept: &str) -> Result<(), OciError> {
        let text = document(record, kept)?;
        let failed = |errno: Errno| OciError::file("write", self.path.join(RECORD))(errno.into());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, FRESH, flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest).map_err(failed)?;
            rest = &rest[written..];
        }
        rustix::fs::renameat(&self.dir, FRESH, &self.dir, RECORD).map_err(failed)
    }

    /// Reads the record, and the document that it is from; `None` if the creator was killed before it wrote one.
    pub(crate) fn read(&self) -> Result<Option<(Record, String)>, OciError> {
        let path = || self.path.join(RECORD);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match tote_sys::openat2(&self.dir, RECORD, flags, Mode::empty(), ResolveFlags::BENEATH) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(OciError::file("open", path())(errno.into())),
        };
        let mut text = String::new();
        std::fs::File::from(file)
            .take(LONGEST)
            .read_to_string(&mut text)
            .map_err(OciError::file("read", path()))?;
        let record = serde_json::from_str(&text).map_err(OciError::json(path().display().to_string()))?;
        Ok(Some((record, text)))
    }

    /// Removes the container's directory, as the last thing of the container.
    pub(crate) fn remove(self) -> Result<(), OciError> {
        for name in [GATE, FRESH, RECORD] {
            // A missing file is as good as removed, and a failure is reported below.
            best_effort(rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()));
        }
        match rustix::fs::unlinkat(CWD, &self.path, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(_) => std::fs::remove_dir_all(&self.path).map_err(OciError::file("remove", &self.path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kept;

    fn store() -> (tempfile::TempDir, Store, Id) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path().join("a/b"));
        (dir, store, "x".parse().unwrap())
    }

    #[test]
    fn only_one_is_made() {
        let (_dir, store, id) = store();
        assert!(matches!(
            store.open(&id),
            Err(OciError::Container(ContainerError::NotFound))
        ));
        assert_eq!(store.ids().unwrap(), []);
        let place = store.make(&id).unwrap();
        assert!(matches!(
            store.make(&id),
            Err(OciError::Container(ContainerError::Exists))
        ));
        assert_eq!(store.ids().unwrap(), std::slice::from_ref(&id));
        assert!(!place.is_busy(), "one's own lock is no other's");
        assert!(store.open(&id).unwrap().is_busy());
        drop(place);
        assert!(!store.open(&id).unwrap().is_busy());
    }

    #[test]
    fn a_place_without_a_record_is_taken_over() {
        let (_dir, store, id) = store();
        let first = store.make(&id).unwrap();
        assert!(
            matches!(store.make(&id), Err(OciError::Container(ContainerError::Exists))),
            "its creator is at it"
        );
        drop(first);
        let second = store.make(&id).unwrap();
        second
            .write(&Record::default(), &Kept::default().text().unwrap())
            .unwrap();
        drop(second);
        assert!(
            matches!(store.make(&id), Err(OciError::Container(ContainerError::Exists))),
            "it has a record"
        );
    }

    #[test]
    fn records_come_back_and_go() {
        let (_dir, store, id) = store();
        let place = store.make(&id).unwrap();
        assert!(place.read().unwrap().is_none());
        let mut record = Record::default();
        let kept = Kept::default().text().unwrap();
        for pid in [None, Some(5)] {
            record.pid = pid;
            place.write(&record, &kept).unwrap();
            assert_eq!(store.open(&id).unwrap().read().unwrap().unwrap().0, record);
        }
        place.remove().unwrap();
        assert!(matches!(
            store.open(&id),
            Err(OciError::Container(ContainerError::NotFound))
        ));
        store.make(&id).unwrap();
    }

    #[test]
    fn the_lock_of_a_directory_that_is_gone_is_none() {
        let (_dir, store, id) = store();
        drop(store.make(&id).unwrap());
        let mut late = store.open(&id).unwrap();
        store.open(&id).unwrap().remove().unwrap();
        let _second = store.make(&id).unwrap();
        assert!(matches!(
            late.lock(),
            Err(OciError::Container(ContainerError::NotFound))
        ));
    }

    #[test]
    fn usual_places() {
        let dir = Some(PathBuf::from("/run/user/1"));
        assert_eq!(Store::usual(dir).path(), Path::new("/run/user/1/tote-oci"));
        assert_eq!(
            Store::usual(Some("run".into())).path(),
            Path::new("/run/tote-oci")
        );
        assert_eq!(Store::usual(None).path(), Path::new("/run/tote-oci"));
    }
}
