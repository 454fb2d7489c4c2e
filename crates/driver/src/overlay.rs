//! `overlay`: a file is copied when it is first written to.

use crate::directory::{make_dir, make_seen_dir};
use crate::prepared::Prepared;
use crate::request::Request;
use crate::{Driver, PrepareError};
use std::path::PathBuf;
use tote_rootfs::{Storage, Upper};

pub(crate) fn prepare(lowers: Vec<PathBuf>, request: &Request<'_>) -> Result<Prepared, PrepareError> {
    let upper = upper(Driver::Overlay, request)?;
    if let (Upper::Dir { upper, .. }, Some(files)) = (&upper, &request.own_files) {
        files.make_way(&lowers, upper)?;
    }
    Ok(Prepared::of(Storage::Overlay {
        lowers,
        own_inodes: request.own_inodes.cloned(),
        upper,
        volatile: false,
    }))
}

/// Chooses the upper layer: memory if the container's files are not kept, else a directory.
pub(crate) fn upper(driver: Driver, request: &Request<'_>) -> Result<Upper, PrepareError> {
    if request.in_memory() {
        return Ok(Upper::Tmpfs {
            size: request.memory_size(),
        });
    }
    if request.disk_size.is_some() {
        return Err(PrepareError::DiskSize {
            driver,
            what: "what is kept in a directory",
            remedy: "use --driver loop, or --rm, with which writes are in memory",
        });
    }
    let (upper, work) = (request.container.join("upper"), request.container.join("work"));
    make_dir(request.container)?;
    make_seen_dir(&upper)?;
    make_dir(&work)?;
    let owned = request.owns_root;
    Ok(Upper::Dir { upper, work, owned })
}
