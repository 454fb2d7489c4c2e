//! `split`: the image itself, read-only, with copies of the writable paths.

use crate::directory::make_dir;
use crate::look;
use crate::prepared::Prepared;
use crate::remove::clear;
use crate::request::Request;
use crate::{MountPoint, PrepareError, Survey};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tote_rootfs::{Split, Storage, Stub};

/// Paths that a container with split can write to by default, if the image has them: directories in which programs
/// expect to leave private files. Each is small in most images, because it is copied.
pub const DEFAULT_WRITABLE: [&str; 8] = [
    "/tmp",
    "/var/tmp",
    "/run",
    "/home",
    "/root",
    "/var/log",
    "/var/cache",
    "/var/spool",
];

/// Name of the directory of copies, in the container's directory.
const PRIVATE: &str = "private";

pub(crate) fn prepare(image: &Path, request: &Request<'_>) -> Result<Prepared, PrepareError> {
    let tree = look::tree(names(image, request))?;
    let Survey { writable, stubs } = match request.survey {
        Some(survey) => survey.clone(),
        None => survey(&tree, request)?,
    };
    let shares = !request.dry && look::can_share(&tree, parent(request.container));
    let on_disk = !request.in_memory() || shares && request.disk_size.is_none();
    if on_disk && request.disk_size.is_some() {
        return Err(PrepareError::DiskSize {
            driver: crate::Driver::Split,
            what: "what is kept in a directory",
            remedy: "use --driver loop, or --rm, with which writes are in memory",
        });
    }
    let copies = on_disk.then(|| request.container.join(PRIVATE));
    if let Some(copies) = &copies {
        make_dir(request.container)?;
        make_dir(copies)?;
        // Remove the unfinished copies of a killed command.
        clear(&copies.join(".fresh"), request)?;
    }
    Ok(Prepared::of(Storage::Split(Split {
        tree: image.to_owned(),
        own_inodes: request.own_inodes.cloned(),
        copies,
        size: request.memory_size(),
        writable,
        stubs,
        reflink: shares,
    })))
}

/// Directory with the names of the image's files; its files may be empty, so it is only for names.
fn names<'a>(image: &'a Path, request: &Request<'a>) -> &'a Path {
    request.names.unwrap_or(image)
}

impl Survey {
    /// Examines the image of a request, which has a single layer.
    ///
    /// # Errors
    /// [`PrepareError::Look`], and [`PrepareError::Writable`].
    pub fn of(request: &Request<'_>) -> Result<Self, PrepareError> {
        let Some(image) = request.layers.first() else {
            return Ok(Self::default());
        };
        survey(&look::tree(names(image, request))?, request)
    }
}

/// Examines the image: the paths that a container can write to, and the mount points that the image lacks.
fn survey(tree: &OwnedFd, request: &Request<'_>) -> Result<Survey, PrepareError> {
    let mut stubs = Stubs {
        tree,
        missing: BTreeMap::new(),
    };
    let covered = |path: &Path| {
        let mut points = request.mount_points.iter();
        points.any(|point| point.covers && path.starts_with(&point.path))
    };
    let mut writable = Vec::new();
    for path in request.writable {
        let inside = relative(path).ok_or_else(|| PrepareError::Writable {
            path: path.clone(),
            reason: "the whole root cannot be a copy: use --driver reflink or copy",
        })?;
        if !covered(path) {
            stubs.require(inside, false)?;
            writable.push(inside.to_owned());
        }
    }
    for path in DEFAULT_WRITABLE.map(Path::new) {
        let inside = relative(path).unwrap_or(path);
        if !covered(path) && look::stat(tree, inside)?.is_some_and(|stat| is_dir(&stat)) {
            writable.push(inside.to_owned());
        }
    }
    writable.sort();
    // In sorted order, a path comes directly after the one that it lies below.
    writable.dedup_by(|path, before| path.starts_with(before));
    for MountPoint { path, file, .. } in request.mount_points {
        let is_below = |other: &Path| path.starts_with(other) && path != other;
        let in_copy = writable.iter().any(|dir| is_below(&Path::new("/").join(dir)));
        let in_mount = request
            .mount_points
            .iter()
            .any(|point| point.covers && is_below(&point.path));
        if let Some(inside) = relative(path).filter(|_| !in_copy && !in_mount) {
            stubs.require(inside, *file)?;
        }
    }
    Ok(Survey {
        writable,
        stubs: stubs.list(),
    })
}

/// Returns a path without its leading slash; `None` for the root itself.
fn relative(path: &Path) -> Option<&Path> {
    let inside = path.strip_prefix("/").unwrap_or(path);
    (!inside.as_os_str().is_empty()).then_some(inside)
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn is_dir(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Mount points that an image lacks.
struct Stubs<'a> {
    tree: &'a OwnedFd,
    missing: BTreeMap<PathBuf, Stub>,
}

impl Stubs<'_> {
    /// Makes sure that a path will exist. Directories above it are included with their mode in the image, which the
    /// new layer's directories would otherwise hide.
    fn require(&mut self, path: &Path, file: bool) -> Result<(), PrepareError> {
        if look::stat(self.tree, path)?.is_some() {
            return Ok(());
        }
        for dir in path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
            if !self.missing.contains_key(dir) {
                let mode = look::stat(self.tree, dir)?.map_or(0o755, |stat| stat.st_mode & 0o7777);
                self.add(dir, false, mode);
            }
        }
        self.add(path, file, if file { 0o644 } else { 0o755 });
        Ok(())
    }

    fn add(&mut self, path: &Path, file: bool, mode: u32) {
        let path = path.to_owned();
        let stub = Stub {
            path: path.clone(),
            file,
            mode,
        };
        self.missing.entry(path).or_insert(stub);
    }

    /// Lists the mount points; directories precede their content.
    fn list(self) -> Vec<Stub> {
        self.missing.into_values().collect()
    }
}
