use super::{Context, SpecError};
use crate::namespace::{CgroupnsMode, IpcMode, NetworkMode, PidMode, UtsMode};
use crate::options::RunOptions;
use tote_spec::{Namespace, NamespaceType};

/// The container's host name.
pub(super) struct Hostname {
    /// What the runtime is to set; nothing in the host's UTS namespace.
    pub(super) set: Option<String>,
    /// What `HOSTNAME` says.
    pub(super) shown: String,
}

/// `--hostname`; else the machine's on its network or in its UTS namespace, as docker has it; else the short id.
pub(super) fn hostname(options: &RunOptions, context: &Context<'_>) -> Result<Hostname, SpecError> {
    let host_uts = options.uts == UtsMode::Host;
    if host_uts && options.hostname.is_some() {
        return Err(SpecError::Hostname);
    }
    let machine = (host_uts || options.network == NetworkMode::Host)
        .then_some(context.machine_hostname)
        .flatten();
    let shown = options
        .hostname
        .as_deref()
        .or(machine)
        .unwrap_or_else(|| context.id.short())
        .to_owned();
    Ok(Hostname {
        set: (!host_uts).then(|| shown.clone()),
        shown,
    })
}

/// Those that are the container's own, or another container's.
pub(super) fn namespaces(options: &RunOptions, context: &Context<'_>) -> Result<Vec<Namespace>, SpecError> {
    let own = |kind| Namespace { kind, path: None };
    let joined = |kind, pid: u32, file: &str| Namespace {
        kind,
        path: Some(format!("/proc/{pid}/ns/{file}")),
    };
    let mut namespaces = vec![own(NamespaceType::Mount)];
    if options.network == NetworkMode::None {
        namespaces.push(own(NamespaceType::Network));
    }
    if options.uts == UtsMode::Private {
        namespaces.push(own(NamespaceType::Uts));
    }
    let mut peer = None;
    match &options.pid {
        PidMode::Private => namespaces.push(own(NamespaceType::Pid)),
        PidMode::Host => {}
        PidMode::Container(name) => {
            let pid = running(context.pid_peer, "pid", name)?;
            namespaces.push(joined(NamespaceType::Pid, pid, "pid"));
            peer = Some(pid);
        }
    }
    match &options.ipc {
        IpcMode::Private | IpcMode::Shareable | IpcMode::None => namespaces.push(own(NamespaceType::Ipc)),
        IpcMode::Host => {}
        IpcMode::Container(name) => {
            let pid = running(context.ipc_peer, "ipc", name)?;
            namespaces.push(joined(NamespaceType::Ipc, pid, "ipc"));
            peer = Some(pid);
        }
    }
    if options.cgroupns == CgroupnsMode::Private {
        namespaces.push(own(NamespaceType::Cgroup));
    }
    if context.has_user_namespace() {
        // A namespace can only be joined from the user namespace that owns it, so that one is shared as well.
        namespaces.push(match peer {
            Some(pid) => joined(NamespaceType::User, pid, "user"),
            None => own(NamespaceType::User),
        });
    }
    Ok(namespaces)
}

fn running(peer: Option<u32>, namespace: &'static str, name: &str) -> Result<u32, SpecError> {
    peer.ok_or_else(|| SpecError::Peer {
        namespace,
        peer: name.to_owned(),
    })
}
