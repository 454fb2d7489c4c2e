//! Volumes that get the image's files.
//!
//! One place decides that a volume is filled: [`Filling::of`], under the volume's lock, which the container's process gives back when the copy
//! is in its place ([`tote_sys::FillOp`]). Other containers of the volume wait for that, and then see all files.

use super::disk::LOCK;
use super::place::directory;
use crate::{EngineError, Home, RequestError};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use tote_bundle::{ContainerId, ImageConfig, ResolvedUser, RunOptions, Treatment, volumes_of};
use tote_sandbox::Fill;
use tote_spec::Spec;
use tote_state::locked::flock_within;

/// Container whose volumes may have to be filled.
#[derive(Clone, Copy, Debug)]
pub struct Filling<'a> {
    /// Directories of tote.
    pub home: &'a Home,
    /// Id of the container.
    pub id: &'a ContainerId,
    /// Options of the container.
    pub options: &'a RunOptions,
    /// Settings of its image.
    pub config: &'a ImageConfig,
    /// User of its program.
    pub user: &'a ResolvedUser,
    /// True if it has never been started.
    pub first: bool,
    /// True if it is only planned: nothing is locked then.
    pub dry: bool,
}

impl Filling<'_> {
    /// Lists the volumes that get the image's files at their destination: those that are empty before the container's first start,
    /// unless the request says otherwise. What the program has removed since stays removed. A copy that was cut is completed at any
    /// start. With `U` the files become the container's user's. Waits while another container is filling one of them.
    ///
    /// # Errors
    /// [`EngineError::State`]: a volume that cannot be listed may have to be filled.
    pub fn of(&self, spec: &Spec) -> Result<Vec<Fill>, EngineError> {
        // A command that needs several locks takes them in the same order as all others. A volume with several destinations is filled
        // from the first.
        let mut due = BTreeMap::new();
        for (destination, volume) in volumes_of(self.options, self.config) {
            let mount = spec.mounts.iter().find(|mount| mount.destination == destination);
            // Only a directory of the host can be looked into here; another file system is the container's to mount.
            let bound = mount.filter(|mount| mount.kind.as_deref().is_none_or(|kind| kind == "bind"));
            let source = bound.and_then(|mount| mount.source.as_deref());
            if let Some(source) = source.filter(|_| volume.copy)
                && self.is_due(Path::new(source))?
            {
                let name = volume.name.as_deref();
                let own = directory(self.home, self.id, self.options.rm, name, &destination);
                due.entry((own, source.to_owned())).or_insert(destination);
            }
        }
        let mut fills = Vec::new();
        for ((own, source), destination) in due {
            // A volume that goes with the container is its own.
            let shared = own.parent().filter(|dir| dir.starts_with(self.home.volumes()));
            let lock = match shared.filter(|_| !self.dry) {
                Some(dir) => Some(Arc::new(lock(dir)?)),
                None => None,
            };
            if lock.is_none() || self.is_due(Path::new(&source))? {
                fills.push(Fill {
                    owner: self.owner(&destination),
                    destination,
                    lock,
                });
            }
        }
        Ok(fills)
    }

    fn is_due(&self, source: &Path) -> Result<bool, EngineError> {
        Ok(match found(source)? {
            Found::Empty => self.first,
            Found::Filling => true,
            Found::Full => false,
        })
    }

    /// User and group that the files at this destination get.
    fn owner(&self, destination: &str) -> Option<(u32, u32)> {
        let mut requests = self.options.mounts.iter();
        let changes_hands = requests
            .any(|request| request.destination == *destination && request.treatment == Treatment::Chowned);
        changes_hands.then_some((self.user.uid, self.user.gid))
    }
}

/// Waits until no other container fills the volume of this directory, and prevents that another one does.
pub(super) fn lock(dir: &Path) -> Result<OwnedFd, EngineError> {
    let path = dir.join(LOCK);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let taken = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(Into::into)
        .and_then(|file| {
            flock_within(
                file.as_fd(),
                FlockOperation::LockExclusive,
                tote_sys::WORK_LOCK,
                &path,
            )?;
            Ok(file)
        });
    taken.map_err(|source| {
        EngineError::Request(RequestError::File {
            option: "volume",
            attempt: "lock",
            path,
            source,
        })
    })
}

/// State of a volume's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Directory without files.
    Empty,
    /// Directory with a copy that is not in its place.
    Filling,
    /// Directory with files, or something else.
    Full,
}

/// Looks into a volume's directory. One that the caller may not read has been given an owner, and so was filled before.
pub(super) fn found(directory: &Path) -> Result<Found, EngineError> {
    let filling = OsStr::from_bytes(tote_sys::FILLING.to_bytes());
    let look = || {
        let mut found = Found::Empty;
        for entry in std::fs::read_dir(directory)? {
            if entry?.file_name() != filling {
                found = Found::Full;
                break;
            }
            found = Found::Filling;
        }
        // The directory goes when all files are in their places.
        let marked = || tote_sys::visible(directory.join(filling).symlink_metadata());
        if found == Found::Full && marked()?.is_some() {
            found = Found::Filling;
        }
        Ok(found)
    };
    look().or_else(|error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::NotADirectory | ErrorKind::NotFound => Ok(Found::Full),
        _ => Err(EngineError::Request(RequestError::File {
            option: "volume",
            attempt: "list",
            path: directory.to_owned(),
            source: error,
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_not_in_its_place_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("_data");
        assert_eq!(found(&data).unwrap(), Found::Full, "nothing can be copied there");
        std::fs::create_dir(&data).unwrap();
        assert_eq!(found(&data).unwrap(), Found::Empty);
        std::fs::create_dir(data.join(".tote-fill")).unwrap();
        assert_eq!(found(&data).unwrap(), Found::Filling);
        std::fs::write(data.join("file"), "").unwrap();
        assert_eq!(found(&data).unwrap(), Found::Filling);
        std::fs::remove_dir(data.join(".tote-fill")).unwrap();
        assert_eq!(found(&data).unwrap(), Found::Full);
    }

    #[test]
    fn one_fills_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = lock(dir.path()).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lock(dir.path()).map(drop));
            let path = dir.path().join(LOCK);
            let other = std::fs::File::open(&path).unwrap();
            assert!(tote_sys::flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
            // The container's process does so, with the same open file.
            let child = first.try_clone().unwrap();
            tote_sys::flock(&child, FlockOperation::Unlock).unwrap();
            waits.join().unwrap().unwrap();
        });
        drop(first);
    }
}
