//! `reflink` and `copy`: a tree of the container's own.

use crate::prepare::{Prepared, Request, make_dir};
use crate::{Driver, PrepareError};
use std::path::Path;
use tote_rootfs::{CopyOf, OwnTree, Storage};

/// The container's tree in its directory.
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
    let is_made = !request.dry && crate::prepare::is_there(&path)?;
    if !request.dry {
        make_dir(request.container)?;
        if !is_made {
            // What a killed command was copying.
            crate::prepare::clear(&path.with_extension("fresh"), request)?;
        }
    }
    let copy_of = (!is_made).then(|| CopyOf {
        tree: image.to_owned(),
        reflink: driver == Driver::Reflink,
        links: request.copied_links(),
    });
    Ok(Prepared::of(Storage::Own(OwnTree { path, copy_of })))
}
