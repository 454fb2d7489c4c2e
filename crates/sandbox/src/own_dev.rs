//! `/dev` of a root that a process brings with it.
//!
//! The container's root may write to the container's `/dev`: by another `/dev/fd` or `/dev/stdin` it would have the tools read and run what
//! it likes. So the tools have a `/dev` of their own, which no process of the container has mounted or can reach from its own tree. Of the
//! container's there are the devices that it was given, each only if it is the device of its name.

use crate::error::PlanError;
use crate::plan::{Builder, DeviceNodes, cstring};
use crate::root::parameter;
use crate::tools::{DeviceOf, OwnDev};
use rustix::mount::MountAttrFlags;
use tote_sys::{Attributes, CloneSource, Make, MountOp, Op, Quirk, Source};

/// `MQUEUE_MAGIC` of linux/magic.h.
const MQUEUE: u32 = 0x1980_0202;

impl Builder<'_> {
    /// Plans it: the usual devices and links, terminals and shared memory of the session's own, and parts of the container's that are the
    /// kernel's.
    pub(crate) fn own_dev(&mut self, own: OwnDev) -> Result<(), PlanError> {
        let mut set = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let pts = set;
        if self.request.facts.device_nodes != DeviceNodes::Ruled && !self.in_user_namespace() {
            set |= MountAttrFlags::MOUNT_ATTR_NODEV;
        }
        self.new_inside("tmpfs", "/dev", set, &[("mode", "755"), ("size", "65536k")])?;
        self.default_devices()?;
        let mut terminals = vec![("ptmxmode", "0666"), ("mode", "0620")];
        if !self.in_user_namespace() {
            terminals.push(("gid", "5"));
        }
        self.new_inside("devpts", "/dev/pts", pts, &terminals)?;
        let shared = set | MountAttrFlags::MOUNT_ATTR_NODEV;
        self.new_inside(
            "tmpfs",
            "/dev/shm",
            shared,
            &[("mode", "1777"), ("size", "65536k")],
        )?;
        self.of_container(
            own.container,
            "mqueue",
            Make::Dir,
            Quirk::OnlyOf { magic: MQUEUE },
        )?;
        for DeviceOf { name, block, number } in own.devices {
            let quirk = Quirk::OnlyDevice { block, number };
            self.of_container(own.container, &name, Make::File, quirk)?;
        }
        Ok(())
    }

    fn new_inside(
        &mut self,
        kind: &str,
        path: &str,
        set: MountAttrFlags,
        parameters: &[(&str, &str)],
    ) -> Result<(), PlanError> {
        let own = ("source", kind);
        let parameters = std::iter::once(&own).chain(parameters);
        let parameters = parameters.map(|(key, value)| parameter(key, value));
        let source = Source::New {
            fs: cstring("path", kind)?,
            parameters: parameters.collect::<Result<_, _>>()?,
        };
        let target = self.inside(path, Make::Dir)?;
        self.mount(source, target, Attributes::set(set));
        Ok(())
    }

    /// Shows a part of the container's `/dev`, if it is of the kind that it should be when it is shown.
    fn of_container(
        &mut self,
        container: &str,
        name: &str,
        make: Make,
        quirk: Quirk,
    ) -> Result<(), PlanError> {
        let dev = self.request.attach_point.join(container.trim_start_matches('/'));
        let source = Source::Clone(CloneSource {
            path: crate::plan::cstring_path("path", &dev)?,
            subpath: Some(cstring("path", &format!("dev/{name}"))?),
            recursive: false,
            idmap: false,
        });
        self.push(Op::Mount(Box::new(MountOp {
            source,
            target: self.inside(&format!("/dev/{name}"), make)?,
            attributes: Attributes::NONE,
            otherwise: None,
            quirk,
        })));
        Ok(())
    }
}
