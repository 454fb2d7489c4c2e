//! The root of a container, whatever state it is in.

use super::error::CopyError;
use super::tree::Tree;
use super::visit::Visit;
use crate::changes::ContainerError;
use crate::container::{self, Entry, LifeError, Status};
use crate::{Caller, EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::StatVfsMountFlags;
use std::fs::File;
use tote_runtime::Namespaces;
use tote_state::locked::locked;
use tote_state::process;
use tote_sys::Errno;

/// The file in a container's directory that is locked by the one copy that mounts it.
const TURN: &str = "copying";

/// `CLONE_NEWUSER`.
const NEW_USER: u32 = 0x1000_0000;

/// A container's root, open. What it was mounted for is let go of after it.
pub(super) struct Inside {
    root: OwnedFd,
    pub(super) entry: Entry,
    /// As it was asked for.
    pub(super) name: String,
    pid: u32,
    pidfd: OwnedFd,
    /// Of one that does not run; and that it is this copy's turn.
    _visit: Option<(Visit, Option<File>)>,
}

impl Inside {
    /// The container of that name; `writes` says whether anything is copied to it.
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
        // One copy after the other; the claim alone would be refused to the second.
        let turn = locked(&home.container(&entry.container.id).join(TURN), true, true)?;
        // It may be another one by now.
        let entry = container::find(home, entry.container.id.as_str())?;
        let (entry, claim) = match container::claim(home, entry) {
            Err(EngineError::Life(LifeError::Busy(busy))) => {
                let entry = container::find(home, name)?;
                return Ok(Self::running(&entry, name)?.ok_or(LifeError::Busy(busy))?);
            }
            claimed => claimed?,
        };
        if entry.state.status == Status::Removing {
            claim.release();
            return Err(LifeError::Removing(entry.container.display().to_owned()).into());
        }
        let visit = Visit::new(home, &entry, claim)?;
        let pidfd = visit.pidfd().map_err(|_| CopyError::Ended(id))?;
        let pid = visit.pid();
        Self::of((entry, name), pid, pidfd, Some((visit, turn)))
    }

    /// Where it runs.
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
        visit: Option<(Visit, Option<File>)>,
    ) -> Result<Self, EngineError> {
        let id = || entry.container.id.short().to_owned();
        let root = tote_runtime::root_of(pid, pidfd.as_fd()).map_err(|source| match source {
            Errno::SRCH => CopyError::Ended(id()),
            source => CopyError::Root { id: id(), source },
        })?;
        Ok(Self {
            root,
            name: name.to_owned(),
            entry,
            pid,
            pidfd,
            _visit: visit,
        })
    }

    /// Makes this process root of the container's user namespace, where that is another one: owners are then what they
    /// are in there. What is this machine's stays the caller's. The process must have one thread.
    ///
    /// # Errors
    /// [`CopyError::Ids`].
    pub(super) fn enter_ids(&self, home: &Home) -> Result<(), EngineError> {
        if home.caller != Caller::User || !Namespaces::to_join(NEW_USER, self.pid).user {
            return Ok(());
        }
        // Its root must not look into this process, should it see it.
        let entered = tote_sys::set_dumpable(false)
            .and_then(|()| tote_sys::set_namespaces(self.pidfd.as_fd(), NEW_USER));
        let id = self.entry.container.id.short().to_owned();
        Ok(entered.map_err(|source| CopyError::Ids { id, source })?)
    }

    pub(super) fn tree(&self) -> Tree<'_> {
        Tree {
            root: self.root.as_fd(),
            foreign: true,
        }
    }

    /// What people call a path in it.
    pub(super) fn shown(&self, path: &[u8]) -> String {
        format!("{}:{}", self.name, String::from_utf8_lossy(path))
    }

    /// Docker's words for what is not in it.
    pub(super) fn not_there(&self, path: &[u8]) -> CopyError {
        CopyError::NotThere {
            path: String::from_utf8_lossy(path).into_owned(),
            container: self.name.clone(),
        }
    }

    /// Whether a directory in it can be written to; docker's words where not.
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
        let options = self.entry.container.run_options().unwrap_or_default();
        let at = |fd: &OwnedFd| tote_sys::mount_number(fd.as_fd()).ok();
        Err(if at(dir) != at(&self.root) {
            CopyError::ReadOnlyMount
        } else if options.read_only {
            CopyError::ReadOnlyRoot
        } else {
            CopyError::Outside(shown.to_owned())
        })
    }
}
