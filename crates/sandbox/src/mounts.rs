//! The spec's mounts, in its order, as operations.

use crate::error::PlanError;
use crate::option::{self, Options};
use crate::parameter::overlay;
use crate::path::{clean, destination};
use crate::plan::{Builder, CgroupView, DeviceNodes, Errand, SecurityModule, Tree, cstring};
use crate::root::{flag, parameter};
use rustix::mount::MountAttrFlags;
use std::path::Path;
use tote_spec::{Mount, NamespaceType};
use tote_sys::{CloneSource, FillOp, Make, MountOp, Op, Parameter, Quirk, Source, Target, Unlocked, Value};

/// Places where a link of the image must never be followed: all other mounts depend on them.
const STRICT: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Files of procfs that may be mounted on: they only describe the machine (runc and crun allow the same ones).
const OVER_PROC: [&str; 11] = [
    "/proc/cpuinfo",
    "/proc/diskstats",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/net/dev",
    "/proc/slabinfo",
    "/proc/stat",
    "/proc/swaps",
    "/proc/sys/crypto/fips_enabled",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/uptime",
];

/// File systems in memory or of the kernel, whose instances may be shared with others: a read-only option applies to
/// the mount, and the instance as a whole stays as it is.
const PSEUDO: [&str; 10] = [
    "bpf",
    "cgroup",
    "cgroup2",
    "debugfs",
    "devpts",
    "mqueue",
    "proc",
    "securityfs",
    "sysfs",
    "tmpfs",
];

impl Builder<'_> {
    /// Plans the spec's mounts, except one that is left [for later](Self::late_cgroup_view). `/dev` gets its usual
    /// nodes as soon as it is mounted, other nodes come after all mounts.
    pub(crate) fn mounts(&mut self) -> Result<(), PlanError> {
        let spec = self.request.spec;
        let mut devices = true;
        let late = usize::from(self.late_cgroup_view().is_some());
        for mount in &spec.mounts[..spec.mounts.len() - late] {
            let inside = destination(&mount.destination, self.root_path.as_deref())?;
            if !mount.destination.starts_with('/') {
                let text = format!(
                    "mounts.destination {:?} is not an absolute path: it is taken as {inside}",
                    mount.destination
                );
                self.warnings.push(text);
            }
            let options = option::parse(&mount.options);
            let kind = mount.kind.as_deref().unwrap_or_default();
            let is_bind = options.bind || kind == "bind";
            if inside == "/sys" {
                self.settle_network();
            } else if inside.starts_with("/sys") {
                self.settle();
            }
            if options.remount {
                self.push(Op::Remount {
                    path: cstring("mounts.destination", &inside)?,
                    attributes: options.attributes,
                });
            } else if is_bind {
                self.bind(mount, &inside, options)?;
            } else if matches!(kind, "cgroup" | "cgroup2") {
                self.settle();
                self.cgroup_view(&inside, &options)?;
            } else {
                self.file_system(mount, &inside, kind, options)?;
            }
            if inside == "/dev" {
                // A bind-mounted /dev of the host keeps its own nodes.
                if !is_bind && devices {
                    self.default_devices()?;
                }
                devices = false;
            }
        }
        if devices {
            self.default_devices()?;
        }
        self.listed_devices()
    }

    fn bind(&mut self, mount: &Mount, inside: &str, mut options: Options) -> Result<(), PlanError> {
        let Some(source) = &mount.source else {
            return Err(PlanError::Missing("mounts.source of a bind mount"));
        };
        let nodev = MountAttrFlags::MOUNT_ATTR_NODEV;
        if self.in_user_namespace() && options.attributes.clear.contains(nodev) {
            // No nodes can be made in a user namespace, so a bound one may have to be opened there, if the host lets
            // it.
            options.attributes.clear -= nodev;
            options.attributes.clear_unlocked |= nodev;
        } else if self.request.facts.device_nodes == DeviceNodes::Mounted {
            options.attributes.set_below |= nodev;
            options.attributes.clear_unlocked -= nodev;
        }
        if let Some((option, _)) = options.parameters.first() {
            // The kernel ignores them as well: they belong to the file system, which is mounted already.
            let text = format!(
                "mounts.options {option:?} means nothing to the bind mount {:?}",
                mount.destination
            );
            self.warnings.push(text);
        }
        let path = cstring("mounts.source", source)?;
        let subpath = mount.subpath.as_deref();
        let subpath = subpath
            .map(|subpath| cstring("mounts.source", subpath))
            .transpose()?;
        let mut fills = self.request.fill.iter();
        if let Some(fill) = fills.find(|fill| fill.destination == mount.destination) {
            // The mount is not used for this, because it may be read-only.
            self.push(Op::Fill(Box::new(FillOp {
                to: path.clone(),
                from: cstring("mounts.destination", inside)?,
                owner: fill.owner,
                lock: fill.lock.clone(),
            })));
        }
        let idmap = self.idmap(mount, options.idmap)?;
        let source = if idmap.is_some() || self.parent_acts() {
            self.push(Op::Knock);
            self.gate(&[Errand::Tree(Tree {
                path: path.clone(),
                subpath,
                recursive: options.recursive,
                idmap,
                unlocked: self.unlocked(&options),
            })]);
            Source::Handed(path)
        } else {
            Source::Clone(CloneSource {
                path,
                subpath,
                recursive: options.recursive,
                idmap: false,
            })
        };
        let quirk = if inside == "/proc" {
            Quirk::OnlyProc
        } else {
            Quirk::None
        };
        self.push(Op::Mount(Box::new(MountOp {
            source,
            target: self.inside(inside, Make::LikeSource)?,
            attributes: options.attributes,
            otherwise: None,
            quirk,
        })));
        Ok(())
    }

    /// Decides whether a bind may come from the caller's own mounts. The copies of mounts that a user namespace gets
    /// with its mount namespace are locked together, and their options cannot be changed. They stay locked if the
    /// program could undo the change by mount(2).
    fn unlocked(&self, options: &Options) -> Unlocked {
        let times = options.attributes.set | options.attributes.clear;
        let process = self.request.spec.process.as_ref();
        let sets = process.and_then(|process| process.capabilities.as_ref());
        let may_mount = sets.is_some_and(|sets| sets.bounding.iter().any(|name| name == "CAP_SYS_ADMIN"));
        if may_mount || !self.is_new(NamespaceType::Mount) {
            Unlocked::Never
        } else if times.intersects(MountAttrFlags::MOUNT_ATTR__ATIME | MountAttrFlags::MOUNT_ATTR_NODIRATIME)
        {
            Unlocked::Always
        } else {
            Unlocked::IfTied
        }
    }

    fn file_system(
        &mut self,
        mount: &Mount,
        inside: &str,
        kind: &str,
        mut options: Options,
    ) -> Result<(), PlanError> {
        if inside == "/proc" && kind != "proc" {
            return Err(PlanError::Invalid(
                "\"/proc\" cannot be mounted because it is not of type proc".to_owned(),
            ));
        }
        let other = match (inside, kind) {
            ("/dev/shm", "tmpfs") => self.joined.shm.take().map(|process| (process, Quirk::None)),
            // Only a process in the PID namespace could make a new procfs.
            ("/proc", "proc") => self.joined.proc.take().map(|process| (process, Quirk::OnlyProc)),
            _ => None,
        };
        if let Some((process, quirk)) = other {
            let path = cstring("mounts.destination", inside)?;
            self.push(Op::Mount(Box::new(MountOp {
                source: Source::Of {
                    process,
                    path,
                    recursive: false,
                },
                target: self.inside(inside, Make::Dir)?,
                attributes: options.attributes,
                otherwise: None,
                quirk,
            })));
            return Ok(());
        }
        // The terminals are nodes of devpts, and the container can make no nodes there. In a user namespace every new
        // file system is `nodev` anyway.
        let is_nodev = self.request.facts.device_nodes != DeviceNodes::Ruled;
        if is_nodev && kind != "devpts" && !self.in_user_namespace() {
            options.attributes.set |= MountAttrFlags::MOUNT_ATTR_NODEV;
        }
        let otherwise = self.otherwise(kind)?;
        if otherwise.is_some() {
            // The host's mount has others below it, which a new one does not have.
            options.attributes.set_below |= options.attributes.set;
        }
        let parameters = self.parameters(mount, kind, &options)?;
        let read_only = options.attributes.set.contains(MountAttrFlags::MOUNT_ATTR_RDONLY);
        if read_only && (kind == "tmpfs" || inside == "/dev") {
            // Later operations may have to create something in it.
            options.attributes.set -= MountAttrFlags::MOUNT_ATTR_RDONLY;
            self.read_only_later.push(cstring("mounts.destination", inside)?);
        }
        let quirk = if options.copy_up && kind == "tmpfs" {
            Quirk::CopyUp
        } else {
            Quirk::None
        };
        self.push(Op::Mount(Box::new(MountOp {
            source: Source::New {
                fs: cstring("mounts.type", kind)?,
                parameters,
            },
            target: self.inside(inside, Make::Dir)?,
            attributes: options.attributes,
            otherwise,
            quirk,
        })));
        Ok(())
    }

    fn parameters(&self, mount: &Mount, kind: &str, options: &Options) -> Result<Vec<Parameter>, PlanError> {
        let mut parameters = Vec::with_capacity(options.parameters.len() + 2);
        parameters.push(parameter("source", mount.source.as_deref().unwrap_or(kind))?);
        for (key, value) in &options.parameters {
            if let (Some(value), "overlay") = (value, kind) {
                parameters.extend(overlay(key, value)?);
                continue;
            }
            parameters.push(match value {
                // A user namespace need not have the group that owns terminals.
                Some(value) if kind == "devpts" && key == "gid" && !self.has_group(value) => continue,
                Some(value) => parameter(key, value)?,
                None if key == "newinstance" => continue, // every devpts is one since Linux 4.7
                None => flag(key)?,
            });
        }
        for option in &options.general {
            parameters.push(flag(option)?);
        }
        if !PSEUDO.contains(&kind) && options.attributes.set.contains(MountAttrFlags::MOUNT_ATTR_RDONLY) {
            parameters.push(flag("ro")?);
        }
        if kind == "tmpfs" && !options.parameters.iter().any(|(key, _)| key == "mode") {
            parameters.push(Parameter {
                key: cstring("parameter", "mode")?,
                value: Value::ModeOfPlace,
            });
        }
        let label = self
            .request
            .spec
            .linux
            .as_ref()
            .and_then(|linux| linux.mount_label.as_deref());
        if let Some(label) = label.filter(|label| !label.is_empty())
            && self.request.facts.security_module == SecurityModule::SeLinux
            && !matches!(kind, "proc" | "sysfs" | "mqueue")
        {
            parameters.push(parameter("context", label)?);
        }
        Ok(parameters)
    }

    /// True if the container has a group of that number, or if its user namespace is another container's, whose
    /// groups are unknown.
    fn has_group(&self, number: &str) -> bool {
        let maps = self.request.spec.linux.as_ref().map(|linux| &linux.gid_mappings);
        match (number.parse::<u32>(), maps) {
            (Ok(number), Some(maps)) if self.is_new(NamespaceType::User) => maps.iter().any(|map| {
                number
                    .checked_sub(map.container_id)
                    .is_some_and(|offset| offset < map.size)
            }),
            _ => true,
        }
    }

    /// Returns the host's instance of a file system that shows a namespace, for a user namespace that does not own
    /// the namespace and so cannot mount a new instance.
    fn otherwise(&self, kind: &str) -> Result<Option<CloneSource>, PlanError> {
        let (path, namespace) = match kind {
            "proc" => ("/proc", NamespaceType::Pid),
            "sysfs" => ("/sys", NamespaceType::Network),
            "mqueue" => ("/dev/mqueue", NamespaceType::Ipc),
            _ => return Ok(None),
        };
        if !self.in_user_namespace() || self.is_new(namespace) {
            return Ok(None);
        }
        Ok(Some(CloneSource {
            path: cstring("mounts.source", path)?,
            subpath: None,
            recursive: true,
            idmap: false,
        }))
    }

    pub(crate) fn inside(&self, path: &str, make: Make) -> Result<Target, PlanError> {
        let strict = STRICT.contains(&path);
        let over_proc = OVER_PROC.contains(&path) || path == "/proc";
        Ok(Target::Inside {
            path: cstring("mounts.destination", path)?,
            make,
            strict,
            over_proc,
        })
    }

    /// Returns the spec's last mount if it shows the cgroups and no path that is handled after the mounts is below
    /// it: the parent is still making the cgroups.
    pub(crate) fn late_cgroup_view(&self) -> Option<&Mount> {
        let spec = self.request.spec;
        let mount = spec.mounts.last()?;
        let shows_cgroups = matches!(mount.kind.as_deref(), Some("cgroup" | "cgroup2"));
        let options = option::parse(&mount.options);
        let covered = spec.linux.iter().flat_map(|linux| {
            let paths = linux.masked_paths.iter().chain(&linux.readonly_paths);
            paths.map(|path| clean(path))
        });
        let inside = clean(&mount.destination);
        let mut apart = covered
            .map(|path| !Path::new(&path).starts_with(&inside) && !Path::new(&inside).starts_with(&path));
        let is_new = !options.bind && !options.remount && mount.destination.starts_with('/');
        (shows_cgroups && is_new && apart.all(|apart| apart)).then_some(mount)
    }

    /// Plans the mount that was left for later.
    pub(crate) fn mount_cgroups(&mut self) -> Result<(), PlanError> {
        self.settle();
        let Some(mount) = self
            .request
            .spec
            .mounts
            .last()
            .filter(|_| self.late_cgroup_view().is_some())
        else {
            return Ok(());
        };
        let inside = destination(&mount.destination, self.root_path.as_deref())?;
        self.cgroup_view(&inside, &option::parse(&mount.options))
    }

    /// Joins or makes the network namespace.
    pub(crate) fn settle_network(&mut self) {
        if std::mem::replace(&mut self.networked, true) {
            return;
        }
        let network = match self.request.spec.namespace(NamespaceType::Network) {
            Some(_) if self.is_new(NamespaceType::Network) => {
                if self.parent_is_busy() && !self.moves_devices() && self.request.links.is_empty() {
                    self.push(Op::Unshare(crate::plan::clone_flag(NamespaceType::Network)));
                    self.push(Op::LoopbackUp);
                    None
                } else {
                    Some(Errand::Network)
                }
            }
            Some(network) if self.moves_devices() => network.path.clone().map(Errand::NetDevices),
            _ => None,
        };
        if let Some(network) = network {
            self.gate(&[network]);
        }
    }

    /// Waits for the parent's cgroup, and makes that the root of the cgroups that the container sees. Operations that
    /// show it come afterwards, and as many others as possible before: the parent is at work meanwhile.
    pub(crate) fn settle(&mut self) {
        self.settle_network();
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        if self.request.facts.waits_for_cgroup {
            self.gate(&[Errand::Cgroup]);
        }
        if self.is_new(NamespaceType::Cgroup) {
            self.push(Op::Unshare(crate::plan::clone_flag(NamespaceType::Cgroup)));
        }
    }

    /// True if the parent has many cgroups to make: the process would wait for it, and therefore makes its network
    /// namespace itself.
    fn parent_is_busy(&self) -> bool {
        /// Number of cgroups that counts as many: making and entering one takes a tenth of the time that another
        /// process takes to make a network namespace.
        const MANY: usize = 3;
        let facts = &self.request.facts;
        facts.waits_for_cgroup
            && !facts.network_comes
            && matches!(facts.cgroup_view, CgroupView::Legacy(hierarchies) if hierarchies.len() >= MANY)
    }

    fn moves_devices(&self) -> bool {
        let linux = self.request.spec.linux.as_ref();
        linux.is_some_and(|linux| !linux.net_devices.is_empty())
    }
}
