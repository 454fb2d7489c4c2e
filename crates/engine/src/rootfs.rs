//! An image becomes a root.

use crate::{Caller, EngineError, Home};
use rustix::fd::{AsFd, BorrowedFd};
use std::path::Path;
use tote_bundle::{ContainerId, Image};
use tote_rootfs::{Directory, HostImage, Upper};
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
        // Root of the machine could read of the host what only root may; a user cannot.
        let private = matches!(self, Self::Host(_)) && home.caller == Caller::Root;
        Ok(Root::Overlay {
            rootfs,
            volatile: false,
            private,
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
