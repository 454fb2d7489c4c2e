//! Namespaces that are made and joined, their order, and the ids of the new process in them.
//!
//! The clone makes as many as it can. Namespaces of the caller's user namespace must be joined before the process is
//! in another one, so with any user namespace a process in between joins them before the clone; without one the new
//! process joins them itself, which costs less.

use crate::error::PlanError;
use crate::plan::{Builder, Errand, MapOrigin, Switch, clone_flag, cstring_path};
use rustix::fd::OwnedFd;
use std::fmt::Write as _;
use tote_spec::{NamespaceType, Spec};
use tote_sys::{CloneFlags, Namespace, Op, Propagation, best_effort};

/// Namespaces that the clone does not make: the parent makes the network namespace while the new process is at work;
/// the cgroup namespace must wait until the process is in its cgroup; and the clocks of a time namespace have to be
/// set first.
const LATER: [NamespaceType; 3] = [NamespaceType::Network, NamespaceType::Cgroup, NamespaceType::Time];

/// True if the container's network namespace can be made before the process exists, because the caller's own user
/// namespace is to own it. [`Facts::network_comes`](crate::Facts::network_comes) says that it is being made.
#[must_use]
pub fn network_may_come(spec: &Spec) -> bool {
    // Some namespaces cannot be joined by a process that shares its memory with another one.
    let joins = spec
        .namespaces()
        .iter()
        .any(|namespace| !spec.has_new(namespace.kind));
    spec.has_new(NamespaceType::Network) && !joins && spec.namespace(NamespaceType::User).is_none()
}

impl Builder<'_> {
    /// Plans the first operations; returns the flags of the clone.
    pub(crate) fn namespaces(
        &mut self,
        joins: Vec<(NamespaceType, OwnedFd)>,
    ) -> Result<CloneFlags, PlanError> {
        let mut flags = 0;
        // The maker of an IPC namespace owns the directory of its message queues. Before there are maps, or in a
        // joined user namespace, the clone would make it for an id that the container does not have.
        let ipc_late = self.is_new(NamespaceType::Ipc)
            && self.parent_acts()
            && !matches!(self.request.id_mapping, MapOrigin::Own(_));
        for namespace in self.request.spec.namespaces() {
            let late = LATER.contains(&namespace.kind) || ipc_late && namespace.kind == NamespaceType::Ipc;
            if self.is_new(namespace.kind) && !late {
                flags |= u64::from(clone_flag(namespace.kind));
            }
        }
        let mut time = None;
        let mut late = Vec::new();
        for (kind, fd) in joins {
            let namespace = |fd| Namespace {
                kind: clone_flag(kind),
                fd,
            };
            match kind {
                NamespaceType::User => self.joined.user = Some(fd),
                NamespaceType::Time => time = Some(namespace(fd)),
                NamespaceType::Pid if self.descends || !self.in_user_namespace() => {
                    self.joined.pid = Some(fd)
                }
                _ if self.in_user_namespace() => self.joined.rest.push(namespace(fd)),
                _ => late.push(namespace(fd)),
            }
        }
        if self.descends {
            self.push(Op::HoldProc);
        }
        self.maps();
        if let Some(time) = time {
            self.push(Op::Join(time));
        } else if self.is_new(NamespaceType::Time) {
            self.push(Op::NewTime(self.clocks().into_bytes()));
        }
        self.own_ids();
        if ipc_late {
            self.push(Op::Unshare(clone_flag(NamespaceType::Ipc)));
        }
        for namespace in late {
            self.push(Op::Join(namespace));
        }
        if self.is_new(NamespaceType::Mount) {
            self.push(Op::Propagation(self.propagation()));
        }
        Ok(flags)
    }

    fn maps(&mut self) {
        let mut errands = Vec::new();
        match self.request.id_mapping {
            MapOrigin::None => {}
            MapOrigin::Own(maps) => self.push(Op::MapOneId(maps)),
            MapOrigin::ByParent => errands.push(Errand::Maps),
        }
        let process = self.request.spec.process.as_ref();
        if let Some(score) = process.and_then(|process| process.oom_score_adj)
            && self.parent_acts()
        {
            errands.push(Errand::OomScore(score));
        }
        if !errands.is_empty() {
            self.gate(&errands);
        }
    }

    /// True if the parent has rights that the new process in its other user namespace lacks.
    pub(crate) fn parent_acts(&self) -> bool {
        self.request.facts.privileged && self.in_user_namespace()
    }

    /// Formats lines for `timens_offsets`.
    fn clocks(&self) -> String {
        let offsets = self
            .request
            .spec
            .linux
            .iter()
            .flat_map(|linux| &linux.time_offsets);
        offsets.fold(String::new(), |mut lines, (clock, offset)| {
            // Writing to a String cannot fail.
            best_effort(writeln!(lines, "{clock} {} {}", offset.secs, offset.nanosecs));
            lines
        })
    }

    /// Takes mapped ids. Root of the host has no id in a user namespace, and files cannot be stored without an owner.
    fn own_ids(&mut self) {
        if self.request.facts.becomes_root {
            self.push(Op::BecomeRoot);
            return;
        }
        if !self.parent_acts() || matches!(self.request.id_mapping, MapOrigin::Own(_)) {
            return;
        }
        let linux = self.request.spec.linux.as_ref();
        let first = |maps: Option<&Vec<tote_spec::IdMapping>>| {
            maps.and_then(|maps| maps.iter().map(|map| map.container_id).min())
                .unwrap_or(0)
        };
        self.push(Op::SetIds {
            uid: first(linux.map(|linux| &linux.uid_mappings)),
            gid: first(linux.map(|linux| &linux.gid_mappings)),
        });
    }

    /// Returns the requested propagation, and whether it applies to the whole tree.
    fn root_propagation(&self) -> Option<(Propagation, bool)> {
        let linux = self.request.spec.linux.as_ref()?;
        propagation(linux.rootfs_propagation.as_deref()?)
    }

    /// Returns how the new mount namespace treats mount events of the host: it ignores them, unless a mount has to
    /// see them.
    pub(crate) fn propagation(&self) -> Propagation {
        match self.root_propagation() {
            // Binds are made of these mounts, which unbindable mounts would not allow.
            Some((Propagation::Unbindable, _)) => return Propagation::Private,
            Some((propagation, _)) => return propagation,
            None => {}
        }
        let options = || self.request.spec.mounts.iter().flat_map(|mount| &mount.options);
        if options().any(|option| matches!(option.as_str(), "shared" | "rshared")) {
            Propagation::Shared
        } else if options().any(|option| matches!(option.as_str(), "slave" | "rslave"))
            || matches!(self.request.switch, Switch::Move(_))
        {
            Propagation::Slave
        } else {
            Propagation::Private
        }
    }

    /// Changes from the host's root to the container's.
    pub(crate) fn switch(&mut self) -> Result<(), PlanError> {
        if !self.is_new(NamespaceType::Mount) {
            self.push(Op::Chroot);
            return Ok(());
        }
        match self.request.switch {
            Switch::Pivot => self.push(Op::Pivot),
            Switch::Move(hidden) => {
                if let Some((Propagation::Private, _)) = self.root_propagation() {
                    return Err(PlanError::Invalid(
                        "rootfsPropagation of [r]private is not safe without pivot_root".to_owned(),
                    ));
                }
                for path in hidden {
                    let path = cstring_path("mount point", path)?;
                    self.push(Op::Unmount(path));
                }
                self.push(Op::MoveRoot);
            }
        }
        if let Some((propagation @ (Propagation::Shared | Propagation::Unbindable), recursive)) =
            self.root_propagation()
        {
            self.push(Op::RootPropagation {
                propagation,
                recursive,
            });
        }
        Ok(())
    }
}

/// Parses `shared`, `rslave` and so on; the flag says whether it applies to the whole tree.
pub(crate) fn propagation(name: &str) -> Option<(Propagation, bool)> {
    let one = |name| {
        Some(match name {
            "shared" => Propagation::Shared,
            "slave" => Propagation::Slave,
            "private" => Propagation::Private,
            "unbindable" => Propagation::Unbindable,
            _ => return None,
        })
    };
    let plain = one(name).map(|propagation| (propagation, false));
    plain.or_else(|| one(name.strip_prefix('r')?).map(|propagation| (propagation, true)))
}
