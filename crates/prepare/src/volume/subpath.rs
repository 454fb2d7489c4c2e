//! `--mount volume-subpath=`: a directory or file inside a volume in place of the volume.

use super::VolumeFault;
use crate::EngineError;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use std::path::Path;
use tote_sys::Errno;

/// Opens a path inside the directory (O_PATH). The kernel resolves links on the way as if the directory were `/`: a
/// container that has the volume may have made them.
pub fn open(directory: &Path, subpath: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let top = rustix::fs::openat(CWD, directory, flags | OFlags::DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    tote_sys::openat2(top, subpath, flags, Mode::empty(), resolve)
}

/// True if a path inside the directory leads to anything but a directory.
pub fn is_file(directory: &Path, subpath: &str) -> bool {
    let found = open(directory, subpath).and_then(rustix::fs::fstat);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) != FileType::Directory)
}

/// Checks that the path is there, for an error that names the volume; the mount resolves it again.
///
/// # Errors
/// [`VolumeFault::Subpath`].
pub fn look_at(volume: &str, directory: &Path, subpath: &str) -> Result<(), EngineError> {
    match open(directory, subpath) {
        // A directory of the container's users is closed to the caller, and the mount is made with the container's
        // rights.
        Ok(_) | Err(Errno::ACCESS) => Ok(()),
        Err(errno) => Err(VolumeFault::Subpath {
            volume: volume.to_owned(),
            subpath: subpath.to_owned(),
            source: errno.into(),
        }
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_inside() {
        let temp = tempfile::tempdir().unwrap();
        let volume = temp.path().join("volume");
        std::fs::create_dir_all(volume.join("a/b")).unwrap();
        std::fs::write(volume.join("file"), "").unwrap();
        std::fs::write(temp.path().join("outside"), "").unwrap();
        symlink("../outside", volume.join("up")).unwrap();
        symlink("/a/b", volume.join("absolute")).unwrap();
        symlink("../../../../../../../../file", volume.join("far")).unwrap();
        assert!(open(&volume, "a/b").is_ok() && open(&volume, "absolute").is_ok());
        assert_eq!(open(&volume, "up").err(), Some(Errno::NOENT));
        assert!(is_file(&volume, "file") && is_file(&volume, "far") && !is_file(&volume, "a"));
        look_at("v", &volume, ".").unwrap();
        let error = look_at("v", &volume, "a/c").unwrap_err().to_string();
        assert!(error.contains("a/c") && error.contains('v'), "{error}");
    }
}
