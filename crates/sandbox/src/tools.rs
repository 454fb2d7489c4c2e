//! A root that a process brings with it into a container: tools, with the container's tree in a directory of them.
//!
//! The mounts are made in a mount namespace of the process's own, before it joins any of the container's namespaces.
//! So the container's mount table stays as it is, and where the container has a user namespace of its own, its root has
//! no right over these mounts: it can neither make them writable nor take them away.

use crate::error::PlanError;
use crate::plan::{Builder, Errand, Facts, Request, cstring, cstring_path};
use crate::root::Root;
use rustix::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tote_rootfs::{Storage, Upper};
use tote_spec::{Linux, Namespace, NamespaceType, Spec};
use tote_sys::{Attributes, CloneSource, Make, MountOp, Op, Propagation, Quirk, Source};

/// Root that a process brings into a container.
#[derive(Debug)]
pub struct Tools<'a> {
    /// The tools.
    pub root: Root,
    /// The root if it is not the tools.
    pub aside: Option<Aside<'a>>,
    /// Directory of the host on which the new mount namespace mounts them.
    pub attach_point: &'a Path,
    /// Parts of the container's tree that are shown among the tools, in this order.
    pub brought: Vec<Brought>,
    /// Symbolic links of the root.
    pub links: Vec<RootLink>,
    /// Files of the host that the root shows.
    pub binds: Vec<HostFile>,
    /// Files that are written into the root.
    pub files: Vec<WrittenFile>,
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
    /// Pidfd of a process of the container.
    pub process: OwnedFd,
    /// Existing path in the container's mount namespace, without links.
    pub path: String,
    /// Path among the tools; a missing one is made.
    pub at: String,
}

/// Plans the mounts, and the change to the new root.
pub(crate) fn plan(tools: Tools<'_>, facts: Facts<'_>) -> Result<(Vec<Op>, Vec<Vec<Errand>>), PlanError> {
    let spec = surroundings(facts.privileged);
    let request = &Request::bare(&spec, tools.attach_point, facts);
    let mut builder = Builder {
        networked: true,
        settled: true,
        files_written: true,
        ..Builder::new(request)
    };
    builder.push(Op::Propagation(Propagation::Private));
    builder.root(tools.root)?;
    if let Some(Aside { at, layer }) = tools.aside {
        builder.push(Op::SetAside);
        builder.root(Root::Stored {
            storage: Storage::Overlay {
                lowers: vec![layer.to_owned()],
                own_inodes: None,
                upper: Upper::Tmpfs { size: None },
                volatile: false,
            },
            binds: Vec::new(),
            private: false,
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
    for WrittenFile { path, mode, content } in tools.files {
        let path = cstring("path", &path)?;
        builder.push(Op::File { path, mode, content });
    }
    for brought in tools.brought {
        builder.bring(brought)?;
    }
    for RootLink { text, path, replaces } in tools.links {
        builder.push(Op::Symlink {
            text: cstring("link", &text)?,
            path: cstring("link", &path)?,
            replace: replaces,
        });
    }
    builder.switch()?;
    Ok((builder.ops, builder.gates))
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
    fn bring(&mut self, brought: Brought) -> Result<(), PlanError> {
        let Brought { process, path, at } = brought;
        let quirk = if at == "/proc" {
            Quirk::OnlyProc
        } else {
            Quirk::None
        };
        self.push(Op::Mount(Box::new(MountOp {
            source: Source::Of {
                process,
                path: cstring("path", &path)?,
                recursive: true,
            },
            target: self.inside(&at, Make::LikeSource)?,
            // Mounts that are made in the session must not show in the container.
            attributes: Attributes {
                propagation: Some((Propagation::Private, true)),
                ..Attributes::NONE
            },
            otherwise: None,
            quirk,
        })));
        Ok(())
    }
}
