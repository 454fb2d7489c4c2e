//! `btrfs`: a snapshot of a subvolume that holds the image.

use crate::directory::{is_there, make_dir};
use crate::own::TREE;
use crate::prepared::Prepared;
use crate::request::Request;
use crate::{Limit, PrepareError, qgroup, template};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::path::{Path, PathBuf};
use tote_rootfs::{LinkedName, OwnTree, Storage};
use tote_sys::{CopyMode, Errno};

/// Suffix of the names of templates that are subvolumes.
const SUFFIX: &str = ".subvolume";

/// Name of a subvolume that is not finished yet.
const FRESH: &std::ffi::CStr = c"template.fresh";

pub(crate) fn prepare(image: &Path, request: &Request<'_>) -> Result<Prepared, PrepareError> {
    let path = request.container.join(TREE);
    let limit = request.disk_size.map(|size| Limit {
        path: path.clone(),
        size,
    });
    if !request.dry {
        let is_made = is_there(&path)?;
        if !is_made {
            make(image, request)?;
        }
        // Set for each later run too: quotas that were disabled since then have lost the limit.
        if let Some(limit) = limit.as_ref().filter(|_| !is_made || request.runs) {
            qgroup::limit(open(&path)?.as_fd(), limit)?;
        }
    }
    let mut prepared = Prepared::of(Storage::Own(OwnTree { path, copy_of: None }));
    prepared.beside.limit = limit;
    Ok(prepared)
}

fn make(image: &Path, request: &Request<'_>) -> Result<(), PrepareError> {
    make_dir(request.container)?;
    let dir = open(request.container)?;
    if request.disk_size.is_some() {
        // The error names the parent, because the container's own directory is gone when a user reads it.
        let shown = request.container.parent().unwrap_or(request.container);
        qgroup::require(dir.as_fd(), shown)?;
    }
    let template = template(image, request, &dir)?;
    let made = tote_sys::snapshot(open(&template)?.as_fd(), dir.as_fd(), c"tree");
    made.map_err(|errno| match errno {
        Errno::NOTTY => PrepareError::NotBtrfs { path: template },
        errno => PrepareError::State {
            attempt: "make a snapshot of",
            path: template,
            source: errno.into(),
        },
    })
}

/// True if the image is a subvolume already, as far as that is known without opening it.
pub(crate) fn has_template(image: &Path, request: &Request<'_>) -> Result<bool, PrepareError> {
    Ok(request.key.is_some() && is_there(&template::path(image, request, SUFFIX)?)?)
}

/// Returns a subvolume of the image: the image itself if it is one, or a copy that shares its content with it.
fn template(image: &Path, request: &Request<'_>, container: &OwnedFd) -> Result<PathBuf, PrepareError> {
    let tree = open(image)?;
    let same_file_system = || crate::look::can_share(&tree, request.container);
    if same_file_system() && tote_sys::is_subvolume(tree.as_fd()).unwrap_or(false) {
        return Ok(image.to_owned());
    }
    let path = template::path(image, request, SUFFIX)?;
    if is_there(&path)? {
        return Ok(path);
    }
    let fresh = request.container.join("template.fresh");
    let failed = |source: Errno| match source {
        Errno::NOTTY => PrepareError::NotBtrfs {
            path: request.container.to_owned(),
        },
        source => PrepareError::State {
            attempt: "make",
            path: fresh.clone(),
            source: source.into(),
        },
    };
    tote_sys::create_subvolume(container.as_fd(), FRESH).map_err(failed)?;
    let from = open(image)?;
    let to = open(&fresh)?;
    let link = |link: &LinkedName| tote_sys::LinkedName {
        directory: link.directory,
        name: link.name.clone(),
        file: link.file,
    };
    let links: Option<Vec<_>> = request.image_links.map(|links| links.iter().map(link).collect());
    let how = CopyMode {
        reflink: true,
        hard_links: true,
    };
    tote_sys::copy_linked(from.as_fd(), to.as_fd(), how, links.as_deref()).map_err(failed)?;
    template::publish(&fresh, &path, image, request)?;
    Ok(path)
}

fn open(path: &Path) -> Result<OwnedFd, PrepareError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|source| PrepareError::Look {
        path: path.to_owned(),
        source,
    })
}
