//! How the container's root comes to be, as operations.

use crate::error::PlanError;
use crate::plan::{Builder, DeviceNodes, Errand, cstring, cstring_path};
use rustix::mount::MountAttrFlags;
use std::ffi::CStr;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use tote_rootfs::{Bind, OverlayOptions, Rootfs, Upper};
use tote_spec::NamespaceType;
use tote_sys::{
    Attributes, CloneSource, Make, MountOp, Op, Parameter, Propagation, Quirk, Source, Target, Value,
};

/// What the container's root is.
#[derive(Debug)]
pub enum Root {
    /// A directory of the host as it is; what is written goes there.
    Bind(PathBuf),
    /// Read-only layers below a writable one.
    Overlay {
        /// Layers and binds.
        rootfs: Rootfs,
        /// Whether nobody wants the writes after a crash: no sync at the end.
        volatile: bool,
        /// Whether nobody owns anything in the binds, so that root sees of them what everybody sees and no more.
        private: bool,
    },
}

impl Builder<'_> {
    /// The root's mounts, up to the point where paths inside it can be used.
    pub(crate) fn root(&mut self, root: Root) -> Result<(), PlanError> {
        let attach_point = cstring_path("the mount point", self.request.attach_point)?;
        let mut set = MountAttrFlags::empty();
        if self.request.facts.device_nodes == DeviceNodes::Bound {
            set |= MountAttrFlags::MOUNT_ATTR_NODEV;
        }
        match root {
            Root::Bind(path) => {
                // On itself, as runc does: paths on the host that lead into it then see what is mounted there.
                let attach_point = if path == Path::new("/") {
                    attach_point
                } else {
                    cstring_path("root.path", &path)?
                };
                self.keep_from_the_host(&attach_point);
                self.root_path = Some(path.clone());
                let path = cstring_path("root.path", &path)?;
                let source = Source::Clone(CloneSource {
                    path,
                    recursive: true,
                    idmap: false,
                });
                self.mount(source, Target::Root(attach_point), Attributes::set(set));
                Ok(())
            }
            Root::Overlay {
                rootfs,
                volatile,
                private,
            } => {
                self.keep_from_the_host(&attach_point);
                let mut options = OverlayOptions::new(rootfs.lowers)
                    .user_namespace(self.in_user_namespace())
                    .volatile(volatile);
                match rootfs.upper {
                    Upper::Tmpfs { size } => {
                        self.scratch(size, &attach_point)?;
                        let at = self.request.attach_point;
                        options = options.upper(at.join("upper"), at.join("work"));
                    }
                    Upper::Dir { upper, work } => options = options.upper(upper, work),
                    Upper::None => {}
                }
                let mut parameters = vec![parameter("source", "tote")?];
                for (key, value) in options.parameters() {
                    parameters.push(path_parameter(key, value)?);
                }
                let source = Source::New {
                    fs: cstring("file system", "overlay")?,
                    parameters,
                };
                self.mount(source, Target::Root(attach_point), Attributes::set(set));
                self.binds(rootfs.binds, private)
            }
        }
    }

    /// Where mounts are shared with the host, the container's would be the host's as well.
    fn keep_from_the_host(&mut self, attach_point: &CStr) {
        if self.is_new(NamespaceType::Mount) && self.propagation() == Propagation::Shared {
            self.push(Op::HolderPropagation {
                path: attach_point.to_owned(),
                propagation: Propagation::Private,
            });
        }
    }

    /// A tmpfs with the overlay's two directories, and with the files that are the container's own already in place:
    /// written here they cost no copy-up.
    fn scratch(&mut self, size: Option<u64>, attach_point: &CStr) -> Result<(), PlanError> {
        let mut parameters = vec![parameter("source", "tote")?, parameter("mode", "700")?];
        if let Some(size) = size {
            parameters.push(parameter("size", &size.to_string())?);
        }
        let source = Source::New {
            fs: cstring("file system", "tmpfs")?,
            parameters,
        };
        let attributes = Attributes::set(MountAttrFlags::MOUNT_ATTR_NODEV);
        self.mount(source, Target::Root(attach_point.to_owned()), attributes);
        for dir in ["upper", "work"] {
            self.push(Op::MakeDir {
                path: cstring("path", dir)?,
                mode: 0o755,
            });
        }
        self.files("upper/")?;
        self.files_written = true;
        Ok(())
    }

    /// The files that are the container's own.
    pub(crate) fn files(&mut self, below: &str) -> Result<(), PlanError> {
        for (path, content) in self.request.files {
            let path = cstring("path", &format!("{below}{path}"))?;
            self.push(Op::File {
                path,
                mode: 0o644,
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
            // A user namespace may not take a directory apart from what is mounted below it.
            let recursive = bind.recursive || self.in_user_namespace();
            let path = cstring_path("bind", &bind.source)?;
            let source = Source::Clone(CloneSource {
                path,
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

fn path_parameter(key: &'static str, value: Option<std::ffi::OsString>) -> Result<Parameter, PlanError> {
    let value = match value {
        None => Value::Flag,
        Some(value) => {
            let value = std::ffi::CString::new(value.into_vec()).map_err(|error| PlanError::Nul {
                what: key,
                text: String::from_utf8_lossy(&error.into_vec()).into_owned(),
            })?;
            if key.ends_with("dir") || key.ends_with("dir+") {
                Value::Path(value)
            } else {
                Value::Text(value)
            }
        }
    };
    Ok(Parameter {
        key: cstring("parameter", key)?,
        value,
    })
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
