//! Lock on a pod's directory: the right to add members, or to make or remove the pod.

use super::PodError;
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::cell::RefCell;
use std::path::Path;
use std::rc::{Rc, Weak};
use tote_bundle::ContainerId;
use tote_state::locked::flock_within;
use tote_sys::best_effort;

/// Name of the mark of a pod whose removal has begun.
pub const REMOVING: &str = "removing";

/// Lock on a directory, held until drop or the end of the process. Members are added under a shared lock, from the
/// look at the pod until they are recorded; a pod is made and removed under an exclusive one.
#[derive(Debug)]
pub struct Guard(Rc<Lock>);

/// Open directory; `None` in a forked process that has let go of it.
type Lock = RefCell<Option<OwnedFd>>;

thread_local! {
    /// Locks of this process.
    static HELD: RefCell<Vec<Weak<Lock>>> = const { RefCell::new(Vec::new()) };
}

/// Closes the locks of the parent in a forked process that lives on. Until then a lock outlives a
/// parent that is killed.
pub fn let_go() {
    let held = HELD.with(RefCell::take);
    for lock in held.iter().filter_map(Weak::upgrade) {
        // The descriptor is closed, not unlocked, because the parent holds the same lock.
        drop(lock.take());
    }
}

impl Guard {
    /// Locks a pod to add a member.
    ///
    /// # Errors
    /// [`PodError::Missing`] and [`PodError::Removing`].
    pub fn shared(home: &Home, id: &ContainerId) -> Result<Self, EngineError> {
        let guard = Self::of(&home.pod(id), FlockOperation::LockShared)?;
        match guard {
            Some(guard) if !tote_state::record::is_there(&home.pod(id).join(REMOVING))? => Ok(guard),
            Some(_) => Err(PodError::Removing(id.to_string()).into()),
            None => Err(PodError::Missing(id.to_string()).into()),
        }
    }

    /// Locks a pod to make or remove it; `None` if it is gone.
    pub fn exclusive(home: &Home, id: &ContainerId) -> Result<Option<Self>, EngineError> {
        Self::of(&home.pod(id), FlockOperation::LockExclusive)
    }

    /// Tries [`Guard::exclusive`]; `None` also if another process works on the pod.
    pub fn abandoned(home: &Home, id: &ContainerId) -> Option<Self> {
        Self::of(&home.pod(id), FlockOperation::NonBlockingLockExclusive).ok()?
    }

    /// Locks the infra container for its start: one at a time.
    pub fn of_container(home: &Home, id: &ContainerId) -> Result<Option<Self>, EngineError> {
        Self::of(&home.container(id), FlockOperation::LockExclusive)
    }

    fn of(path: &Path, operation: FlockOperation) -> Result<Option<Self>, EngineError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fail = |source: tote_sys::Errno| EngineError::file("lock", path)(source);
        let dir = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(tote_sys::Errno::NOENT) => return Ok(None),
            opened => opened.map_err(fail)?,
        };
        let locked = flock_within(dir.as_fd(), operation, tote_sys::WORK_LOCK, path);
        locked.map_err(EngineError::file("lock", path))?;
        // The previous holder may have removed the directory meanwhile.
        let is_there = match rustix::fs::stat(path) {
            Err(tote_sys::Errno::NOENT) => false,
            there => {
                let (there, own) = (there.map_err(fail)?, rustix::fs::fstat(&dir).map_err(fail)?);
                (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)
            }
        };
        let guard = Self(Rc::new(RefCell::new(Some(dir))));
        HELD.with_borrow_mut(|held| {
            held.retain(|lock| lock.strong_count() > 0);
            held.push(Rc::downgrade(&guard.0));
        });
        Ok(is_there.then_some(guard))
    }
}

impl Drop for Guard {
    /// Unlocks explicitly, because a forked process may hold the descriptor as well.
    fn drop(&mut self) {
        if let Some(dir) = self.0.take() {
            best_effort(tote_sys::flock(dir, FlockOperation::Unlock));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> (tempfile::TempDir, Home, ContainerId) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = ContainerId::from_bytes([3; 32]);
        std::fs::create_dir_all(home.pod(&id)).unwrap();
        (dir, home, id)
    }

    #[test]
    fn members_are_added_side_by_side_and_nobody_removes_meanwhile() {
        let (_dir, home, id) = made();
        let one = Guard::shared(&home, &id).unwrap();
        let two = Guard::shared(&home, &id).unwrap();
        assert!(Guard::abandoned(&home, &id).is_none());
        drop((one, two));
        let guard = Guard::abandoned(&home, &id).unwrap();
        std::fs::write(home.pod(&id).join(REMOVING), "").unwrap();
        drop(guard);
        let error = Guard::shared(&home, &id).unwrap_err().to_string();
        assert!(error.contains("is being removed"), "{error}");
        std::fs::remove_dir_all(home.pod(&id)).unwrap();
        assert!(Guard::exclusive(&home, &id).unwrap().is_none());
    }

    #[test]
    fn what_is_let_go_is_not_unlocked() {
        let (_dir, home, id) = made();
        let guard = Guard::exclusive(&home, &id).unwrap().unwrap();
        // The duplicate stands for another process's descriptor.
        let other = guard.0.borrow().as_ref().unwrap().try_clone().unwrap();
        let_go();
        drop(guard);
        assert!(Guard::abandoned(&home, &id).is_none());
        drop(other);
        assert!(Guard::abandoned(&home, &id).is_some());
    }
}
