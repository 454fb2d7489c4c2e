//! `RUN --mount=type=cache`: directories that outlive builds.

use super::mounts::COPY;
use super::worker::Building;
use super::workspace::make_dir;
use crate::EngineError;
use rustix::fs::{CWD, FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tote_build::StepMount;
use tote_dockerfile::Sharing;
use tote_state::locked::directory_within;
use tote_store::sha256;
use tote_sys::{WORK_LOCK, best_effort};

/// Directories of the caches of a step by the places of their mounts, and the locks, which the caller holds during the step. A
/// pruning skips locked caches.
#[derive(Debug, Default)]
pub(crate) struct CacheMounts {
    pub paths: BTreeMap<usize, PathBuf>,
    pub locks: Vec<OwnedFd>,
}

/// Returns the name of a cache's directory, and what sorts the locks of one name: the strongest first.
fn name(mount: &StepMount) -> Option<(String, u8)> {
    let StepMount::Cache {
        id,
        sharing,
        mode,
        uid,
        gid,
        ..
    } = mount
    else {
        return None;
    };
    // A cache with another initial owner or mode is a different cache.
    let begins = (mode, uid, gid);
    let name = sha256(format!("{id}\0{begins:?}\0{COPY}").as_bytes()).hex();
    let rank = match sharing {
        Sharing::Locked => 0,
        Sharing::Shared => 1,
        Sharing::Private => 2,
    };
    Some((name, rank))
}

impl Building<'_> {
    /// Takes the caches of a step. All steps take them in one order, so that no two of them wait for each other; and a step has one lock
    /// for a cache that it mounts twice.
    pub(crate) fn cache_mounts(&mut self, mounts: &[StepMount]) -> Result<CacheMounts, EngineError> {
        let caches = mounts.iter().enumerate();
        let mut caches: Vec<_> = caches
            .filter_map(|(place, mount)| Some((name(mount)?, place)))
            .collect();
        caches.sort();
        let mut taken = CacheMounts::default();
        let mut last: Option<(String, PathBuf)> = None;
        for ((name, rank), place) in caches {
            let known = last.as_ref().filter(|(known, _)| *known == name && rank < 2);
            let path = match known {
                Some((_, path)) => path.clone(),
                None => {
                    let (path, lock) = self.cache_mount(&mounts[place], &name)?;
                    taken.locks.push(lock);
                    path
                }
            };
            taken.paths.insert(place, path.clone());
            last = Some((name, path));
        }
        Ok(taken)
    }

    /// Returns the directory of a cache and its lock.
    fn cache_mount(&mut self, mount: &StepMount, name: &str) -> Result<(PathBuf, OwnedFd), EngineError> {
        let StepMount::Cache { sharing, .. } = mount else {
            return Err(EngineError::file("make a cache", &self.home.builds())(
                ErrorKind::InvalidInput,
            ));
        };
        let all = self.home.builds().join("mounts");
        let operation = match sharing {
            Sharing::Shared => FlockOperation::LockShared,
            Sharing::Locked => FlockOperation::LockExclusive,
            Sharing::Private => FlockOperation::NonBlockingLockExclusive,
        };
        // If private caches are locked by other builds, the next free number is taken.
        let mut others = 0;
        loop {
            let path = match others {
                0 => all.join(name),
                number => all.join(format!("{name}.{number}")),
            };
            if !tote_state::record::is_there(&path)? {
                self.new_cache(mount, &path)?;
            }
            match directory_within(&path, operation, WORK_LOCK) {
                // The command has the files, and not the directory with the lock: it could take that lock as well.
                Ok(Some(lock)) => {
                    super::cache::touch(&path);
                    return Ok((path.join(COPY), lock));
                }
                // A pruning removed the directory just now.
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => others += 1,
                Err(errno) => return Err(EngineError::file("lock", &path)(errno)),
            }
        }
    }

    /// Makes the directory and in it the one of the files. It gets its name when it is complete.
    fn new_cache(&mut self, mount: &StepMount, path: &Path) -> Result<(), EngineError> {
        let StepMount::Cache {
            mode,
            uid,
            gid,
            from,
            source,
            ..
        } = mount
        else {
            return Ok(());
        };
        // The files go into this build's own directory, so that they are removed with it.
        let dir = self.workspace.path().join("cache");
        best_effort(tote_sys::remove_tree(&dir));
        make_dir(&dir, 0o700)?;
        let fresh = dir.join(COPY);
        if let Some(from) = from {
            self.copy_out(source, from, &dir)?;
        }
        make_dir(&fresh, 0o755)?;
        let opened = super::view::open(&fresh, OFlags::RDONLY);
        let opened = opened.map_err(EngineError::file("open", &fresh))?;
        let (uid, gid) = (Uid::from_raw(uid.unwrap_or(0)), Gid::from_raw(gid.unwrap_or(0)));
        rustix::fs::fchown(&opened, Some(uid), Some(gid))
            .and_then(|()| rustix::fs::fchmod(&opened, Mode::from_raw_mode(mode.unwrap_or(0o755))))
            .map_err(EngineError::file("change the owner of", &fresh))?;
        match rustix::fs::renameat_with(CWD, &dir, CWD, path, RenameFlags::NOREPLACE) {
            // Another build was faster.
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(EngineError::file("name", path)(errno)),
        }
    }
}
