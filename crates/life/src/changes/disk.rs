//! Changes of a container under the loop driver: the file system that it has in a file.

use super::ContainerError;
use super::container::Container;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The directory of the overlay in it.
const UPPER: &str = "upper";

/// Opens the directory of the container's writes; `None` for a container without a disk. The file system is mounted
/// nowhere, and goes with the last descriptor of something in it.
pub(crate) fn open(container: &Container) -> Result<Option<OwnedFd>, ContainerError> {
    let path = container.dir.join("disk");
    let failed = |attempt: &'static str| {
        let path = path.clone();
        move |source: std::io::Error| ContainerError::Disk {
            attempt,
            path,
            source,
        }
    };
    match path.try_exists() {
        Ok(false) => return Ok(None),
        found => found.map_err(failed("look at"))?,
    };
    // One that is mounted is mounted once more: a second device would show an inconsistent file system.
    let (device, _held) = match device_of(&path).map_err(failed("find the loop device of"))? {
        Some(device) => (device, None),
        None => {
            let file = File::options().read(true).write(true).open(&path);
            let file = file.map_err(failed("open"))?;
            let held = tote_sys::attach_loop(file.as_fd());
            let held = held.map_err(|errno| failed("attach to a loop device")(errno.into()))?;
            (held.path.clone(), Some(held))
        }
    };
    let fs = file_system(&path).map_err(failed("read"))?;
    // The container mounts the same device to write.
    let root = tote_sys::mount_to_read(fs, &device, false).map_err(|errno| failed("mount")(errno.into()))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let upper = rustix::fs::openat(&root, UPPER, flags, Mode::empty());
    Ok(Some(upper.map_err(|errno| {
        failed("find the container's writes on")(errno.into())
    })?))
}

/// Which of the two that the drivers make is in the file: XFS begins with its name.
fn file_system(disk: &Path) -> std::io::Result<&'static str> {
    let mut start = [0; 4];
    File::open(disk)?.read_exact(&mut start)?;
    Ok(if start == *b"XFSB" { "xfs" } else { "ext4" })
}

/// The loop device that a file is attached to, if any.
///
/// # Errors
/// Reason why this cannot be found out.
fn device_of(file: &Path) -> std::io::Result<Option<PathBuf>> {
    for entry in std::fs::read_dir("/sys/block")? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with("loop") {
            continue;
        }
        match std::fs::read(entry.path().join("loop/backing_file")) {
            Ok(backing) if backing.trim_ascii_end() == file.as_os_str().as_bytes() => {
                return Ok(Some(Path::new("/dev").join(name)));
            }
            Ok(_) => {}
            // One that is attached to nothing has no such file, or loses it in this moment.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
