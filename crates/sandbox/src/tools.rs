//! A root that a process brings with it into a container: tools, with the container's tree in a directory of them.
//!
//! The mounts are made in a mount namespace of the process's own, before it joins any of the container's namespaces.
//! So the container's mount table stays as it is, and where the container has a user namespace of its own, its root has
//! no right over these mounts: it can neither make them writable nor take them away.

use crate::error::PlanError;
use crate::namespace_maps::NamespaceRoot;
use crate::plan::{Builder, Errand, Facts, Request, cstring, cstring_path};
use crate::root::Root;
use rustix::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tote_rootfs::{Storage, Upper};
use tote_seccomp::Filter;
use tote_spec::{Linux, Namespace, NamespaceType, Spec};
use tote_sys::{Attributes, CloneSource, Make, MountOp, Op, Propagation, Quirk, Source};

/// Root that a process brings into a container.
#[derive(Debug)]
pub struct Tools<'a> {
    /// The tools.
    pub root: Root,
    /// The root if it is not the tools.
    pub aside: Option<Aside<'a>>,
    /// True if the files of the tools belong to the same ids in the container's user namespace as they do on the host, if the caller is
    /// root. That takes a kernel whose overlays can have id-mapped layers.
    pub mapped: bool,
    /// Directory of the host on which the new mount namespace mounts them.
    pub attach_point: &'a Path,
    /// Parts of the container's tree that are shown among the tools, in this order.
    pub brought: Vec<Brought>,
    /// `/dev` of the tools; `None` if the container's is brought.
    pub dev: Option<OwnDev>,
    /// Symbolic links of the root.
    pub links: Vec<RootLink>,
    /// Files of the host that the root shows.
    pub binds: Vec<HostFile>,
    /// Files that are written into the root.
    pub files: Vec<WrittenFile>,
    /// Filter of system calls that takes the place of the spec's.
    pub filter: Option<Filter>,
}

/// A root beside the tools.
#[derive(Clone, Copy, Debug)]
pub struct Aside<'a> {
    /// Directory to which the tools move.
    pub at: &'a str,
    /// Directory of the host with the files that the root begins with. What is written there is in memory.
    pub layer: &'a Path,
}

/// A file of the host, or a socket, that a root shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFile {
    /// Path on the host.
    pub path: PathBuf,
    /// Path in the root; a missing file is made.
    pub at: String,
}

/// A symbolic link of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootLink {
    /// Path to which it leads.
    pub text: String,
    /// Path in the root; missing directories are made.
    pub path: String,
    /// True if it takes the place of an existing file, which stays otherwise.
    pub replaces: bool,
}

/// A file that a root gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Path in the root; missing directories are made.
    pub path: String,
    /// Mode of the file.
    pub mode: u32,
    /// Contents.
    pub content: Vec<u8>,
}

/// Part of the container's tree that is shown among the tools, with everything that is mounted in it.
#[derive(Debug)]
pub struct Brought {
    /// Where the tree is.
    pub from: Whole,
    /// Existing path in the container's mount namespace, without links.
    pub path: String,
    /// Path among the tools; a missing one is made.
    pub at: String,
}

/// The container's whole tree, of which a part is shown.
#[derive(Debug)]
pub enum Whole {
    /// In the mount namespace of the process that this is a pidfd of.
    Process(OwnedFd),
    /// At this path among the tools, to which an earlier part has brought it: the process need not enter the container's mount namespace
    /// for each part.
    Shown(&'static str),
}

/// A `/dev` of the tools' own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnDev {
    /// Place of the container's tree among the tools.
    pub container: &'static str,
    /// Devices of the container that it shows beside the usual ones.
    pub devices: Vec<DeviceOf>,
}

/// A device of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOf {
    /// Path below `/dev`.
    pub name: String,
    /// True for a block device.
    pub block: bool,
    /// Number that it must have, as in `st_rdev`.
    pub number: u64,
}

/// `SYSFS_MAGIC` of linux/magic.h.
const SYSFS: u32 = 0x6265_6572;

/// Plans the mounts, and the change to the new root.
///
/// With the root of the container's user namespace, the tools belong to that one: it may write to them as a root does.
pub(crate) fn plan(
    tools: Tools<'_>,
    root: Option<NamespaceRoot>,
    facts: Facts<'_>,
) -> Result<(Vec<Op>, Vec<Vec<Errand>>), PlanError> {
    let spec = surroundings(facts.privileged);
    let request = &Request::bare(&spec, tools.attach_point, facts);
    let mut builder = Builder {
        networked: true,
        settled: true,
        files_written: true,
        ..Builder::new(request)
    };
    builder.push(Op::Propagation(Propagation::Private));
    let root = root.filter(|_| tools.mapped && facts.privileged);
    if let Some(NamespaceRoot { uid, gid, .. }) = root {
        builder.push(Op::SetIds { uid, gid });
    }
    builder.map_layers(root.as_ref());
    let mut own = Some(Own {
        files: tools.files,
        links: tools.links,
    });
    if tools.aside.is_none() && has_plain_directories(&tools.root) {
        builder.own = own.take().unwrap_or_default();
    }
    builder.root(tools.root)?;
    if let Some(Aside { at, layer }) = tools.aside {
        builder.push(Op::SetAside);
        builder.map_layers(root.as_ref());
        builder.root(Root::Stored {
            storage: Storage::Overlay {
                lowers: vec![layer.to_owned()],
                own_inodes: None,
                upper: Upper::Tmpfs { size: None },
                volatile: false,
            },
            binds: Vec::new(),
            private: false,
            nosuid: false,
        })?;
        let target = builder.inside(at, Make::Dir)?;
        builder.mount(
            Source::Handed(cstring("path", "the tools")?),
            target,
            Attributes::NONE,
        );
    }
    for HostFile { path, at } in tools.binds {
        let source = Source::Clone(CloneSource {
            path: cstring_path("path", &path)?,
            subpath: None,
            recursive: false,
            idmap: false,
        });
        let target = builder.inside(&at, Make::LikeSource)?;
        builder.mount(source, target, Attributes::NONE);
    }
    if let Some(own) = own {
        builder.own = own;
    }
    builder.own_files("")?;
    for brought in tools.brought {
        builder.bring(brought)?;
    }
    if let Some(own) = tools.dev {
        builder.own_dev(own)?;
    }
    builder.own_links("")?;
    builder.switch()?;
    Ok((builder.ops, builder.gates))
}

/// Files and links that a root gets beside its image.
#[derive(Debug, Default)]
pub(crate) struct Own {
    files: Vec<WrittenFile>,
    links: Vec<RootLink>,
}

/// True for the image `host`, whose directories tote has made. What is written there is written below the root before that is mounted,
/// which takes a third of the time. In another image a link may be in the place of a directory such as `/etc`, and lead to what it hides.
fn has_plain_directories(root: &Root) -> bool {
    matches!(root, Root::Stored { binds, .. } if !binds.is_empty())
}

/// Returns a path of the root below a directory.
fn placed(below: &str, path: &str) -> String {
    format!("{below}/{}", path.trim_start_matches('/'))
}

/// Namespaces in which the mounts are made: a caller other than root has entered the container's user namespace.
fn surroundings(privileged: bool) -> Spec {
    let namespace = |kind| Namespace { kind, path: None };
    let mut namespaces = vec![namespace(NamespaceType::Mount)];
    if !privileged {
        namespaces.push(namespace(NamespaceType::User));
    }
    Spec {
        linux: Some(Linux {
            namespaces,
            ..Linux::default()
        }),
        ..Spec::default()
    }
}

impl Builder<'_> {
    /// Has the layers of the next root belong to the root of a user namespace. The host's `/usr` of a root before has other maps.
    fn map_layers(&mut self, root: Option<&NamespaceRoot>) {
        if let Some(root) = root {
            self.gate(&[Errand::IdmapOf(root.maps.clone())]);
            self.mapped = true;
        }
    }

    /// Writes the root's own files, and makes its links, in the layer that takes its writes.
    pub(crate) fn own(&mut self, below: &str) -> Result<(), PlanError> {
        self.own_files(below)?;
        self.own_links(below)
    }

    fn own_files(&mut self, below: &str) -> Result<(), PlanError> {
        for WrittenFile { path, mode, content } in std::mem::take(&mut self.own.files) {
            let path = cstring("path", &placed(below, &path))?;
            self.push(Op::File { path, mode, content });
        }
        Ok(())
    }

    fn own_links(&mut self, below: &str) -> Result<(), PlanError> {
        for RootLink { text, path, replaces } in std::mem::take(&mut self.own.links) {
            self.push(Op::Symlink {
                text: cstring("link", &text)?,
                path: cstring("link", &placed(below, &path))?,
                replace: replaces,
            });
        }
        Ok(())
    }

    fn bring(&mut self, brought: Brought) -> Result<(), PlanError> {
        let Brought { from, path, at } = brought;
        let quirk = match (&from, &*at) {
            (_, "/proc") => Quirk::OnlyProc,
            // A container need not have it, and a directory of its own in that place is not a sysfs.
            (Whole::Shown(_), "/sys") => Quirk::OnlyOf { magic: SYSFS },
            _ => Quirk::None,
        };
        let (source, attributes) = match from {
            Whole::Process(process) => {
                let source = Source::Of {
                    process,
                    path: cstring("path", &path)?,
                    recursive: true,
                };
                // Mounts that are made in the session must not show in the container.
                let attributes = Attributes {
                    propagation: Some((Propagation::Private, true)),
                    ..Attributes::NONE
                };
                (source, attributes)
            }
            Whole::Shown(place) => {
                let place = self.request.attach_point.join(place.trim_start_matches('/'));
                let source = Source::Clone(CloneSource {
                    path: cstring_path("path", &place)?,
                    subpath: Some(cstring("path", path.trim_start_matches('/'))?),
                    recursive: true,
                    idmap: false,
                });
                (source, Attributes::NONE)
            }
        };
        self.push(Op::Mount(Box::new(MountOp {
            source,
            target: self.inside(&at, Make::LikeSource)?,
            attributes,
            otherwise: None,
            quirk,
        })));
        Ok(())
    }
}
