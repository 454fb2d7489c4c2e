//! Files of a run: its lock and its directory.

use anyhow::{Context, Result, bail};
use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Takes the lock, because suites use the same container names in every run. The kernel releases it however this
/// process ends.
pub(super) fn lock(scratch: &Path) -> Result<File> {
    let path = scratch.with_extension("lock");
    let file = File::options().append(true).create(true).open(&path);
    let file = file.with_context(|| format!("open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!("{}: another run holds it, wait for its end", path.display()),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {}", path.display())),
    }
}

/// Creates a directory that must not exist, with this mode whatever the umask.
pub(super) fn create(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .and_then(|()| File::open(path))
        .and_then(|directory| directory.set_permissions(std::fs::Permissions::from_mode(mode)))
        .with_context(|| format!("create {}", path.display()))
}

/// Removes a directory with its content, if it exists.
pub(super) fn remove_tree(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
