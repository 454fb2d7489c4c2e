//! Preparation of a container's storage out of a driver and an image.

use crate::{Driver, OwnFiles, PrepareError, Survey, btrfs, disk, erofs, overlay, own, split};
use rustix::fs::{Mode, OFlags};
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use tote_rootfs::{CopiedLinks, LinkedName, OwnInodes, Storage};
use tote_sys::{Errno, LoopDevice};

/// Requirements of a container on its storage.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Layers of the image, the topmost first; all drivers except overlay take a single layer.
    pub layers: &'a [PathBuf],
    /// The tree that overlay, loop, loop-xfs and split show in their place.
    pub own_inodes: Option<&'a OwnInodes>,
    /// A directory with the names of the image's files, and with their contents or without, if `layers` are not such.
    pub names: Option<&'a Path>,
    /// Sorted names of files that have several names in the image; `None` if the tree has the image's hard links. A
    /// store that merges equal files to save space makes more hard links than the image has. Needed if
    /// [`copies_tree`] says so.
    pub image_links: Option<&'a [LinkedName]>,
    /// True if the caller is root of the machine.
    pub privileged: bool,
    /// Digest of the tree in hexadecimal, if the tree never changes; `None` for other trees.
    pub key: Option<&'a str>,
    /// Directory in which drivers keep what they make once for each image.
    pub templates: &'a Path,
    /// Directory of the container, named from its id. It is created if files are put there.
    pub container: &'a Path,
    /// True if the container's files are not kept.
    pub rm: bool,
    /// True if the container is only examined: nothing is created.
    pub dry: bool,
    /// True if the container is about to run; false if only its files are read.
    pub runs: bool,
    /// Limit in bytes on the container's writes.
    pub disk_size: Option<u64>,
    /// Limit in bytes on writes in memory, used without `disk_size`; 0 means no limit.
    pub tmpfs_size: Option<u64>,
    /// Paths that the container can write to with split, besides [`crate::DEFAULT_WRITABLE`]; absolute.
    pub writable: &'a [PathBuf],
    /// Mount points that must exist.
    pub mount_points: &'a [MountPoint],
    /// Files that are written for the container; given if the image's owners may have no ids in its user namespace.
    /// Used by overlay.
    pub own_files: Option<OwnFiles<'a>>,
    /// Result of split's survey of the image, if another process has made it.
    pub survey: Option<&'a Survey>,
}

/// A path of the root that must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// Path, absolute.
    pub path: PathBuf,
    /// True for a regular file, false for a directory.
    pub file: bool,
    /// True if a mount there covers everything below.
    pub covers: bool,
}

impl Request<'_> {
    /// Returns the hard links to keep in a copy of the tree.
    pub(crate) fn copied_links(&self) -> CopiedLinks {
        self.image_links
            .map_or(CopiedLinks::All, |links| CopiedLinks::Only(links.to_vec()))
    }

    /// Returns the limit in bytes on the container's writes in memory.
    pub(crate) fn memory_size(&self) -> Option<u64> {
        self.disk_size.or(self.tmpfs_size)
    }

    /// True if writes need no place on disk.
    pub(crate) fn in_memory(&self) -> bool {
        self.rm || self.dry
    }
}

/// Result of the preparation.
#[derive(Debug)]
pub struct Prepared {
    /// Description of the mounts.
    pub storage: Storage,
    /// Further objects that belong to the storage.
    pub beside: Beside,
}

/// Objects that belong to a storage beside its mounts.
#[derive(Debug, Default)]
pub struct Beside {
    /// Loop devices that must be held until all mounts are made.
    pub held: Vec<LoopDevice>,
    /// Limit that was set, if it is not that of a mount.
    pub limit: Option<Limit>,
}

/// A limit on a directory tree; displayed as the operation that sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Path of the top of the tree.
    pub path: PathBuf,
    /// Limit in bytes on the content that the tree does not share with others.
    pub size: u64,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "limit {} to {} bytes of its own",
            self.path.display(),
            self.size
        )
    }
}

impl Prepared {
    pub(crate) fn of(storage: Storage) -> Self {
        Self {
            storage,
            beside: Beside::default(),
        }
    }
}

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

/// True if the path exists.
///
/// # Errors
/// [`PrepareError::State`] for every failure except ENOENT, so that an unreadable file is not replaced by a new
/// one.
pub(crate) fn is_there(path: &Path) -> Result<bool, PrepareError> {
    path.try_exists().map_err(|source| PrepareError::State {
        attempt: "look at",
        path: path.to_owned(),
        source,
    })
}

/// Creates a directory that only its owner may enter; an existing one is accepted.
pub(crate) fn make_dir(path: &Path) -> Result<(), PrepareError> {
    make(path, 0o700).map(drop)
}

/// Creates a directory whose mode a container sees, such as its root's; an existing one keeps the mode that the
/// container gave it.
pub(crate) fn make_seen_dir(path: &Path) -> Result<(), PrepareError> {
    const SEEN: Mode = Mode::from_raw_mode(0o755);
    if !make(path, SEEN.as_raw_mode())? {
        return Ok(());
    }
    // With the usual umask, the mode is right already, and a single stat(2) shows that.
    let set = || -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if Mode::from_raw_mode(rustix::fs::lstat(path)?.st_mode) == SEEN {
            return Ok(());
        }
        rustix::fs::fchmod(rustix::fs::open(path, flags, Mode::empty())?, SEEN)
    };
    set().map_err(|errno| PrepareError::State {
        attempt: "set the mode of",
        path: path.to_owned(),
        source: errno.into(),
    })
}

/// Creates a directory; returns whether it is new.
fn make(path: &Path, mode: u32) -> Result<bool, PrepareError> {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(PrepareError::State {
            attempt: "make",
            path: path.to_owned(),
            source,
        }),
    }
}

/// Removes the unfinished files of a killed command in a container's directory, or below it.
pub(crate) fn clear(path: &Path, request: &Request<'_>) -> Result<(), PrepareError> {
    let stays = request.container.parent().unwrap_or(request.container);
    missing_is_fine(crate::remove::remove_any(path, stays)).map_err(|source| PrepareError::State {
        attempt: "remove",
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn missing_is_fine(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
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
