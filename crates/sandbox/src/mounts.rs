//! The spec's mounts, in its order, as operations.

use crate::error::PlanError;
use crate::option::{self, Options};
use crate::plan::{Builder, CgroupView, DeviceNodes, Errand, cstring};
use crate::root::{flag, parameter};
use rustix::mount::MountAttrFlags;
use tote_spec::{Mount, NamespaceType};
use tote_sys::{Attributes, CloneSource, Make, Op, Source, Target};

/// Places where a link of the image must never be followed: everything else rests on them.
const STRICT: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The files of procfs that something may be mounted on: they only tell of the machine (runc and crun allow the same).
const OVER_PROC: [&str; 10] = [
    "/proc/cpuinfo",
    "/proc/diskstats",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/net/dev",
    "/proc/slabinfo",
    "/proc/stat",
    "/proc/swaps",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/uptime",
];

impl Builder<'_> {
    /// All of the spec's mounts; `/dev` gets its nodes as soon as it is there.
    pub(crate) fn mounts(&mut self) -> Result<(), PlanError> {
        let spec = self.request.spec;
        for mount in &spec.mounts {
            if !mount.destination.starts_with('/') {
                return Err(PlanError::Value {
                    property: "mounts.destination",
                    value: mount.destination.clone(),
                    expected: "an absolute path",
                });
            }
            let options = option::parse(&mount.options);
            let kind = mount.kind.as_deref().unwrap_or_default();
            if mount.destination.starts_with("/sys") {
                self.settle();
            }
            if options.bind || kind == "bind" {
                self.bind(mount, options)?;
            } else if matches!(kind, "cgroup" | "cgroup2") {
                self.cgroup_view(mount, &options)?;
            } else {
                self.file_system(mount, kind, options)?;
            }
            if mount.destination == "/dev" {
                self.devices()?;
            }
        }
        Ok(())
    }

    fn bind(&mut self, mount: &Mount, mut options: Options) -> Result<(), PlanError> {
        let Some(source) = &mount.source else {
            return Err(PlanError::Missing("mounts.source of a bind mount"));
        };
        if self.request.facts.device_nodes == DeviceNodes::Bound {
            options.attributes.set_below |= MountAttrFlags::MOUNT_ATTR_NODEV;
        }
        let path = cstring("mounts.source", source)?;
        let source = Source::Clone(CloneSource {
            path,
            recursive: options.recursive,
            idmap: false,
        });
        let target = self.inside(&mount.destination, Make::LikeSource)?;
        self.mount(source, target, options.attributes);
        Ok(())
    }

    fn file_system(&mut self, mount: &Mount, kind: &str, mut options: Options) -> Result<(), PlanError> {
        // A fresh sysfs shows the network namespace's devices and needs to own it; the host's own does for the rest.
        if kind == "sysfs" && self.in_user_namespace() && !self.is_new(NamespaceType::Network) {
            let path = cstring("mounts.source", "/sys")?;
            options.attributes.set_below |= options.attributes.set;
            let source = Source::Clone(CloneSource {
                path,
                recursive: true,
                idmap: false,
            });
            let target = self.inside(&mount.destination, Make::Dir)?;
            self.mount(source, target, options.attributes);
            return Ok(());
        }
        let mut parameters = Vec::with_capacity(options.parameters.len() + 1);
        parameters.push(parameter("source", mount.source.as_deref().unwrap_or(kind))?);
        for (key, value) in &options.parameters {
            parameters.push(match value {
                Some(value) => parameter(key, value)?,
                None if key == "newinstance" => continue, // what every devpts is since Linux 4.7
                None => flag(key)?,
            });
        }
        let source = Source::New {
            fs: cstring("mounts.type", kind)?,
            parameters,
        };
        let target = self.inside(&mount.destination, Make::Dir)?;
        self.mount(source, target, options.attributes);
        Ok(())
    }

    /// The container's own cgroups: the one hierarchy of v2, or a directory with one of v1 for each controller.
    fn cgroup_view(&mut self, mount: &Mount, options: &Options) -> Result<(), PlanError> {
        match self.request.facts.cgroup_view {
            CgroupView::None => {}
            CgroupView::Unified => {
                let source = Source::New {
                    fs: cstring("file system", "cgroup2")?,
                    parameters: vec![parameter("source", "cgroup")?],
                };
                let target = self.inside(&mount.destination, Make::Dir)?;
                self.mount(source, target, options.attributes);
            }
            CgroupView::Legacy(hierarchies) => {
                let source = Source::New {
                    fs: cstring("file system", "tmpfs")?,
                    parameters: vec![parameter("source", "cgroup")?, parameter("mode", "755")?],
                };
                let target = self.inside(&mount.destination, Make::Dir)?;
                let attributes = Attributes {
                    set: options
                        .attributes
                        .set
                        .difference(MountAttrFlags::MOUNT_ATTR_RDONLY),
                    ..Attributes::NONE
                };
                self.mount(source, target, attributes);
                for (name, path) in hierarchies {
                    let path = cstring("cgroup", path)?;
                    let source = Source::Clone(CloneSource {
                        path,
                        recursive: false,
                        idmap: false,
                    });
                    let target = self.inside(&format!("{}/{name}", mount.destination), Make::Dir)?;
                    self.mount(source, target, options.attributes);
                }
                if options.attributes.set.contains(MountAttrFlags::MOUNT_ATTR_RDONLY) {
                    let path = cstring("mounts.destination", &mount.destination)?;
                    let attributes = Attributes::set(MountAttrFlags::MOUNT_ATTR_RDONLY);
                    self.push(Op::Remount { path, attributes });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn inside(&self, path: &str, make: Make) -> Result<Target, PlanError> {
        let strict = STRICT.contains(&path);
        let over_proc = OVER_PROC.contains(&path);
        Ok(Target::Inside {
            path: cstring("mounts.destination", path)?,
            make,
            strict,
            over_proc,
        })
    }

    /// Waits for the parent's network namespace and cgroup, and makes that cgroup the root of what is seen. Everything
    /// that shows one of them comes after this, and as much as can be comes before: the parent is at work meanwhile.
    pub(crate) fn settle(&mut self) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let network = self.is_new(NamespaceType::Network).then_some(Errand::Network);
        let cgroup = self.request.facts.waits_for_cgroup.then_some(Errand::Cgroup);
        let errands: Vec<Errand> = network.into_iter().chain(cgroup).collect();
        if !errands.is_empty() {
            self.gate(&errands);
        }
        if self.is_new(NamespaceType::Cgroup) {
            self.push(Op::Unshare(crate::plan::clone_flag(NamespaceType::Cgroup)));
        }
    }
}
