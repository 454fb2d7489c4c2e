//! Preparation of a container's storage out of a driver and an image.

use crate::directory::is_there;
use crate::{Driver, PrepareError, Prepared, Request, btrfs, disk, erofs, overlay, own, split};

/// Makes the driver's files in the container's directory, and describes the mounts. For a container that has run
/// before, existing files are used.
///
/// # Errors
/// [`PrepareError`]; [`crate::remove`] finds files that were made before the error.
pub fn prepare(driver: Driver, request: &Request<'_>) -> Result<Prepared, PrepareError> {
    if driver.needs_root() && !request.privileged {
        return Err(PrepareError::NeedsRoot { driver });
    }
    match driver {
        Driver::Overlay => return overlay::prepare(request.layers.to_vec(), request),
        Driver::Loop => return disk::prepare(disk::EXT4, request.layers.to_vec(), request),
        Driver::LoopXfs => return disk::prepare(disk::XFS, request.layers.to_vec(), request),
        _ => {}
    }
    let [tree] = request.layers else {
        return Err(PrepareError::Layers {
            driver,
            layers: request.layers.len(),
        });
    };
    match driver {
        Driver::Split => split::prepare(tree, request),
        Driver::Btrfs => btrfs::prepare(tree, request),
        Driver::Erofs => erofs::prepare(tree, request),
        _ => own::prepare(driver, tree, request),
    }
}

/// True if [`prepare`] will copy the tree, or have the container copy it.
///
/// # Errors
/// [`PrepareError::State`] if it is unknown whether the tree exists.
pub fn copies_tree(driver: Driver, request: &Request<'_>) -> Result<bool, PrepareError> {
    let is_missing = || Ok(!request.dry && !is_there(&request.container.join(own::TREE))?);
    match (driver, request.layers) {
        (Driver::Copy | Driver::Reflink, _) => is_missing(),
        (Driver::Btrfs, [tree]) => Ok(is_missing()? && !btrfs::has_template(tree, request)?),
        _ => Ok(false),
    }
}

/// Whether a driver that does not mount the layers themselves is going to read what their files contain, or has the container
/// read it.
///
/// # Errors
/// [`PrepareError::State`]: it cannot be looked whether it was done before.
pub fn reads_contents(driver: Driver, request: &Request<'_>) -> Result<bool, PrepareError> {
    match (driver, request.layers) {
        (Driver::Split, _) => Ok(!request.dry),
        (Driver::Erofs, [tree]) => Ok(!request.dry && !erofs::has_template(tree, request)?),
        _ => copies_tree(driver, request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// stat(2) of a link to itself fails, as it may for other reasons; existing files of a container must not be
    /// replaced then.
    #[test]
    fn what_cannot_be_looked_at_stays() {
        let temp = tempfile::tempdir().unwrap();
        let (image, container) = (temp.path().join("image"), temp.path().join("container"));
        std::fs::create_dir(&image).unwrap();
        std::fs::create_dir(&container).unwrap();
        let request = Request {
            layers: std::slice::from_ref(&image),
            own_inodes: None,
            names: None,
            image_links: None,
            privileged: true,
            key: None,
            templates: temp.path(),
            container: &container,
            rm: false,
            dry: false,
            runs: true,
            disk_size: None,
            tmpfs_size: None,
            writable: &[],
            mount_points: &[],
            own_files: None,
            owns_root: false,
            survey: None,
        };
        for (driver, name) in [
            (Driver::Loop, "disk"),
            (Driver::LoopXfs, "disk"),
            (Driver::Copy, "tree"),
            (Driver::Reflink, "tree"),
            (Driver::Btrfs, "tree"),
            (Driver::Erofs, "image.erofs"),
        ] {
            let path = container.join(name);
            symlink(name, &path).unwrap();
            let failed = prepare(driver, &request).unwrap_err().to_string();
            assert!(
                failed.contains("look at") && failed.contains(name),
                "{driver}: {failed}"
            );
            assert!(path.symlink_metadata().unwrap().is_symlink(), "{driver}");
            std::fs::remove_file(&path).unwrap();
        }
    }
}
