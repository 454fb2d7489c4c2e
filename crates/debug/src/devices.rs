//! Devices that a container was given.
//!
//! The container's root may have made a node of any name and number. A session shows one only if this machine has a device of the same kind and
//! number by that name, since the tools know devices by their names.

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, open, openat, statat};
use tote_sys::Errno;

/// The most names that are looked at, and the most devices that are shown.
const LOOKED_AT: usize = 4096;
const SHOWN: usize = 256;

/// Names of which each session has its own.
const OWN: [&str; 13] = [
    "null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "pts", "shm", "mqueue", "fd",
    "core",
];

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Returns the devices in `/dev` of a tree, and in the directories there, that this machine has as well: path below `/dev`, whether it is a
/// block device, and number.
///
/// # Errors
/// Those of the calls that read directories; a name that has gone meanwhile is left out.
pub(super) fn of(root: BorrowedFd<'_>) -> Result<Vec<(String, bool, u64)>, Errno> {
    let here = match open("/dev", DIRECTORY, Mode::empty()) {
        // Without devices of its own, the machine has none in common with the container.
        Err(Errno::NOENT) => return Ok(Vec::new()),
        here => here?,
    };
    let Some(dev) = directory(root, "dev")? else {
        return Ok(Vec::new());
    };
    let mut seen = Seen {
        here,
        left: LOOKED_AT,
        found: Vec::new(),
    };
    for name in seen.look(&dev, "")? {
        if let Some(below) = directory(dev.as_fd(), &name)? {
            seen.look(&below, &name)?;
        }
    }
    seen.found.sort();
    seen.found.truncate(SHOWN);
    Ok(seen.found)
}

/// Opens a directory; `None` if it is missing, or something else.
fn directory(dir: BorrowedFd<'_>, name: &str) -> Result<Option<OwnedFd>, Errno> {
    match openat(dir, name, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(None),
        found => found.map(Some),
    }
}

struct Seen {
    /// `/dev` of this machine.
    here: OwnedFd,
    left: usize,
    found: Vec<(String, bool, u64)>,
}

impl Seen {
    /// Looks at the entries of a directory, and returns those that are directories.
    fn look(&mut self, dir: &OwnedFd, below: &str) -> Result<Vec<String>, Errno> {
        let mut directories = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if matches!(name, "." | "..") || below.is_empty() && OWN.contains(&name) {
                continue;
            }
            let Some(left) = self.left.checked_sub(1) else {
                break;
            };
            self.left = left;
            let Some(stat) = stat_of(dir.as_fd(), name)? else {
                continue;
            };
            let path = match below {
                "" => name.to_owned(),
                _ => format!("{below}/{name}"),
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => directories.push(path),
                FileType::CharacterDevice | FileType::BlockDevice if self.is_known(&path, &stat)? => {
                    let block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
                    self.found.push((path, block, stat.st_rdev));
                }
                _ => {}
            }
        }
        Ok(directories)
    }

    /// True if this machine has the same device by that name.
    fn is_known(&self, path: &str, stat: &Stat) -> Result<bool, Errno> {
        let kind = |stat: &Stat| FileType::from_raw_mode(stat.st_mode);
        let own = stat_of(self.here.as_fd(), path)?;
        Ok(own.is_some_and(|own| kind(&own) == kind(stat) && own.st_rdev == stat.st_rdev))
    }
}

fn stat_of(dir: BorrowedFd<'_>, path: &str) -> Result<Option<Stat>, Errno> {
    match statat(dir, path, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        found => found.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_device_that_this_machine_has_by_its_name() {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open("/", flags, Mode::empty()).unwrap();
        for (path, block, number) in of(root.as_fd()).unwrap() {
            let found = statat(&root, format!("dev/{path}"), AtFlags::SYMLINK_NOFOLLOW).unwrap();
            assert_eq!(found.st_rdev, number, "{path}");
            let kind = FileType::from_raw_mode(found.st_mode);
            assert_eq!(kind == FileType::BlockDevice, block, "{path}");
            assert!(!OWN.contains(&&*path), "{path}");
        }
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::File::open(dir.path()).unwrap();
        assert_eq!(of(root.as_fd()).unwrap(), [], "nothing");
        symlink("/dev", dir.path().join("dev")).unwrap();
        assert_eq!(of(root.as_fd()).unwrap(), [], "a link");
        std::fs::remove_file(dir.path().join("dev")).unwrap();
        std::fs::create_dir_all(dir.path().join("dev/fuse")).unwrap();
        std::fs::write(dir.path().join("dev/kmsg"), "").unwrap();
        symlink("/dev/null", dir.path().join("dev/fuse/null")).unwrap();
        assert_eq!(of(root.as_fd()).unwrap(), [], "nothing there is a device");
    }
}
