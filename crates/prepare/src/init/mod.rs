//! The host's init: what it hands to a container by way of this process, and what it is told of it.
//!
//! That is sd_listen_fds(3), descriptors that the container's first process gets as they are, and sd_notify(3), which
//! comes from a socket in the container's directory and is passed on by the process that watches the container: an init's own
//! socket may be abstract, and so out of reach for a network namespace, and what a container says of process ids is
//! true only inside.

mod notify;

pub use notify::Notify;

use crate::container::{LifeError, StartError};
use crate::user::{Ids, root_outside};
use crate::{EngineError, Home};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use tote_bundle::{ContainerId, RunOptions, SdNotify};
use tote_runtime::{Listen, missing_descriptor};
use tote_spec::{Mount, NamespaceType, Spec};
use tote_sys::Errno;

/// Where the container finds its socket; podman's place.
const INSIDE: &str = "/run/notify";
const SOCKET: &str = "notify.sock";

/// The directory that is mounted there.
const RUN: &str = "run";

/// Descriptors and variables that the host's init gave to this process for the container.
#[derive(Clone, Debug, Default)]
pub struct HostInit {
    /// `NOTIFY_SOCKET`.
    socket: Option<String>,
    listen: Listen,
    /// `start --sdnotify`.
    sdnotify: Option<SdNotify>,
}

/// The part of it that a container gets.
#[derive(Debug, Default)]
pub struct Equipment {
    /// The way to the init, where it wants to be told.
    pub notify: Option<Notify>,
    /// Warning about the part that the container cannot get.
    pub warnings: Vec<String>,
}

impl HostInit {
    /// From this process's environment.
    #[must_use]
    pub fn look() -> Self {
        Self {
            socket: std::env::var("NOTIFY_SOCKET")
                .ok()
                .filter(|socket| !socket.is_empty()),
            listen: Listen::look(),
            sdnotify: None,
        }
    }

    /// Whether it gave anything.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.socket.is_some() || self.listen.count() > 0
    }

    /// With another `--sdnotify` than the container was created with.
    ///
    /// # Errors
    /// [`EngineError::Usage`] for an unknown word.
    pub fn telling(self, how: &str) -> Result<Self, EngineError> {
        let how = how
            .parse()
            .map_err(|error: tote_bundle::SdNotifyError| EngineError::Usage(error.to_string()))?;
        Ok(Self {
            sdnotify: Some(how),
            ..self
        })
    }

    /// How many descriptors from 3 on go to the container.
    pub fn descriptors(&self) -> u32 {
        self.listen.count()
    }

    /// Whether what is to be passed on is there. To be asked before anything is opened.
    pub fn check(&self, preserved: u32) -> Result<(), LifeError> {
        let count = self.listen.count().saturating_add(preserved);
        missing_descriptor(count).map_or(Ok(()), |missing| {
            Err(LifeError::Start(StartError::Descriptor { count, missing }))
        })
    }

    /// Adds to the spec what the container needs of it, and makes that, unless it is only to be looked at.
    pub fn equip(
        &self,
        home: &Home,
        id: &ContainerId,
        (options, ids): (&RunOptions, &Ids),
        spec: &mut Spec,
        dry: bool,
    ) -> Result<Equipment, EngineError> {
        let mut equipment = Equipment::default();
        if self.listen.count() > 0 {
            match first_process(options, spec) {
                Some(pid) => self
                    .listen
                    .variables(pid)
                    .into_iter()
                    .for_each(|line| set(spec, line)),
                None => equipment.warnings.push(
                    "LISTEN_FDS is not set inside: a process of another PID namespace cannot be named"
                        .to_owned(),
                ),
            }
        }
        let how = self.sdnotify.unwrap_or(options.sdnotify);
        let Some(socket) = self.socket.as_ref().filter(|_| how != SdNotify::Ignore) else {
            return Ok(equipment);
        };
        let Some(address) = notify::address(socket) else {
            let why = "neither a path nor an abstract socket";
            equipment
                .warnings
                .push(format!("NOTIFY_SOCKET is ignored: {socket} is {why}"));
            return Ok(equipment);
        };
        let mut from = None;
        if how == SdNotify::Container {
            let dir = home.container(id).join("notify");
            if !dry {
                let run = make(&dir, root_outside(home.caller, ids))?;
                let bound = notify::bind(&run, SOCKET);
                from = Some(bound.map_err(EngineError::file("make a socket in", &dir))?);
            }
            set(spec, format!("NOTIFY_SOCKET={INSIDE}/{SOCKET}"));
            spec.mounts.push(mount(&dir.join(RUN)));
        }
        if !dry {
            equipment.notify = Some(Notify::new(address, from, how)?);
        }
        Ok(equipment)
    }
}

/// The id of its program in its own PID namespace, where it has one.
fn first_process(options: &RunOptions, spec: &Spec) -> Option<u32> {
    let namespace = spec.namespace(NamespaceType::Pid)?;
    let behind_init = 1 + u32::from(options.init);
    namespace.path.is_none().then_some(behind_init)
}

/// Sets a variable in place of those of its name.
fn set(spec: &mut Spec, line: String) {
    let Some(process) = &mut spec.process else { return };
    let name = line.split_once('=').map_or(line.as_str(), |(name, _)| name);
    process
        .env
        .retain(|known| known.split_once('=').is_none_or(|(other, _)| other != name));
    process.env.push(line);
}

/// Read-only: what is connected to is not written.
fn mount(dir: &Path) -> Mount {
    let options = ["bind", "rprivate", "ro", "nosuid", "nodev", "noexec"];
    Mount {
        destination: INSIDE.to_owned(),
        kind: Some("bind".to_owned()),
        source: Some(dir.display().to_string()),
        options: options.map(str::to_owned).to_vec(),
        ..Mount::default()
    }
}

/// The directory with the socket, open for the container's users, in one that other users of the host cannot pass.
fn make(outer: &Path, owner: Option<u32>) -> Result<OwnedFd, EngineError> {
    let mut parents = std::fs::DirBuilder::new();
    let parents = parents.recursive(true).mode(0o700).create(outer);
    parents.map_err(EngineError::file("make", outer))?;
    let made = || -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(outer, flags, Mode::empty())?;
        rustix::fs::fchmod(&dir, Mode::RWXU)?;
        let open = Mode::from_raw_mode(0o755);
        match rustix::fs::mkdirat(&dir, RUN, open) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let run = rustix::fs::openat(&dir, RUN, flags, Mode::empty())?;
        rustix::fs::fchmod(&run, open)?;
        let owner = owner.map(rustix::fs::Uid::from_raw);
        if owner.is_some() {
            rustix::fs::fchown(&dir, owner, None)?;
        }
        Ok(run)
    };
    made().map_err(EngineError::file("prepare", outer))
}
