use crate::device::HostDevice;
use crate::id::ContainerId;
use crate::user::ResolvedUser;
use std::collections::BTreeMap;
use std::fmt;
use tote_spec::{ConsoleSize, IdMapping};

/// Facts about the host and the container's preparation that [`crate::spec()`] needs. The caller collects them;
/// nothing here is looked up.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The container's id.
    pub id: &'a ContainerId,
    /// The directory of its root file system, absolute or relative to the bundle.
    pub root: &'a str,
    /// The container's user: the result of [`crate::resolve_user`] for [`crate::user_of`].
    pub user: &'a ResolvedUser,
    /// The ids of `--group-add`: the result of [`crate::resolve_groups`].
    pub added_gids: &'a [u32],
    /// The caller's environment, for `--env NAME`.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// True if the caller is not root. The container then has no device cgroup.
    pub rootless: bool,
    /// The user namespace's user ids; empty without a user namespace.
    pub uid_mappings: &'a [IdMapping],
    /// The user namespace's group ids; empty without a user namespace.
    pub gid_mappings: &'a [IdMapping],
    /// True if setgroups(2) is allowed. The kernel forbids it in a user namespace whose mapping an unprivileged
    /// process wrote.
    pub setgroups: bool,
    /// The machine's host name, which a container in the host's network or UTS namespace also has.
    pub machine_hostname: Option<&'a str>,
    /// The caller's terminal, used with `--tty`.
    pub terminal_size: Option<ConsoleSize>,
    /// The process of the container that `--pid container:ID` names.
    pub pid_peer: Option<u32>,
    /// The process of the container that `--ipc container:ID` names.
    pub ipc_peer: Option<u32>,
    /// The process of the container that `--network container:ID` names.
    pub network_peer: Option<u32>,
    /// The process of the container that `--uts container:ID` names.
    pub uts_peer: Option<u32>,
    /// The host name of the container whose network or UTS namespace is joined.
    pub peer_hostname: Option<&'a str>,
    /// The host's directory of each volume, by destination; an entry for each one that [`crate::volumes_of`] lists.
    pub volumes: &'a BTreeMap<String, String>,
    /// The nodes that each `--device` selects; all nodes of the host if the container is privileged.
    pub devices: &'a [HostDevice],
    /// The nodes of [`crate::BlockLimits::devices`].
    pub limited: &'a [HostDevice],
    /// Paths that are masked in addition to docker's, such as each `/sys/devices/system/cpu/cpuN/thermal_throttle`
    /// that exists (GHSA-6fw5-f8r9-fgfm).
    pub masked_paths: &'a [String],
}

static NO_VOLUMES: BTreeMap<String, String> = BTreeMap::new();

impl<'a> Context<'a> {
    /// Builds the context of a container of root's in a cgroup of its own, without user namespace, peers, volumes
    /// or devices.
    #[must_use]
    pub fn new(
        id: &'a ContainerId,
        root: &'a str,
        user: &'a ResolvedUser,
        environment: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        Self {
            id,
            root,
            user,
            added_gids: &[],
            environment,
            rootless: false,
            uid_mappings: &[],
            gid_mappings: &[],
            setgroups: true,
            machine_hostname: None,
            terminal_size: None,
            pid_peer: None,
            ipc_peer: None,
            network_peer: None,
            uts_peer: None,
            peer_hostname: None,
            volumes: &NO_VOLUMES,
            devices: &[],
            limited: &[],
            masked_paths: &[],
        }
    }

    pub(super) const fn has_user_namespace(&self) -> bool {
        !self.uid_mappings.is_empty()
    }

    pub(super) fn maps_uid(&self, uid: u32) -> bool {
        is_mapped(self.uid_mappings, uid)
    }

    pub(super) fn maps_gid(&self, gid: u32) -> bool {
        is_mapped(self.gid_mappings, gid)
    }
}

/// True if the mappings contain `id`. Empty mappings stand for no user namespace, in which every id is itself.
fn is_mapped(mappings: &[IdMapping], id: u32) -> bool {
    mappings.is_empty() || IdMapping::outside(mappings, id).is_some()
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", self.id)
            .field("root", &self.root)
            .field("user", self.user)
            .field("rootless", &self.rootless)
            .field("uid_mappings", &self.uid_mappings)
            .field("gid_mappings", &self.gid_mappings)
            .finish_non_exhaustive()
    }
}
