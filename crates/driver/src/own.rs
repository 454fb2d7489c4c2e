//! `reflink` and `copy`: the container has a tree of its own.

use crate::directory::{is_there, make_dir};
use crate::prepared::Prepared;
use crate::remove::clear;
use crate::request::Request;
use crate::{Driver, PrepareError};
use std::path::Path;
use tote_rootfs::{CopyOf, OwnTree, Storage};

/// Name of the tree in the container's directory.
pub(crate) const TREE: &str = "tree";

pub(crate) fn prepare(driver: Driver, image: &Path, request: &Request<'_>) -> Result<Prepared, PrepareError> {
    if request.disk_size.is_some() {
        return Err(PrepareError::DiskSize {
            driver,
            what: "a directory",
            remedy: "use --driver loop",
        });
    }
    let path = request.container.join(TREE);
    let is_made = !request.dry && is_there(&path)?;
    if !request.dry {
        make_dir(request.container)?;
        if !is_made {
            // Remove the unfinished copy of a killed command.
            clear(&path.with_extension("fresh"), request)?;
        }
    }
    let copy_of = (!is_made).then(|| CopyOf {
        tree: image.to_owned(),
        reflink: driver == Driver::Reflink,
        links: request.copied_links(),
    });
    Ok(Prepared::of(Storage::Own(OwnTree { path, copy_of })))
}
