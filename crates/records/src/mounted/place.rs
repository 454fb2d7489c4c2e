//! The place at which a container is mounted, `mounts/ID`, and the file that guards it, `live/ID.mounted`.
//!
//! A mount has no process that would hold a lock for it. So the file says in which boot and in which mount namespace the
//! mount was made; it is there before the mount, and goes after it. While a command changes the mount, or a start uses it,
//! it holds a lock on the file.

use super::error::MountFault;
use crate::container::boot;
use crate::{Caller, EngineError, Home};
use rustix::fd::BorrowedFd;
use std::ffi::CString;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tote_bundle::ContainerId;
use tote_state::locked::locked;
use tote_state::record::{is_there, names_in};
use tote_sys::{Errno, best_effort};

/// Suffix of the file's name in `live/`, behind the container's id.
const SUFFIX: &str = ".mounted";

/// Whether a container is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounted {
    /// No mount, as far as this boot is concerned.
    No,
    /// A mount that this process sees.
    Here,
    /// A mount in the mount namespace of the process with this pid, which this process does not see.
    Elsewhere(u32),
}

/// A locked place.
#[derive(Debug)]
pub struct Place {
    file: File,
    mark: PathBuf,
    /// The directory at which the root is mounted.
    pub path: PathBuf,
}

/// Parses the name of a file in `live/` into the id of the container that it says is mounted.
pub fn container_of(file: &str) -> Option<ContainerId> {
    file.strip_suffix(SUFFIX)?.parse().ok()
}

/// Lists the containers that are mounted, or were.
pub fn marked(home: &Home) -> Result<Vec<ContainerId>, EngineError> {
    let names = names_in(&home.live())?;
    Ok(names.iter().filter_map(|name| container_of(name)).collect())
}

fn mark_of(home: &Home, id: &ContainerId) -> PathBuf {
    home.live().join(format!("{id}{SUFFIX}"))
}

impl Place {
    /// Locks the place of a container, after other commands; `None` if it has none and `make` is false.
    pub fn lock(home: &Home, id: &ContainerId, make: bool) -> Result<Option<Self>, EngineError> {
        Self::get(home, id, (make, true))
    }

    fn get(home: &Home, id: &ContainerId, (make, wait): (bool, bool)) -> Result<Option<Self>, EngineError> {
        let mark = mark_of(home, id);
        let file = match locked(&mark, make, wait) {
            Err(error) if error.is_missing() && !make => return Ok(None),
            file => file?,
        };
        let path = home.mount(id);
        Ok(file.map(|file| Self { file, mark, path }))
    }

    /// Finds out whether the container is mounted.
    ///
    /// # Errors
    /// [`EngineError::State`] if the file or the directory cannot be examined.
    pub fn look(&self) -> Result<Mounted, EngineError> {
        let mut text = String::new();
        let mut file = &self.file;
        let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
        read.map_err(EngineError::file("read", &self.mark))?;
        seen(&self.path, &text)
    }

    /// Mounts the root of a process at the place, and notes it before.
    ///
    /// # Errors
    /// [`EngineError::State`], and [`MountFault::Kernel`] with the container's `name`. The place has to be cleared then.
    pub fn show(&self, home: &Home, process: BorrowedFd<'_>, name: &str) -> Result<(), EngineError> {
        let fail = |source| EngineError::file("write", &self.mark)(source);
        let here = namespace().map_err(EngineError::file("look at", "/proc/thread-self/ns/mnt"))?;
        let mut file = &self.file;
        file.rewind().map_err(fail)?;
        file.set_len(0).map_err(fail)?;
        write!(file, "{} {here}", boot()).map_err(fail)?;
        crate::container::fault::point("mount-marked");
        for path in [&home.mounts(), &self.path] {
            tote_state::closed::directory(path).map_err(EngineError::file("make", path))?;
        }
        crate::container::fault::point("mount-placed");
        let shown = tote_sys::show_root(process, &text_of(&self.path)?);
        crate::container::fault::point("mount-made");
        Ok(shown.map_err(|source| {
            crate::ContainerError::from(MountFault::Kernel {
                attempt: "mount",
                name: name.to_owned(),
                source,
            })
        })?)
    }

    /// Takes away the mount, the directory and the file. The kernel takes copies of the mount in other mount namespaces
    /// away together with the directory. With `lazily` a process that works in the mount keeps it for itself.
    ///
    /// # Errors
    /// [`std::io::ErrorKind::ResourceBusy`] if a process works in the mount, and errors of umount(2), rmdir(2) and unlink(2).
    pub fn clear(&self, lazily: bool) -> Result<(), EngineError> {
        let place = text_of(&self.path)?;
        if is_mounted(&self.path)? {
            let hidden = tote_sys::hide_root(&place, lazily);
            hidden.map_err(EngineError::file("unmount", &self.path))?;
            crate::container::fault::point("mount-hidden");
        }
        match std::fs::remove_dir(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(EngineError::file("remove", &self.path)(error));
            }
            _ => {}
        }
        std::fs::remove_file(&self.mark).map_err(EngineError::file("remove", &self.mark))
    }

    /// Returns the lock, for as long as the mount must stay.
    pub fn into_lock(self) -> File {
        self.file
    }
}

/// Finds out whether a container is mounted, without a lock: another command may change that at once.
///
/// # Errors
/// Those of [`Place::look`].
pub fn look(home: &Home, id: &ContainerId) -> Result<Mounted, EngineError> {
    let mark = mark_of(home, id);
    match std::fs::read_to_string(&mark) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Mounted::No),
        text => seen(&home.mount(id), &text.map_err(EngineError::file("read", mark))?),
    }
}

fn seen(path: &Path, text: &str) -> Result<Mounted, EngineError> {
    if is_mounted(path)? {
        return Ok(Mounted::Here);
    }
    // A command that was killed before it had written the text has mounted nothing.
    let Some((when, namespace)) = text.split_once(' ') else {
        return Ok(Mounted::No);
    };
    if when != boot() {
        return Ok(Mounted::No);
    }
    let member = namespace.parse().ok().and_then(|number| member_of(number, path));
    Ok(member.map_or(Mounted::No, Mounted::Elsewhere))
}

fn is_mounted(path: &Path) -> Result<bool, EngineError> {
    match tote_sys::is_mount_point(&text_of(path)?) {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        found => found.map_err(EngineError::file("look at", path)),
    }
}

fn text_of(path: &Path) -> Result<CString, EngineError> {
    let text = CString::new(path.as_os_str().as_bytes());
    text.map_err(|error| EngineError::file("look at", path)(std::io::Error::from(error)))
}

/// The number of this process's mount namespace.
fn namespace() -> std::io::Result<u64> {
    Ok(std::fs::metadata("/proc/thread-self/ns/mnt")?.ino())
}

/// Finds a process of another mount namespace that has a mount at `place`; `None` if no process has, or if the namespace is
/// this process's own. The number alone does not tell: the kernel gives the number of a namespace that is gone to a new one.
fn member_of(wanted: u64, place: &Path) -> Option<u32> {
    if namespace().is_ok_and(|own| own == wanted) {
        return None;
    }
    // absence: the place is said to be mounted elsewhere
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|pid: &u32| {
        // absence: the process has ended
        std::fs::metadata(format!("/proc/{pid}/ns/mnt")).is_ok_and(|found| found.ino() == wanted)
            && has_mount(&format!("/proc/{pid}/mountinfo"), place)
    })
}

/// Finds out whether a list of mounts, see proc_pid_mountinfo(5), has one at `place`, which ends in a container's id. The
/// root of the process that the list belongs to decides how the path begins.
fn has_mount(list: &str, place: &Path) -> bool {
    let end = place.file_name().unwrap_or_default().as_bytes();
    match std::fs::read(list) {
        Ok(list) => list.split(|byte| *byte == b'\n').any(|line| {
            let point = line.split(|byte| *byte == b' ').nth(4);
            point
                .and_then(|point| point.strip_suffix(end))
                .is_some_and(|start| start.ends_with(b"/"))
        }),
        // A process that has just ended has no list, no process, or no namespace. Any other list that cannot be read counts
        // as one with the mount.
        Err(error) => {
            let ended = [Errno::NOENT, Errno::SRCH, Errno::INVAL].map(|errno| Some(errno.raw_os_error()));
            !ended.contains(&error.raw_os_error())
        }
    }
}

/// Returns where the root of a container is mounted, for a start that uses that mount: a second one of the same overlay
/// would have its files twice. The lock keeps the mount until the start has it.
///
/// # Errors
/// [`MountFault::Elsewhere`], and [`EngineError::State`].
pub fn in_place(home: &Home, id: &ContainerId) -> Result<Option<(PathBuf, File)>, EngineError> {
    if home.caller != Caller::Root {
        return Ok(None);
    }
    let Some(place) = Place::lock(home, id, false)? else {
        return Ok(None);
    };
    match place.look()? {
        Mounted::Here => Ok(Some((place.path.clone(), place.into_lock()))),
        Mounted::No => {
            place.clear(false)?;
            Ok(None)
        }
        Mounted::Elsewhere(pid) => Err(crate::ContainerError::from(MountFault::Elsewhere {
            name: id.short().to_owned(),
            pid,
        })
        .into()),
    }
}

/// True if a container is mounted, or may be.
pub fn is_mounted_somewhere(home: &Home, id: &ContainerId) -> bool {
    !matches!(look(home, id), Ok(Mounted::No))
}

/// Takes away the mount of a container that is being removed.
///
/// # Errors
/// [`EngineError::State`].
pub fn forget(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    match Place::lock(home, id, false)? {
        None => Ok(()),
        Some(place) => place.clear(true),
    }
}

/// Clears what a killed command has left of a place, and the mount of a container that is gone.
pub fn sweep(home: &Home, id: &ContainerId) {
    let Ok(Some(place)) = Place::get(home, id, (false, false)) else {
        return;
    };
    let parts = [home.container(id), home.live().join(id.as_str())];
    // absence: what cannot be examined counts as there
    let is_gone = parts.iter().all(|part| matches!(is_there(part), Ok(false)));
    if is_gone || matches!(place.look(), Ok(Mounted::No)) {
        best_effort(place.clear(true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process of a namespace that has got the number of one that is gone does not have the mount.
    #[test]
    fn a_mount_is_found_by_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("mountinfo");
        let id = ContainerId::from_bytes([9; 32]);
        let has = |point: String| {
            let text = format!("22 1 0:21 / / rw - ext4 a rw\n23 22 0:22 / {point} rw - overlay tote rw\n");
            std::fs::write(&list, text).unwrap();
            has_mount(
                list.to_str().unwrap(),
                &Path::new("/state/mounts").join(id.as_str()),
            )
        };
        assert!(has(format!("/state/mounts/{id}")));
        assert!(has(format!("/other\\040root/mounts/{id}")));
        assert!(!has("/".to_owned()));
        assert!(!has(format!("/state/mounts/{id}/dev")));
        assert!(!has(format!("/state/mounts/a{id}")));
        std::fs::remove_file(&list).unwrap();
        assert!(!has_mount(list.to_str().unwrap(), Path::new("/state")));
        assert!(has_mount(dir.path().to_str().unwrap(), Path::new("/state")));
    }

    /// A killed command has written nothing yet; after another boot, and without a process in the namespace, the mount is gone.
    #[test]
    fn a_file_without_a_mount_is_a_leftover() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = ContainerId::from_bytes([9; 32]);
        std::fs::create_dir(home.container(&id)).unwrap();
        for text in ["", "another-boot 1", &format!("{} 1", boot())] {
            std::fs::create_dir_all(home.mount(&id)).unwrap();
            std::fs::write(mark_of(&home, &id), text).unwrap();
            assert_eq!(look(&home, &id).unwrap(), Mounted::No, "{text}");
            assert_eq!(marked(&home).unwrap(), std::slice::from_ref(&id));
            sweep(&home, &id);
            assert!(!mark_of(&home, &id).try_exists().unwrap(), "{text}");
            assert!(!home.mount(&id).try_exists().unwrap(), "{text}");
        }
        // A command that works on the place has the lock.
        let place = Place::lock(&home, &id, true).unwrap().unwrap();
        sweep(&home, &id);
        assert!(place.mark.try_exists().unwrap());
        place.clear(false).unwrap();
        assert!(Place::lock(&home, &id, false).unwrap().is_none());
    }
}
