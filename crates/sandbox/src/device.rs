//! Contents of `/dev`.

use crate::error::PlanError;
use crate::path::clean;
use crate::plan::{Builder, DeviceNodes, Errand, cstring};
use rustix::mount::MountAttrFlags;
use tote_spec::{DeviceType, IdMapping};
use tote_sys::{Attributes, CloneSource, DeviceNode, Make, Op, Source};

/// Devices that every container has: name, major, minor.
const DEFAULT: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

/// Links that every container has; the flag says whether an existing file is replaced. A `ptmx` that an image keeps
/// as a file would open terminals of the host, so it is replaced.
const LINKS: [(&str, &str, bool); 6] = [
    ("/proc/self/fd", "dev/fd", false),
    ("/proc/self/fd/0", "dev/stdin", false),
    ("/proc/self/fd/1", "dev/stdout", false),
    ("/proc/self/fd/2", "dev/stderr", false),
    ("/proc/kcore", "dev/core", false),
    ("pts/ptmx", "dev/ptmx", true),
];

impl<'a> Builder<'a> {
    /// Makes the nodes and links that every container has, once `/dev` is mounted. Nodes that the spec lists are left
    /// out: the spec says how to make them.
    pub(crate) fn default_devices(&mut self) -> Result<(), PlanError> {
        let listed = self.listed();
        for (name, major, minor) in DEFAULT {
            let path = format!("/dev/{name}");
            if listed.iter().any(|device| clean(&device.path) == path) {
                continue;
            }
            if self.in_user_namespace() {
                self.bound(&path)?;
            } else {
                self.push(Op::Device(DeviceNode {
                    path: cstring("path", &path[1..])?,
                    mode: S_IFCHR | 0o666,
                    major,
                    minor,
                    owner: (0, 0),
                    on_nodev: self.on_nodev(),
                }));
            }
        }
        for (text, path, replace) in LINKS {
            self.push(Op::Symlink {
                text: cstring("link", text)?,
                path: cstring("path", path)?,
                replace,
            });
        }
        Ok(())
    }

    /// Makes the nodes that the spec lists, once everything is mounted: they may be anywhere.
    pub(crate) fn listed_devices(&mut self) -> Result<(), PlanError> {
        for device in self.listed() {
            let inside = clean(&device.path);
            if inside == "/dev/ptmx" {
                continue; // the default link has this path
            }
            // The kernel forbids device nodes in user namespaces.
            if self.in_user_namespace() && device.kind != DeviceType::Fifo {
                if self.parent_acts() {
                    self.handed(device, &inside)?;
                } else {
                    self.bound(&inside)?;
                }
            } else {
                self.made(device, &inside)?;
            }
        }
        Ok(())
    }

    fn listed(&self) -> &'a [tote_spec::Device] {
        let linux = self.request.spec.linux.as_ref();
        linux.map_or(&[], |linux| &linux.devices)
    }

    fn on_nodev(&self) -> bool {
        self.request.facts.device_nodes != DeviceNodes::Ruled
    }

    /// Binds a node of the host. The mount is read-only, so that the container cannot change the host's inode; a
    /// device can be written to all the same.
    fn bound(&mut self, path: &str) -> Result<(), PlanError> {
        let source = Source::Clone(CloneSource {
            path: cstring("linux.devices.path", path)?,
            subpath: None,
            recursive: false,
            idmap: false,
        });
        let target = self.inside(path, Make::File)?;
        let set = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        self.mount(source, target, Attributes::set(set));
        Ok(())
    }

    /// Mounts a node that the parent makes.
    fn handed(&mut self, device: &tote_spec::Device, inside: &str) -> Result<(), PlanError> {
        let mut node = self.node(device, inside)?;
        if let Some(linux) = &self.request.spec.linux {
            node.owner = (
                outside(&linux.uid_mappings, node.owner.0),
                outside(&linux.gid_mappings, node.owner.1),
            );
        }
        let path = cstring("linux.devices.path", inside)?;
        self.gate(&[Errand::Node(node)]);
        let target = self.inside(inside, Make::File)?;
        let set = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        self.mount(Source::Handed(path), target, Attributes::set(set));
        Ok(())
    }

    fn made(&mut self, device: &tote_spec::Device, inside: &str) -> Result<(), PlanError> {
        let node = self.node(device, inside)?;
        self.push(Op::Device(node));
        Ok(())
    }

    fn node(&self, device: &tote_spec::Device, inside: &str) -> Result<DeviceNode, PlanError> {
        let kind = match device.kind {
            DeviceType::Block => S_IFBLK,
            DeviceType::Char | DeviceType::Unbuffered => S_IFCHR,
            DeviceType::Fifo => S_IFIFO,
        };
        let number = |what: &'static str, value: i64| {
            u32::try_from(value).map_err(|_| PlanError::Value {
                property: what,
                value: value.to_string(),
                expected: "a device number",
            })
        };
        Ok(DeviceNode {
            path: cstring("linux.devices.path", &inside[1..])?,
            mode: kind | (device.file_mode.unwrap_or(0o666) & 0o7777),
            major: number("linux.devices.major", device.major)?,
            minor: number("linux.devices.minor", device.minor)?,
            owner: (device.uid.unwrap_or(0), device.gid.unwrap_or(0)),
            on_nodev: self.on_nodev(),
        })
    }
}

/// Returns the host's id for an id of the container. If the spec does not map the id, the host's root owns the node,
/// as it owns bound nodes.
fn outside(maps: &[IdMapping], id: u32) -> u32 {
    IdMapping::outside(maps, id).unwrap_or(0)
}

const S_IFIFO: u32 = 0o010_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFBLK: u32 = 0o060_000;
