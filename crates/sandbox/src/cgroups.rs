//! Cgroups as the container sees them.

use crate::error::PlanError;
use crate::option::Options;
use crate::plan::{Builder, CgroupView, cstring};
use crate::root::parameter;
use rustix::mount::MountAttrFlags;
use tote_sys::{Attributes, CloneSource, Make, MountOp, Op, Quirk, Source};

impl Builder<'_> {
    /// Mounts the container's own cgroups: the single hierarchy of v2, or a directory with a v1 hierarchy for each
    /// controller.
    pub(crate) fn cgroup_view(&mut self, inside: &str, options: &Options) -> Result<(), PlanError> {
        match self.request.facts.cgroup_view {
            CgroupView::None => {}
            CgroupView::Unified => {
                let source = Source::New {
                    fs: cstring("file system", "cgroup2")?,
                    parameters: vec![parameter("source", "cgroup")?],
                };
                // In a user namespace without a cgroup namespace of its own, mounting a new instance is forbidden.
                let otherwise = Some(CloneSource {
                    path: cstring("file system", "/sys/fs/cgroup")?,
                    subpath: None,
                    recursive: false,
                    idmap: false,
                });
                self.push(Op::Mount(Box::new(MountOp {
                    source,
                    target: self.inside(inside, Make::Dir)?,
                    attributes: options.attributes,
                    otherwise,
                    quirk: Quirk::None,
                })));
            }
            CgroupView::Legacy(hierarchies) => self.legacy_cgroups(inside, options, hierarchies)?,
        }
        Ok(())
    }

    fn legacy_cgroups(
        &mut self,
        inside: &str,
        options: &Options,
        hierarchies: &[(String, String)],
    ) -> Result<(), PlanError> {
        let read_only = options.attributes.set & MountAttrFlags::MOUNT_ATTR_RDONLY;
        let source = Source::New {
            fs: cstring("file system", "tmpfs")?,
            parameters: vec![parameter("source", "cgroup")?, parameter("mode", "755")?],
        };
        let target = self.inside(inside, Make::Dir)?;
        self.mount(
            source,
            target,
            Attributes::set(options.attributes.set - read_only),
        );
        for (name, path) in hierarchies {
            let path = cstring("cgroup", path)?;
            let source = Source::Clone(CloneSource {
                path,
                subpath: None,
                recursive: false,
                idmap: false,
            });
            let target = self.inside(&format!("{inside}/{name}"), Make::Dir)?;
            self.mount(source, target, options.attributes);
            for one in name.split(',').filter(|one| one != name) {
                self.push(Op::Symlink {
                    text: cstring("link", name)?,
                    path: cstring("path", &format!("{inside}/{one}"))?,
                    replace: false,
                });
            }
        }
        if !read_only.is_empty() {
            self.push(Op::Remount {
                path: cstring("mounts.destination", inside)?,
                attributes: Attributes::set(read_only),
            });
        }
        Ok(())
    }
}
