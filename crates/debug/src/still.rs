//! A container that is not started: the root and the surroundings of a stopped container, or of a container of an image,
//! with a first process that only waits.
//!
//! It is prepared and born like any other container, so its storage, volumes, user namespace and limits are those that
//! its program would have. It has no network but a loopback device, no devices of the host, and no namespace of another
//! container. Its first process is the program of pods' infra containers, executed from memory: the root has no file of
//! tote's in it. The claim is held meanwhile, so a stopped container cannot start, and what a killed session leaves is
//! found by it.

use crate::container::{self, Claim, Entry, State};
use crate::exec::{Inside, Target};
use crate::making::Purpose;
use crate::prepare::{prepare_from, prepare_still};
use crate::prepared::Prepared;
use crate::rootfs::Source;
use crate::{EngineError, Home, HostInit, RunRequest};
use rustix::fs::{MemfdFlags, Mode, fchmod, memfd_create};
use rustix::io::write;
use std::ffi::CString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use tote_bundle::{Image, ImageConfig, NetworkMode, RunOptions, SeccompChoice, command_line};
use tote_runtime::{Created, Creation, RuntimeError};
use tote_state::process;
use tote_sys::{Op, Program};

/// Name of the first process, as ps(1) shows it.
// process: first process of a stopped container
const NAME: &str = "tote-debug";

/// A container that is not started. It ends with this value.
pub(super) struct Still<'a> {
    home: &'a Home,
    created: Option<Created>,
    claim: Option<Claim>,
    prepared: Prepared,
    /// True if the cgroup could not be removed.
    leaves_cgroup: bool,
}

impl<'a> Still<'a> {
    /// Begins a throwaway container of an image: writes to its root are kept in memory, and are gone with it.
    ///
    /// # Errors
    /// [`EngineError`]; nothing is left then.
    pub(crate) fn of_image(
        home: &'a Home,
        image: Image,
        warn: &mut dyn FnMut(String),
    ) -> Result<Self, EngineError> {
        let mut source = Source::open(home, &image)?;
        source.forget_volumes();
        let mut options = RunOptions {
            rm: true,
            ..RunOptions::default()
        };
        options.set("no-healthcheck", "true")?;
        stay_still(&mut options);
        let request = RunRequest {
            image,
            options,
            // Or else it would have the network of a container that names none.
            given: vec![("network".to_owned(), "none".to_owned())],
            kept: false,
            init: HostInit::default(),
        };
        let prepared = prepare_from(home, request, source, Purpose::Now, None)?;
        Self::begin(home, prepared, warn)
    }

    /// Begins with the root of a stopped container, whose files are changed by what is written.
    ///
    /// # Errors
    /// [`EngineError`], such as [`container::LifeError::Busy`] while the container starts; it is as it was then.
    pub(crate) fn of_container(
        home: &'a Home,
        entry: Entry,
        warn: &mut dyn FnMut(String),
    ) -> Result<Self, EngineError> {
        let (entry, claim) = container::claim(home, entry)?;
        if entry.state.status == container::Status::Removing {
            claim.release();
            return Err(container::LifeError::Removing(entry.container.display().to_owned()).into());
        }
        let state = entry.state.clone();
        let mut prepared = prepare_still(home, entry.container, claim, stay_still)?;
        let (groups, writable) = (
            prepared.entry.state.cgroup.take(),
            prepared.entry.state.writable.clone(),
        );
        let id = prepared.entry.container.id.clone();
        prepared.entry.state = State {
            cgroup: groups,
            writable,
            ..state
        };
        // The record names the cgroup, and the copies that `diff` shows, before there is either.
        let changes = prepared.entry.state.clone();
        changes.write(home, &id)?;
        Self::begin(home, prepared, warn)
    }

    fn begin(
        home: &'a Home,
        mut prepared: Prepared,
        warn: &mut dyn FnMut(String),
    ) -> Result<Self, EngineError> {
        let claim = prepared.claim.take();
        let program = waiting_program().map_err(|source| EngineError::Kernel {
            attempt: "make the first process of the session's container",
            source,
        });
        let mut still = Self {
            home,
            created: None,
            claim,
            prepared,
            leaves_cgroup: false,
        };
        let mut program = Some(program?);
        if let (Some(claim), false) = (&still.claim, still.prepared.entry.kept) {
            crate::run::note_groups(home, &still.prepared.entry, claim)?;
        }
        let plan = &mut still.prepared.plan;
        plan.insert_stdio([1, 2].map(|number| Op::NoOutput { number }).into());
        for op in &mut plan.ops {
            if let Op::Exec(exec) = op {
                let args = CString::new(NAME).into_iter().collect();
                exec.program = Program::new(args, Vec::new());
                exec.file = program.take();
            }
        }
        std::mem::take(&mut plan.warnings)
            .into_iter()
            .for_each(&mut *warn);
        let created = born(&still.prepared, &mut still.leaves_cgroup, warn)?;
        still.created = Some(created);
        Ok(still)
    }

    /// Returns the command that a container of the image would run.
    pub(crate) fn command(&self) -> Vec<String> {
        let config: ImageConfig = self.prepared._source.config();
        command_line(None, &[], &config)
    }

    /// Describes its first process, for a session that joins it.
    ///
    /// # Errors
    /// Fails if the process was killed.
    pub(crate) fn target(&self) -> Result<Target, EngineError> {
        let entry = &self.prepared.entry;
        let gone = || crate::ExecError::NotRunning(entry.container.id.to_string());
        let created = self.created.as_ref().ok_or_else(gone)?;
        let pid = created.child.pid;
        let init = created.child.pidfd.try_clone().map_err(|_| gone())?;
        let default_filter = self.prepared.options.seccomp() == SeccompChoice::Default;
        Ok(Target {
            id: entry.container.id.to_string(),
            entry: Some(entry.clone()),
            pid,
            start_time: process::start_time(pid).ok_or_else(gone)?,
            init,
            cgroup: created
                .cgroup
                .as_ref()
                .map(tote_cgroup::Cgroup::record)
                .unwrap_or_default(),
            inside: Inside::of(&self.prepared.spec, default_filter),
            guest: None,
        })
    }
}

fn born(
    prepared: &Prepared,
    leaves_cgroup: &mut bool,
    warn: &mut dyn FnMut(String),
) -> Result<Created, RuntimeError> {
    let plan = &prepared.plan;
    let creation = Creation {
        plan,
        cgroup: prepared.cgroup.as_ref(),
        maps: prepared
            .ids
            .maps
            .as_ref()
            .filter(|_| plan.user_namespace.is_none()),
        network: prepared.network.as_ref(),
    };
    tote_runtime::create_alone(creation, warn, &mut || *leaves_cgroup = true)
}

impl Drop for Still<'_> {
    /// Waits for the end of the mounts, so that a later command can mount the same files again.
    fn drop(&mut self) {
        let created = self.created.take();
        let leaves_cgroup = self.leaves_cgroup | created.is_some_and(|created| created.undo().is_err());
        let Some(claim) = self.claim.take() else { return };
        let entry = &mut self.prepared.entry;
        let (id, kept) = (&entry.container.id, entry.kept);
        if !kept {
            container::discard(self.home, id, &entry.container.name, (claim, leaves_cgroup));
            return;
        }
        if leaves_cgroup {
            // The claim stays, unheld: by it the next command finds the cgroup.
            return;
        }
        entry.state.cgroup = None;
        if entry.state.write(self.home, id).is_ok() {
            claim.release();
        }
    }
}

/// Removes the options by which the container would need more than its root, and those of its own program.
fn stay_still(options: &mut RunOptions) {
    options.keep_mounts_only();
    options.network = NetworkMode::None;
    (options.publish_all, options.egress, options.egress_keep) = (false, None, None);
    options.published.clear();
    options.network_aliases.clear();
    options.first_addresses = tote_bundle::FirstAddresses::default();
    options.entrypoint = None;
    options.command = vec![NAME.to_owned()];
    options.workdir = Some("/".to_owned());
    options.interactive = false;
    options.detach = true;
}

/// Makes the executable of a process that waits, takes orphans and ends on request. Processes may execute it and not read it.
fn waiting_program() -> Result<OwnedFd, tote_sys::Errno> {
    let memory = memfd_create(c"tote", MemfdFlags::CLOEXEC)?;
    let program = crate::pod::pause();
    let mut rest = &program[..];
    while !rest.is_empty() {
        let written = write(&memory, rest)?;
        rest = &rest[written..];
    }
    fchmod(&memory, Mode::from_raw_mode(0o111))?;
    // A file that is open for writing cannot be executed.
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    rustix::fs::open(path, flags, Mode::empty())
}
