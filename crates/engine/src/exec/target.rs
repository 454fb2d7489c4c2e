//! A container that runs, for somebody who wants in.

use super::{ExecError, Inside};
use crate::container::{self, Entry};
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use tote_runtime::Namespaces;
use tote_sandbox::clone_flag;
use tote_spec::NamespaceType;
use tote_state::process;

/// A container that runs, and the descriptor by which its first process is known: the number alone may become somebody
/// else's.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) entry: Entry,
    /// The number of its first process.
    pub(crate) pid: u32,
    /// The pidfd of that.
    pub(crate) init: OwnedFd,
    /// Where its cgroup is, as the cgroup crate writes it down; empty for none.
    pub(crate) cgroup: String,
    pub(crate) inside: Inside,
}

impl Target {
    /// The running container of that name.
    ///
    /// # Errors
    /// There is none, or it does not run.
    pub(crate) fn find(home: &Home, wanted: &str) -> Result<Self, EngineError> {
        Self::of(home, container::find(home, wanted)?)
    }

    /// This container, which runs.
    ///
    /// # Errors
    /// It does not.
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

    /// Whether it has been given a namespace of that kind.
    pub(crate) fn has(&self, kind: NamespaceType) -> bool {
        self.inside.linux.namespaces.iter().any(|one| one.kind == kind)
    }

    /// What a process joins that is to be in there.
    pub(crate) fn namespaces(&self) -> Namespaces {
        let given = self.inside.linux.namespaces.iter();
        let given = given.fold(0, |flags, one| flags | clone_flag(one.kind));
        Namespaces::to_join(given, self.pid)
    }

    /// The error, unless the reason for it is that the container has ended meanwhile: whatever is asked of its namespaces
    /// fails then, each in its own words.
    pub(crate) fn or_ended(&self, error: ExecError) -> ExecError {
        let first = self.entry.state.process;
        match first.filter(|first| process::is_ending(first.pid, first.start_time)) {
            Some(_) => ExecError::NotRunning(self.entry.container.id.to_string()),
            None => error,
        }
    }

    /// Its root directory.
    ///
    /// # Errors
    /// It cannot be opened; that it has just ended is one reason.
    pub(crate) fn root(&self) -> Result<OwnedFd, ExecError> {
        tote_runtime::root_of(self.pid, self.init.as_fd()).map_err(|source| {
            self.or_ended(ExecError::Root {
                id: self.entry.container.id.to_string(),
                source,
            })
        })
    }
}
