//! Removal of trees, within a time limit.

use crate::StoreError;
use crate::crew;
use crate::dir::Dir;
use crate::fault::step;
use crate::patience::Patience;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Number of parts that keeps all threads busy until the end.
const PARTS: usize = 64;

/// Removes a tree. Returns whether it is gone.
pub(crate) fn remove(dir: &Dir, name: &str, patience: Patience) -> Result<bool, StoreError> {
    let removed = match patience {
        Patience::Endless => remove_parts(dir, name).map(|()| true),
        Patience::Until(_) => remove_at(dir, name.as_bytes(), patience),
    };
    removed.map_err(dir.failed("remove", name))
}

/// Removes any kind of entry.
pub(crate) fn remove_any(dir: &Dir, name: &str) -> Result<(), Errno> {
    remove_parts(dir, name)
}

/// Removes a tree by several threads: each takes directories from a list, and their parents are removed last.
fn remove_parts(dir: &Dir, name: &str) -> Result<(), Errno> {
    let mut parts = vec![name.as_bytes().to_owned()];
    let mut taken = 0;
    // A directory without subdirectories can have most of the files: one thread removes them while others do the rest.
    let mut flat = Vec::new();
    // Split from the top until there are enough parts. The remaining files of a part that is opened here, and the
    // directory itself, are removed last.
    while parts.len() < PARTS && taken < parts.len() {
        let below = match open_dir(dir, &parts[taken]) {
            Ok(below) => below,
            // The entry is not a directory, or it is gone.
            Err(Errno::NOTDIR | Errno::NOENT | Errno::LOOP) => {
                return remove_at(dir, name.as_bytes(), Patience::Endless).map(drop);
            }
            Err(errno) => return Err(errno),
        };
        let before = parts.len();
        for entry in rustix::fs::Dir::read_from(&below)? {
            let entry = entry?;
            let file = entry.file_name().to_bytes();
            if file != b"." && file != b".." && entry.file_type() == FileType::Directory {
                parts.push([&parts[taken], b"/".as_slice(), file].concat());
            }
        }
        if parts.len() == before {
            flat.push(parts[taken].clone());
        }
        taken += 1;
    }
    flat.extend_from_slice(&parts[taken..]);
    // No other process changes the content of the trash, so the paths stay valid.
    crew::for_each(&flat, |part| remove_at(dir, part, Patience::Endless).map(drop))?;
    remove_at(dir, name.as_bytes(), Patience::Endless).map(drop)
}

fn remove_at(dir: impl AsFd, name: &[u8], patience: Patience) -> Result<bool, Errno> {
    step()?;
    match tote_sys::unlink(&dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    if patience.is_over() {
        return Ok(false);
    }
    let below = match open_dir(&dir, name) {
        Err(Errno::NOENT) => return Ok(true),
        opened => opened?,
    };
    let mut attempts = 0;
    loop {
        for entry in rustix::fs::Dir::read_from(&below)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." && !remove_at(&below, name, patience)? {
                return Ok(false);
            }
        }
        attempts += 1;
        match tote_sys::unlink(&dir, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(true),
            // Entries that another process removes while a directory is read may hide existing ones.
            Err(Errno::NOTEMPTY) if attempts < 100 => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Opens a directory that is about to be emptied, whatever its mode.
fn open_dir(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if !rustix::process::geteuid().is_root() {
        let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory && stat.st_mode & 0o700 != 0o700 {
            rustix::fs::chmodat(&dir, name, Mode::RWXU, AtFlags::empty())?;
        }
    }
    rustix::fs::openat(&dir, name, flags, Mode::empty())
}
