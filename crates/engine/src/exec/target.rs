//! Running container to join.

use super::{ExecError, Inside};
use crate::container::{self, Entry};
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use tote_runtime::Namespaces;
use tote_sandbox::clone_flag;
use tote_spec::NamespaceType;
use tote_state::process;

/// Running container, with a descriptor of its first process: the number alone could be reused.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) entry: Entry,
    /// Pid of the first process.
    pub(crate) pid: u32,
    /// Pidfd of the first process.
    pub(crate) init: OwnedFd,
    /// Path of the cgroup, in the cgroup crate's notation; empty without a cgroup.
    pub(crate) cgroup: String,
    pub(crate) inside: Inside,
}

impl Target {
    /// Finds a running container by name.
    ///
    /// # Errors
    /// Fails if the container is missing, or does not run.
    pub(crate) fn find(home: &Home, wanted: &str) -> Result<Self, EngineError> {
        Self::of(home, container::find(home, wanted)?)
    }

    /// Opens this running container.
    ///
    /// # Errors
    /// Fails if the container does not run.
    pub(crate) fn of(home: &Home, entry: Entry) -> Result<Self, EngineError> {
        let stopped = || ExecError::NotRunning(entry.container.id.to_string());
        let first = entry
            .state
            .process
            .filter(|_| entry.state.runs())
            .ok_or_else(stopped)?;
        let init = process::open(first.pid, first.start_time).ok_or_else(stopped)?;
        let inside = Inside::read(home, &entry)?;
        Ok(Self {
            pid: first.pid,
            init,
            cgroup: entry.state.cgroup.clone().unwrap_or_default(),
            inside,
            entry,
        })
    }

    /// True if the container has a namespace of that kind.
    pub(crate) fn has(&self, kind: NamespaceType) -> bool {
        self.inside.linux.namespaces.iter().any(|one| one.kind == kind)
    }

    /// Returns the namespaces that a new process joins.
    pub(crate) fn namespaces(&self) -> Namespaces {
        let given = self.inside.linux.namespaces.iter();
        let given = given.fold(0, |flags, one| flags | clone_flag(one.kind));
        Namespaces::to_join(given, self.pid)
    }

    /// Replaces an error by [`ExecError::NotRunning`] if the container has ended meanwhile, because then every use of
    /// its namespaces fails in another way.
    pub(crate) fn or_ended(&self, error: ExecError) -> ExecError {
        let first = self.entry.state.process;
        match first.filter(|first| process::is_ending(first.pid, first.start_time)) {
            Some(_) => ExecError::NotRunning(self.entry.container.id.to_string()),
            None => error,
        }
    }

    /// Opens the root directory.
    ///
    /// # Errors
    /// Fails if the root cannot be opened, for example because the container has just ended.
    pub(crate) fn root(&self) -> Result<OwnedFd, ExecError> {
        tote_runtime::root_of(self.pid, self.init.as_fd()).map_err(|source| {
            self.or_ended(ExecError::Root {
                id: self.entry.container.id.to_string(),
                source,
            })
        })
    }
}
