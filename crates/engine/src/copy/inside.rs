//! Root of a container in any state.

use super::error::{CopyError, PlaceError};
use super::tree::Tree;
use super::visit::Visit;
use crate::changes::ContainerError;
use crate::container::{self, Entry};
use crate::{Caller, EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::StatVfsMountFlags;
use tote_runtime::Namespaces;
use tote_state::process;
use tote_sys::Errno;

/// Flag `CLONE_NEWUSER`.
const NEW_USER: u32 = 0x1000_0000;

/// Open root of a container. The resources behind it are released after it.
pub(super) struct Inside {
    root: OwnedFd,
    /// The container; in a guest its record is not known.
    pub(super) entry: Option<Entry>,
    /// Name as requested.
    pub(super) name: String,
    process: Option<(u32, OwnedFd)>,
    /// For a stopped container: its mounts.
    _visit: Option<Visit>,
}

impl Inside {
    /// Opens the root of the container of that name; `writes` is true if files are copied to it.
    ///
    /// # Errors
    /// [`EngineError`].
    pub(super) fn open(home: &Home, name: &str, writes: bool) -> Result<Self, EngineError> {
        let entry = container::find(home, name)?;
        if let Some(running) = Self::running(&entry, name)? {
            return Ok(running);
        }
        let id = entry.container.id.short().to_owned();
        if !entry.kept || (entry.container.rm && writes) {
            return Err(ContainerError::InMemory(id).into());
        }
        let Some(still) = container::keep_still(home, &entry)? else {
            let entry = container::find(home, name)?;
            return Ok(Self::running(&entry, name)?.ok_or(CopyError::Ended(id))?);
        };
        let entry = still.entry().clone();
        let visit = Visit::new(home, still)?;
        let pidfd = visit.pidfd().map_err(|_| CopyError::Ended(id))?;
        let pid = visit.pid();
        Self::of((entry, name), pid, pidfd, Some(visit))
    }

    /// Opens the root of a running container; `None` if it does not run.
    fn running(entry: &Entry, name: &str) -> Result<Option<Self>, EngineError> {
        let first = entry.state.process.filter(|_| entry.state.runs());
        let pidfd = first.and_then(|first| process::open(first.pid, first.start_time));
        let (Some(first), Some(pidfd)) = (first, pidfd) else {
            return Ok(None);
        };
        Self::of((entry.clone(), name), first.pid, pidfd, None).map(Some)
    }

    fn of(
        (entry, name): (Entry, &str),
        pid: u32,
        pidfd: OwnedFd,
        visit: Option<Visit>,
    ) -> Result<Self, EngineError> {
        let id = || entry.container.id.short().to_owned();
        let root = tote_runtime::root_of(pid, pidfd.as_fd()).map_err(|source| match source {
            Errno::SRCH => CopyError::Ended(id()),
            source => CopyError::Root { id: id(), source },
        })?;
        Ok(Self {
            root,
            name: name.to_owned(),
            entry: Some(entry),
            process: Some((pid, pidfd)),
            _visit: visit,
        })
    }

    /// True if the container of this name is this one.
    pub(super) fn is_also(&self, home: &Home, name: &str) -> bool {
        let other = container::find(home, name).map(|entry| entry.container.id);
        let own = self.entry.as_ref().map(|entry| &entry.container.id);
        own.is_some() && other.ok().as_ref() == own
    }

    /// The root of a container in the guest that this process is in.
    pub(super) fn of_guest(root: OwnedFd, name: &str) -> Self {
        Self {
            root,
            entry: None,
            name: name.to_owned(),
            process: None,
            _visit: None,
        }
    }

    /// Moves this process into the container's user namespace as root, if that is another one: file owners then have
    /// their ids from there. Files of this machine stay the caller's. The process must have one thread.
    ///
    /// # Errors
    /// [`CopyError::Ids`].
    pub(super) fn enter_ids(&self, home: &Home) -> Result<(), EngineError> {
        let Some((pid, pidfd)) = &self.process else {
            return Ok(());
        };
        if home.caller != Caller::User || !Namespaces::to_join(NEW_USER, *pid).user {
            return Ok(());
        }
        // The container's root must not inspect this process, if it can see it.
        let entered =
            tote_sys::set_dumpable(false).and_then(|()| tote_sys::set_namespaces(pidfd.as_fd(), NEW_USER));
        let id = self
            .entry
            .as_ref()
            .map_or_else(String::new, |entry| entry.container.id.short().to_owned());
        Ok(entered.map_err(|source| CopyError::Ids { id, source })?)
    }

    pub(super) fn tree(&self) -> Tree<'_> {
        Tree {
            root: self.root.as_fd(),
            foreign: true,
        }
    }

    /// Formats a path in the container as users write it.
    pub(super) fn shown(&self, path: &[u8]) -> String {
        format!("{}:{}", self.name, String::from_utf8_lossy(path))
    }

    /// Builds docker's error for a missing path.
    pub(super) fn not_there(&self, path: &[u8]) -> CopyError {
        CopyError::Place(PlaceError::NotThere {
            path: String::from_utf8_lossy(path).into_owned(),
            container: self.name.clone(),
        })
    }

    /// Checks that a directory in the container is writable; the errors are docker's.
    pub(super) fn check_writable(&self, dir: &OwnedFd, shown: &str) -> Result<(), CopyError> {
        let failed = |source| CopyError::Path {
            attempt: "look at",
            path: shown.to_owned(),
            source,
        };
        let found = rustix::fs::fstatvfs(dir).map_err(failed)?;
        if !found.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Ok(());
        }
        let options = self
            .entry
            .as_ref()
            .and_then(|entry| entry.container.run_options().ok());
        // In a guest the root is the only file system that `--read-only` can have made so.
        let read_only = options.is_none_or(|options| options.read_only);
        let at = |fd: &OwnedFd| tote_sys::mount_number(fd.as_fd()).ok();
        Err(if at(dir) != at(&self.root) {
            CopyError::ReadOnlyMount
        } else if read_only {
            CopyError::ReadOnlyRoot
        } else {
            CopyError::Outside(shown.to_owned())
        })
    }
}
