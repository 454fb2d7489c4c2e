//! Operations that make the container's root.

use crate::error::PlanError;
use crate::plan::{Builder, DeviceNodes, Errand, Tree, cstring, cstring_path};
use rustix::fd::OwnedFd;
use rustix::mount::MountAttrFlags;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use tote_rootfs::{Bind, Storage};
use tote_spec::NamespaceType;
use tote_sys::{
    Attributes, CloneSource, Make, MountOp, Op, Parameter, Propagation, Quirk, Source, Target, Unlocked,
    Value,
};

/// Source of the container's root.
#[derive(Debug)]
pub enum Root {
    /// Directory of the host as it is; writes go there.
    Bind(PathBuf),
    /// Image that the container does not write to.
    Stored {
        /// Storage that keeps the container's writes apart.
        storage: Storage,
        /// Binds that are mounted on top, in this order.
        binds: Vec<Bind>,
        /// True if the binds are shown without owners, so that root in the container can read of them only what every
        /// user can.
        private: bool,
        /// True if set-user-ID bits and file capabilities have no effect.
        nosuid: bool,
    },
    /// Detached copy of the root of another process as the image ([`tote_sys::root_of`]); writes are kept in memory.
    Of(OwnedFd),
}

impl Builder<'_> {
    /// Plans the root's mounts, up to the point where paths inside it can be used.
    pub(crate) fn root(&mut self, root: Root) -> Result<(), PlanError> {
        let attach_point = cstring_path("the mount point", self.request.attach_point)?;
        let mut set = MountAttrFlags::empty();
        if self.request.facts.device_nodes != DeviceNodes::Ruled {
            set |= MountAttrFlags::MOUNT_ATTR_NODEV;
        }
        match root {
            Root::Bind(path) => {
                // The root is mounted on itself, as runc does: paths on the host that lead into it then see the
                // container's mounts.
                let attach_point = if path == Path::new("/") {
                    attach_point
                } else {
                    cstring_path("root.path", &path)?
                };
                self.keep_from_the_host(&attach_point);
                self.root_path = Some(path.clone());
                let path = cstring_path("root.path", &path)?;
                let mut attributes = Attributes::set(set);
                if !self.is_new(NamespaceType::Mount) {
                    attributes.propagation = Some((Propagation::Private, true));
                }
                let source = self.root_of_host(path);
                self.mount(source, Target::Root(attach_point), attributes);
                Ok(())
            }
            Root::Of(tree) => {
                self.keep_from_the_host(&attach_point);
                self.root_of_process(tree, &attach_point, set)
            }
            Root::Stored {
                storage,
                binds,
                private,
                nosuid,
            } => {
                set.set(MountAttrFlags::MOUNT_ATTR_NOSUID, nosuid);
                self.keep_from_the_host(&attach_point);
                self.storage(storage, &attach_point, set)?;
                self.binds(binds, private)
            }
        }
    }

    /// Returns the source of a root that is a directory of the host. If the mounts outlive the container, the parent
    /// records the root before it is mounted, so that it can be removed after the process was killed at any
    /// operation.
    fn root_of_host(&mut self, path: CString) -> Source {
        let recursive = true;
        if self.is_new(NamespaceType::Mount) || !self.request.facts.privileged {
            return Source::Clone(CloneSource {
                path,
                subpath: None,
                recursive,
                idmap: false,
            });
        }
        self.push(Op::Knock);
        self.gate(&[Errand::Root(Tree {
            path: path.clone(),
            subpath: None,
            recursive,
            idmap: None,
            unlocked: Unlocked::Never,
        })]);
        Source::Handed(path)
    }

    /// Hides the container's mounts from the host, which would see them if mounts are shared with it.
    fn keep_from_the_host(&mut self, attach_point: &CStr) {
        if self.is_new(NamespaceType::Mount) && self.propagation() == Propagation::Shared {
            self.push(Op::HolderPropagation {
                path: attach_point.to_owned(),
                propagation: Propagation::Private,
            });
        }
    }

    /// Writes the generated files of the container.
    pub(crate) fn files(&mut self, below: &str) -> Result<(), PlanError> {
        for (path, mode, content) in self.request.files {
            let path = cstring("path", &format!("{below}{path}"))?;
            self.push(Op::File {
                path,
                mode: *mode,
                content: content.clone(),
            });
        }
        Ok(())
    }

    fn binds(&mut self, binds: Vec<Bind>, private: bool) -> Result<(), PlanError> {
        if private && !binds.is_empty() {
            self.gate(&[Errand::Idmap]);
        }
        for bind in binds {
            let mut set = MountAttrFlags::empty();
            for (wanted, flag) in [
                (bind.read_only, MountAttrFlags::MOUNT_ATTR_RDONLY),
                (bind.nosuid, MountAttrFlags::MOUNT_ATTR_NOSUID),
                (bind.nodev, MountAttrFlags::MOUNT_ATTR_NODEV),
            ] {
                set.set(flag, wanted);
            }
            // A user namespace may not take a directory apart from the mounts below it.
            let recursive = bind.recursive || self.in_user_namespace();
            let path = cstring_path("bind", &bind.source)?;
            let source = Source::Clone(CloneSource {
                path,
                subpath: None,
                recursive,
                idmap: private,
            });
            let target = Target::Inside {
                path: cstring_path("bind", &bind.target)?,
                make: Make::Nothing,
                strict: true,
                over_proc: false,
            };
            self.mount(
                source,
                target,
                Attributes {
                    set_below: set,
                    ..Attributes::NONE
                },
            );
        }
        Ok(())
    }

    pub(crate) fn mount(&mut self, source: Source, target: Target, attributes: Attributes) {
        self.push(Op::Mount(Box::new(MountOp {
            source,
            target,
            attributes,
            otherwise: None,
            quirk: Quirk::None,
        })));
    }
}

pub(crate) fn parameter(key: &str, value: &str) -> Result<Parameter, PlanError> {
    Ok(Parameter {
        key: cstring("parameter", key)?,
        value: Value::Text(cstring("parameter", value)?),
    })
}

pub(crate) fn flag(key: &str) -> Result<Parameter, PlanError> {
    Ok(Parameter {
        key: cstring("parameter", key)?,
        value: Value::Flag,
    })
}
