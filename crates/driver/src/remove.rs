//! Removing what a container's driver made.

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why a container's directory could not be removed.
#[derive(Debug, thiserror::Error)]
#[error("remove {path}")]
pub struct RemoveError {
    /// The directory.
    pub path: PathBuf,
    /// Why not.
    #[source]
    pub source: std::io::Error,
}

/// Removes a container's directory with all that any driver made in it; one that is not there needs no removing.
///
/// It is renamed first, so that a crash in between never leaves half a container under its id: the next call finds what
/// is left under the other name.
///
/// # Errors
/// [`RemoveError`].
pub fn remove(container: &Path) -> Result<(), RemoveError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| RemoveError { path, source }
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(container.file_name().unwrap_or_default());
    let trash = container.with_file_name(hidden);
    let renamed = match std::fs::rename(container, &trash) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
            missing_is_fine(remove_tree(&trash)).map_err(failed(&trash))?;
            std::fs::rename(container, &trash)
        }
        other => other,
    };
    missing_is_fine(renamed).map_err(failed(container))?;
    missing_is_fine(remove_tree(&trash)).map_err(failed(&trash))
}

fn missing_is_fine(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn remove_tree(path: &Path) -> std::io::Result<()> {
    // overlayfs leaves a directory without permissions in its work directory; by descriptor, and not through a link.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(work) = rustix::fs::openat(CWD, path.join("work"), flags, Mode::empty())
        && rustix::fs::openat(&work, "work", flags, Mode::empty()).is_ok()
    {
        rustix::fs::chmodat(&work, "work", Mode::RWXU, AtFlags::empty())?;
    }
    std::fs::remove_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::remove;
    use std::fs;

    #[test]
    fn removing_twice_does_no_harm_and_finds_what_a_crash_left() {
        let temp = tempfile::tempdir().unwrap();
        let container = temp.path().join("abc");
        fs::create_dir_all(container.join("tree/sub")).unwrap();
        remove(&container).unwrap();
        remove(&container).unwrap();
        fs::create_dir_all(temp.path().join(".abc/tree")).unwrap();
        remove(&container).unwrap();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}
