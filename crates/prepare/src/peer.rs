//! The containers whose namespaces another one joins: `--network`, `--ipc`, `--uts`, `--pid` with `container:ID`.

use crate::container::{self, Entry, ProcessId};
use crate::network::Endpoint;
use crate::{EngineError, Home, StartError};
use rustix::fd::OwnedFd;
use std::borrow::Cow;
use tote_bundle::{IpcMode, NetworkMode, PidMode, RunOptions, SpecError, UtsMode};
use tote_state::process;

/// A container that joins one that joins one, and so on: this many.
const DEPTH: u32 = 16;

/// The first processes of those containers, as far as they run.
#[derive(Debug, Default)]
pub struct Peers {
    /// Process whose network namespace is joined.
    pub network: Option<ProcessId>,
    /// Process whose IPC namespace is joined.
    pub ipc: Option<ProcessId>,
    /// Process whose UTS namespace is joined.
    pub uts: Option<ProcessId>,
    /// Process whose PID namespace is joined.
    pub pid: Option<ProcessId>,
    /// Host name of the container whose UTS namespace, or else whose network, it joins.
    pub hostname: Option<String>,
    /// Whether the one whose IPC namespace it is in has a `/dev/shm`.
    has_shm: bool,
    /// The options of the one that made the network.
    pub network_options: Option<RunOptions>,
    /// The ends of networks in that one.
    pub endpoints: Vec<Endpoint>,
}

/// Whether namespaces of another container are asked for, or those of a pod.
pub fn joins_another(options: &RunOptions) -> bool {
    options.pod.is_some()
        || matches!(options.network, NetworkMode::Container(_))
        || matches!(options.ipc, IpcMode::Container(_))
        || matches!(options.uts, UtsMode::Container(_))
        || matches!(options.pid, PidMode::Container(_))
}

impl Peers {
    /// Finds them, and gives the options that count then: a container that joins a container in a namespace of the host
    /// is in that namespace, too.
    ///
    /// # Errors
    /// There is no such container. A container that does not run is left out here, and an error where it is needed.
    pub fn find<'a>(
        home: &Home,
        options: &'a RunOptions,
    ) -> Result<(Self, Cow<'a, RunOptions>), EngineError> {
        let mut peers = Self::default();
        let pod = options.pod.as_deref();
        let mut options = Cow::Borrowed(options);
        let process = |entry: &Entry| entry.state.process.filter(|_| entry.state.runs());
        if let NetworkMode::Container(name) = &options.network {
            let entry = peer(home, name, pod)?;
            let own = network_of(home, &entry)?;
            peers.network = process(&entry);
            if own.1.network == NetworkMode::Host {
                options.to_mut().network = NetworkMode::Host;
            } else {
                peers.hostname = Some(own.0);
                peers.endpoints = own.2;
            }
            peers.network_options = Some(own.1);
        }
        if let UtsMode::Container(name) = &options.uts {
            let entry = peer(home, name, pod)?;
            peers.uts = process(&entry);
            peers.hostname = Some(hostname_of(home, &entry, 0)?);
            if entry.container.run_options()?.uts == UtsMode::Host {
                options.to_mut().uts = UtsMode::Host;
            }
        }
        if let IpcMode::Container(name) = &options.ipc {
            let entry = peer(home, name, pod)?;
            if entry.container.option("ipc") == Some("private") {
                return Err(SpecError::PrivateIpc(name.clone()).into());
            }
            peers.ipc = process(&entry);
            let own = entry.container.run_options()?.ipc;
            peers.has_shm = own != IpcMode::None;
            if own == IpcMode::Host {
                options.to_mut().ipc = IpcMode::Host;
            }
        }
        if let PidMode::Container(name) = &options.pid {
            let entry = peer(home, name, pod)?;
            peers.pid = process(&entry);
            if entry.container.run_options()?.pid == PidMode::Host {
                options.to_mut().pid = PidMode::Host;
            }
        }
        Ok((peers, options))
    }

    /// The process whose `/dev/shm` goes with the IPC namespace.
    pub fn shm(&self) -> Option<OwnedFd> {
        let process = self.ipc.filter(|_| self.has_shm)?;
        process::open(process.pid, process.start_time)
    }

    /// Whether those are still there whose namespaces have been opened by number.
    ///
    /// # Errors
    /// [`SpecError::Peer`].
    pub fn check(&self) -> Result<(), EngineError> {
        let all = [
            ("network", self.network),
            ("ipc", self.ipc),
            ("uts", self.uts),
            ("pid", self.pid),
        ];
        for (namespace, process) in all {
            if let Some(process) = process.filter(|process| !process.exists()) {
                let peer = format!("of process {}", process.pid);
                return Err(SpecError::Peer { namespace, peer }.into());
            }
        }
        Ok(())
    }
}

/// A container that an option names. Without it there is nothing to run, which is not what a command says of a container
/// that it is about. Members of a pod may be in one virtual machine.
fn peer(home: &Home, name: &str, pod: Option<&str>) -> Result<Entry, EngineError> {
    let found = container::find(home, name);
    let entry = found.map_err(|error| EngineError::from(StartError::NoPeer(error.to_string())))?;
    if pod.is_none() || entry.container.pod.as_deref() != pod {
        crate::vm::check_here(&entry.container, "join namespaces of")?;
    }
    Ok(entry)
}

/// Name, options and ends of networks of the container that made the network of a container.
fn network_of(home: &Home, entry: &Entry) -> Result<(String, RunOptions, Vec<Endpoint>), EngineError> {
    let mut options = entry.container.run_options()?;
    let mut maker = entry.clone();
    for _ in 0..DEPTH {
        let NetworkMode::Container(name) = &options.network else {
            break;
        };
        maker = container::find(home, name)?;
        options = maker.container.run_options()?;
    }
    let endpoints = match maker.state.runs() {
        true => maker.state.networks.clone(),
        false => Vec::new(),
    };
    Ok((hostname_of(home, &maker, 0)?, options, endpoints))
}

/// Host name of a container in its UTS namespace; the rules are those of `tote_bundle::spec`.
fn hostname_of(home: &Home, entry: &Entry, depth: u32) -> Result<String, EngineError> {
    let options = entry.container.run_options()?;
    let other = match (&options.uts, &options.network) {
        (UtsMode::Container(name), _) | (UtsMode::Private, NetworkMode::Container(name)) => Some(name),
        (UtsMode::Private, NetworkMode::None | NetworkMode::Networks(_)) => None,
        (UtsMode::Host, _) | (_, NetworkMode::Host) => {
            let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
            return Ok(options.host.hostname.unwrap_or(machine));
        }
    };
    match (options.host.hostname, other) {
        (Some(hostname), _) => Ok(hostname),
        (None, Some(name)) if depth < DEPTH => hostname_of(home, &container::find(home, name)?, depth + 1),
        (None, _) => Ok(entry.container.id.short().to_owned()),
    }
}
