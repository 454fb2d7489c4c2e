//! `btrfs`: a snapshot of a subvolume that holds the image.

use crate::own::TREE;
use crate::prepare::{Prepared, Request, make_dir};
use crate::{Driver, PrepareError, template};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::path::{Path, PathBuf};
use tote_rootfs::{OwnTree, Storage};
use tote_sys::{CopyMode, Errno};

/// The subvolume in the making.
const FRESH: &std::ffi::CStr = c"template.fresh";

pub(crate) fn prepare(image: &Path, request: &Request<'_>) -> Result<Prepared, PrepareError> {
    if request.disk_size.is_some() {
        return Err(PrepareError::DiskSize {
            driver: Driver::Btrfs,
            what: "a snapshot",
            remedy: "use --driver loop",
        });
    }
    let path = request.container.join(TREE);
    if !request.dry && !path.exists() {
        make_dir(request.container)?;
        let dir = open(request.container)?;
        let failed = |attempt, path: &Path| {
            let path = path.to_owned();
            move |errno: Errno| match errno {
                Errno::NOTTY => PrepareError::NotBtrfs { path },
                errno => PrepareError::State {
                    attempt,
                    path,
                    source: errno.into(),
                },
            }
        };
        let template = template(image, request, &dir)?;
        tote_sys::snapshot(open(&template)?.as_fd(), dir.as_fd(), c"tree")
            .map_err(failed("make a snapshot of", &template))?;
    }
    Ok(Prepared::of(Storage::Own(OwnTree { path, copy_of: None })))
}

/// The image as a subvolume: itself, where it is one, or a copy that shares its content with it.
fn template(image: &Path, request: &Request<'_>, container: &OwnedFd) -> Result<PathBuf, PrepareError> {
    let tree = open(image)?;
    let same_file_system = || crate::look::can_share(&tree, request.container);
    if same_file_system() && tote_sys::is_subvolume(tree.as_fd()).unwrap_or(false) {
        return Ok(image.to_owned());
    }
    let path = template::path(image, request, ".subvolume")?;
    if path.exists() {
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
    let how = CopyMode {
        reflink: true,
        hard_links: !request.links_are_the_stores,
    };
    tote_sys::copy_below(tree.as_fd(), open(&fresh)?.as_fd(), how).map_err(failed)?;
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
