use super::context::Context;
use super::error::SpecError;
use crate::namespace::{CgroupnsMode, IpcMode, PidMode, UtsMode};
use crate::network::NetworkMode;
use crate::options::RunOptions;
use tote_spec::{Namespace, NamespaceType};

/// The container's host name.
pub(super) struct Hostname {
    /// Name that the runtime sets; `None` in the host's UTS namespace.
    pub(super) set: Option<String>,
    /// Value of the variable `HOSTNAME`.
    pub(super) shown: String,
}

/// Chooses the host name, as docker does: `--hostname`; else the name of the machine or container whose network or
/// UTS namespace is shared; else the short id.
pub(super) fn hostname(options: &RunOptions, context: &Context<'_>) -> Result<Hostname, SpecError> {
    let own_uts = options.uts == UtsMode::Private;
    if options.host.hostname.is_some() {
        if !own_uts {
            return Err(SpecError::Hostname);
        }
        if matches!(options.network, NetworkMode::Container(_)) {
            return Err(SpecError::NetworkConflict("hostname"));
        }
    }
    let others = match (&options.uts, &options.network) {
        (UtsMode::Host, _) => context.machine_hostname,
        (UtsMode::Container(_), _) | (_, NetworkMode::Container(_)) => context.peer_hostname,
        (_, NetworkMode::Host) => context.machine_hostname,
        _ => None,
    };
    let shown = options
        .host
        .hostname
        .as_deref()
        .or(others)
        .unwrap_or_else(|| context.id.short())
        .to_owned();
    Ok(Hostname {
        set: own_uts.then(|| shown.clone()),
        shown,
    })
}

/// Returns `--domainname`. Like the host name, it needs a UTS namespace of the container's own.
pub(super) fn domainname(options: &RunOptions) -> Result<Option<String>, SpecError> {
    let name = &options.host.domainname;
    if !name.is_empty() && options.uts != UtsMode::Private {
        return Err(SpecError::Domainname);
    }
    Ok((!name.is_empty()).then(|| name.clone()))
}

/// Refuses options about names and ports in another container's network, as docker does: they belong to the
/// container that made the network.
fn check_network(options: &RunOptions) -> Result<(), SpecError> {
    if options.host.no_hosts && !options.host.added.is_empty() {
        return Err(SpecError::NoHosts);
    }
    if !matches!(options.network, NetworkMode::Container(_)) {
        return Ok(());
    }
    if !options.host.dns.is_empty() {
        return Err(SpecError::NetworkConflict("dns"));
    }
    if !options.host.added.is_empty() {
        return Err(SpecError::NetworkConflict("custom host-to-IP mapping"));
    }
    if !options.published.is_empty() || options.publish_all {
        return Err(SpecError::Published);
    }
    if !options.exposed.is_empty() {
        return Err(SpecError::Exposed);
    }
    Ok(())
}

/// Lists the namespaces that are the container's own or another container's; those shared with the host are left
/// out.
pub(super) fn namespaces(options: &RunOptions, context: &Context<'_>) -> Result<Vec<Namespace>, SpecError> {
    let own = |kind| Namespace { kind, path: None };
    let joined = |kind, pid: u32, file: &str| Namespace {
        kind,
        path: Some(format!("/proc/{pid}/ns/{file}")),
    };
    let mut namespaces = vec![own(NamespaceType::Mount)];
    let mut peer = None;
    check_network(options)?;
    match &options.network {
        NetworkMode::None | NetworkMode::Networks(_) => namespaces.push(own(NamespaceType::Network)),
        NetworkMode::Host => {}
        NetworkMode::Container(name) => {
            let pid = context
                .network_peer
                .ok_or_else(|| SpecError::NetworkPeer(name.clone()))?;
            namespaces.push(joined(NamespaceType::Network, pid, "net"));
            peer = Some(pid);
        }
    }
    match &options.uts {
        UtsMode::Private => namespaces.push(own(NamespaceType::Uts)),
        UtsMode::Host => {}
        UtsMode::Container(name) => {
            let pid = running(context.uts_peer, "uts", name)?;
            namespaces.push(joined(NamespaceType::Uts, pid, "uts"));
            peer = Some(pid);
        }
    }
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
        // A namespace can only be joined from the user namespace that owns it, so the peer's user namespace is
        // shared as well.
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
