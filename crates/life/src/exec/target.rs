//! Process whose namespaces another process joins: the first one of a container.

use super::{ExecError, Inside};
use crate::container::{self, Entry};
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use tote_runtime::Namespaces;
use tote_sandbox::clone_flag;
use tote_spec::NamespaceType;
use tote_state::process;

/// Process of a running container, with a descriptor: the number alone could be reused.
#[derive(Debug)]
pub struct Target {
    /// Id of the container, or its name in the engine that made it.
    pub id: String,
    /// The container, if it is one of ours.
    pub entry: Option<Entry>,
    /// Pid of the first process.
    pub pid: u32,
    /// Start time of that process, as in `/proc/PID/stat`.
    pub start_time: u64,
    /// Pidfd of the first process.
    pub init: OwnedFd,
    /// Path of the cgroup, in the cgroup crate's notation; empty without a cgroup.
    pub cgroup: String,
    /// Part of the spec that an added process shares.
    pub inside: Inside,
    /// The container's own process, if it is in a virtual machine: then `inside` is the machine's sandbox.
    pub guest: Option<Inside>,
}

impl Target {
    /// Finds a running container by name.
    ///
    /// # Errors
    /// Fails if the container is missing, or does not run.
    pub fn find(home: &Home, wanted: &str) -> Result<Self, EngineError> {
        Self::of(home, container::find(home, wanted)?)
    }

    /// Opens this running container.
    ///
    /// # Errors
    /// Fails if the container does not run.
    pub fn of(home: &Home, entry: Entry) -> Result<Self, EngineError> {
        let stopped = || ExecError::NotRunning(entry.container.id.to_string());
        let first = entry
            .state
            .process
            .filter(|_| entry.state.runs())
            .ok_or_else(stopped)?;
        let init = process::open(first.pid, first.start_time).ok_or_else(stopped)?;
        let own = Inside::read(home, &entry)?;
        let (inside, guest) = if crate::vm::is_in_vm(&entry.container) {
            (crate::vm::sandbox_of(home, &entry)?, Some(own))
        } else {
            (own, None)
        };
        Ok(Self {
            id: entry.container.id.to_string(),
            pid: first.pid,
            start_time: first.start_time,
            init,
            cgroup: entry.state.cgroup.clone().unwrap_or_default(),
            inside,
            guest,
            entry: Some(entry),
        })
    }

    /// Returns what the container's own process has, whichever kernel that is in.
    pub fn own(&self) -> &Inside {
        self.guest.as_ref().unwrap_or(&self.inside)
    }

    /// Returns it to be changed.
    pub fn own_mut(&mut self) -> &mut Inside {
        self.guest.as_mut().unwrap_or(&mut self.inside)
    }

    /// Returns the name by which a person knows the container.
    pub fn display(&self) -> &str {
        self.entry
            .as_ref()
            .map_or(&self.id, |entry| entry.container.display())
    }

    /// Returns the name of the container's session keyring; other engines' containers have none that is known.
    pub fn keyring(&self) -> Option<String> {
        self.entry.as_ref().map(|entry| entry.container.id.keyring())
    }

    /// True if the container has a namespace of that kind.
    pub fn has(&self, kind: NamespaceType) -> bool {
        self.inside.linux.namespaces.iter().any(|one| one.kind == kind)
    }

    /// Returns the namespaces that a new process joins.
    pub fn namespaces(&self) -> Namespaces {
        let given = self.inside.linux.namespaces.iter();
        let given = given.fold(0, |flags, one| flags | clone_flag(one.kind));
        Namespaces::to_join(given, self.pid)
    }

    /// Replaces an error by [`ExecError::NotRunning`] if the container has ended meanwhile, because then every use of
    /// its namespaces fails in another way.
    pub fn or_ended(&self, error: ExecError) -> ExecError {
        if process::is_ending(self.pid, self.start_time) {
            ExecError::NotRunning(self.id.clone())
        } else {
            error
        }
    }

    /// Duplicates the descriptor of the first process.
    pub fn hold(&self) -> Result<OwnedFd, EngineError> {
        let failed = EngineError::file("hold the process of", self.id.as_str());
        self.init.try_clone().map_err(failed)
    }

    /// Opens the root directory.
    ///
    /// # Errors
    /// Fails if the root cannot be opened, for example because the container has just ended.
    pub fn root(&self) -> Result<OwnedFd, ExecError> {
        tote_runtime::root_of(self.pid, self.init.as_fd()).map_err(|source| {
            self.or_ended(ExecError::Root {
                id: self.id.clone(),
                source,
            })
        })
    }
}
