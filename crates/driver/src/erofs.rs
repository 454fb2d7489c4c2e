//! `erofs`: the image in one read-only file below an overlay.

use crate::directory::{is_there, make_dir, missing_is_fine};
use crate::prepared::Prepared;
use crate::request::Request;
use crate::{Driver, PrepareError, overlay, program, template};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use tote_rootfs::Storage;

/// Name of the container's hard link to the image's file, so that the file stays as long as the container.
const IMAGE: &str = "image.erofs";

pub(crate) fn prepare(image: &Path, request: &Request<'_>) -> Result<Prepared, PrepareError> {
    let upper = overlay::upper(Driver::Erofs, request)?;
    let kept = request.container.join(IMAGE);
    let file = if !request.rm && is_there(&kept)? {
        kept
    } else {
        let file = template::path(image, request, ".erofs")?;
        if !request.dry && !is_there(&file)? {
            make(image, &file, request)?;
        }
        if !request.in_memory() {
            std::fs::hard_link(&file, &kept).map_err(|source| PrepareError::State {
                attempt: "make",
                path: kept.clone(),
                source,
            })?;
        }
        file
    };
    Ok(Prepared::of(Storage::Image {
        fs: "erofs",
        file,
        upper,
    }))
}

/// Whether the image is in a file already, as far as that is known without opening it.
pub(crate) fn has_template(image: &Path, request: &Request<'_>) -> Result<bool, PrepareError> {
    Ok(request.key.is_some() && is_there(&template::path(image, request, ".erofs")?)?)
}

fn make(image: &Path, file: &Path, request: &Request<'_>) -> Result<(), PrepareError> {
    make_dir(request.container)?;
    let fresh = request.container.join("image.fresh");
    let failed = |attempt| {
        let path = fresh.clone();
        move |source| PrepareError::State {
            attempt,
            path,
            source,
        }
    };
    // Remove the unfinished file of a killed command.
    missing_is_fine(std::fs::remove_file(&fresh)).map_err(failed("remove"))?;
    // Created here, because the program keeps the mode of an existing file.
    let mut closed = std::fs::OpenOptions::new();
    let closed = closed.write(true).create_new(true).mode(0o600).open(&fresh);
    closed.map_err(failed("make"))?;
    // Uncompressed, and large files in whole blocks: reading needs no decompression, and files can be mapped.
    program::run("mkfs.erofs", "erofs-utils", &["--quiet"], &[&fresh, image])?;
    template::publish(&fresh, file, image, request)
}
