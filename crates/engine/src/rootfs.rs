//! An image becomes a root.

use crate::{Caller, EngineError, Home};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use tote_bundle::{ContainerId, Image};
use tote_rootfs::{Directory, HostImage, Rootfs, Upper};
use tote_sandbox::Root;

/// An image that is ready to be mounted; holds its lock for as long as it is used.
#[derive(Debug)]
pub(crate) enum Source {
    Host(HostImage),
    Directory(Directory),
}

impl Source {
    pub(crate) fn open(home: &Home, image: &Image) -> Result<Self, EngineError> {
        Ok(match image {
            Image::Host => {
                Self::Host(HostImage::prepare(&home.host_images()).map_err(EngineError::HostImage)?)
            }
            Image::Rootfs(given) => Self::Directory(Directory::open(Path::new(given)).map_err(|source| {
                EngineError::Directory {
                    given: given.clone(),
                    source,
                }
            })?),
        })
    }

    /// Where files of the image are read before it is mounted.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        match self {
            Self::Host(image) => image.layer(),
            Self::Directory(directory) => directory.as_fd(),
        }
    }

    /// The root with a writable layer: in memory for a container of which nothing stays, in its directory otherwise.
    pub(crate) fn root(&self, home: &Home, id: &ContainerId, rm: bool) -> Result<Root, EngineError> {
        let upper = if rm {
            Upper::Tmpfs { size: None }
        } else {
            upper_dir(home, id)?
        };
        let rootfs = match self {
            Self::Host(image) => image.rootfs(upper),
            Self::Directory(directory) => directory.rootfs(upper),
        };
        let idmaps = match self {
            Self::Host(_) if home.caller == Caller::Root => private(&rootfs)?,
            _ => Vec::new(),
        };
        Ok(Root::Overlay {
            rootfs,
            volatile: false,
            idmaps,
        })
    }
}

fn upper_dir(home: &Home, id: &ContainerId) -> Result<Upper, EngineError> {
    let dir = home.container(id);
    let (upper, work) = (dir.join("upper"), dir.join("work"));
    for path in [&dir, &upper, &work] {
        std::fs::create_dir(path).map_err(|source| EngineError::State {
            attempt: "make",
            path: path.clone(),
            source,
        })?;
    }
    Ok(Upper::Dir { upper, work })
}

/// User namespaces for the host's directories, by whose maps nobody owns anything in them: the container's root, who
/// may be the host's, then sees of them what everybody sees and no more.
///
/// The one id that is mapped is one that no file has; a map must not be empty.
fn private(rootfs: &Rootfs) -> Result<Vec<OwnedFd>, EngineError> {
    let Some(first) = rootfs.binds.first() else {
        return Ok(Vec::new());
    };
    let fail = |source| EngineError::Private {
        path: first.source.clone(),
        source,
    };
    let namespace = tote_sys::with_one_id(NOBODY).map_err(fail)?;
    let mut all = Vec::with_capacity(rootfs.binds.len());
    for _ in 1..rootfs.binds.len() {
        all.push(rustix::io::fcntl_dupfd_cloexec(&namespace, 3).map_err(fail)?);
    }
    all.push(namespace);
    Ok(all)
}

/// The last id but one; the last is what the kernel says for "none".
const NOBODY: u32 = 4_294_967_294;
