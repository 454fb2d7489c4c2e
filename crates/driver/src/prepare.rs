//! From a driver and an image to a container's storage.

use crate::{Driver, OwnFiles, PrepareError, Survey, btrfs, disk, erofs, overlay, own, split};
use rustix::fs::{Mode, OFlags};
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use tote_rootfs::{CopiedLinks, LinkedName, OwnInodes, Storage};
use tote_sys::{Errno, LoopDevice};

/// What a container needs of its storage.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The image's layers, the topmost first; all drivers but overlay take one.
    pub layers: &'a [PathBuf],
    /// The tree that overlay, loop, loop-xfs and split show in their place.
    pub own_inodes: Option<&'a OwnInodes>,
    /// The names of files that have several in the image, sorted, where files of the tree have more of them because a store
    /// saves space that way; asked for where [`copies_tree`].
    pub image_links: Option<&'a [LinkedName]>,
    /// Whether the caller is root of the machine.
    pub privileged: bool,
    /// What the tree is, where it never changes under that name: a digest in hexadecimal.
    pub key: Option<&'a str>,
    /// Where drivers keep what they make once for an image.
    pub templates: &'a Path,
    /// The container's directory, named from its id. It is made where something goes there.
    pub container: &'a Path,
    /// Whether nothing of the container stays.
    pub rm: bool,
    /// Whether it is only to be looked at: nothing is made.
    pub dry: bool,
    /// Whether the container is about to run; else somebody wants to see its files.
    pub runs: bool,
    /// How much the container may write, in bytes.
    pub disk_size: Option<u64>,
    /// How much it may write where writes are in memory and `disk_size` says nothing, in bytes; 0 is without a limit.
    pub tmpfs_size: Option<u64>,
    /// Paths that the container can write to under split, besides [`crate::DEFAULT_WRITABLE`]; absolute.
    pub writable: &'a [PathBuf],
    /// What is going to be mounted on, or must be there.
    pub mount_points: &'a [MountPoint],
    /// What it writes itself, where the image may belong to nobody of its user namespace; overlay asks.
    pub own_files: Option<OwnFiles<'a>>,
    /// What split would look for in the image, where somebody else has seen it.
    pub survey: Option<&'a Survey>,
}

/// A path of the root that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// Absolute.
    pub path: PathBuf,
    /// An ordinary file rather than a directory.
    pub file: bool,
    /// Whether something is mounted there that covers what is below.
    pub covers: bool,
}

impl Request<'_> {
    /// Which names are one file in a copy of the tree.
    pub(crate) fn copied_links(&self) -> CopiedLinks {
        self.image_links
            .map_or(CopiedLinks::All, |links| CopiedLinks::Only(links.to_vec()))
    }

    /// How much memory the container may write to.
    pub(crate) fn memory_size(&self) -> Option<u64> {
        self.disk_size.or(self.tmpfs_size)
    }

    /// Whether writes need no place on disk.
    pub(crate) fn in_memory(&self) -> bool {
        self.rm || self.dry
    }
}

/// What a driver made.
#[derive(Debug)]
pub struct Prepared {
    /// What is to be mounted.
    pub storage: Storage,
    /// What else there is.
    pub beside: Beside,
}

/// What belongs to a storage beside its mounts.
#[derive(Debug, Default)]
pub struct Beside {
    /// What must not be dropped before all is mounted.
    pub held: Vec<LoopDevice>,
    /// The limit that it was given, where that is not a mount's.
    pub limit: Option<Limit>,
}

/// A limit on a directory tree; printed as what is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The top of the tree.
    pub path: PathBuf,
    /// How many bytes may be in it that it shares with no other one.
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

/// Makes what a driver needs in the container's directory, and says what is to be mounted. For a container that has run
/// before it finds what is there.
///
/// # Errors
/// [`PrepareError`]; what was made is found by [`crate::remove`].
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

/// Whether [`prepare`] is going to copy the tree, or have the container copy it.
///
/// # Errors
/// [`PrepareError::State`]: it cannot be looked whether the tree is there.
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

/// Whether there is something at that path.
///
/// # Errors
/// [`PrepareError::State`] for every failure but ENOENT: what cannot be looked at is not made anew.
pub(crate) fn is_there(path: &Path) -> Result<bool, PrepareError> {
    path.try_exists().map_err(|source| PrepareError::State {
        attempt: "look at",
        path: path.to_owned(),
        source,
    })
}

/// Makes a directory that only its owner may enter; one that is there will do.
pub(crate) fn make_dir(path: &Path) -> Result<(), PrepareError> {
    make(path, 0o700).map(drop)
}

/// Makes a directory whose mode a container sees, as that of its root; one that is there keeps the mode that the
/// container gave it.
pub(crate) fn make_seen_dir(path: &Path) -> Result<(), PrepareError> {
    const SEEN: Mode = Mode::from_raw_mode(0o755);
    if !make(path, SEEN.as_raw_mode())? {
        return Ok(());
    }
    // A look is what the usual umask costs.
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

/// Gives whether the directory is new.
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

/// Removes what a killed command left unfinished in a container's directory, or below it.
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

    /// stat(2) of a link to itself fails, as it may for other reasons, and what a container has is not made anew for that.
    #[test]
    fn what_cannot_be_looked_at_stays() {
        let temp = tempfile::tempdir().unwrap();
        let (image, container) = (temp.path().join("image"), temp.path().join("container"));
        std::fs::create_dir(&image).unwrap();
        std::fs::create_dir(&container).unwrap();
        let request = Request {
            layers: std::slice::from_ref(&image),
            own_inodes: None,
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
