//! An unpacked directory as a container's root: `rootfs:DIR`.

use crate::rootfs::{Rootfs, Upper};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// File systems that overlayfs refuses as a layer, by their `statfs(2)` magic: they cannot be stacked further, or
/// compare names by more than bytes.
const REFUSED: [(u64, &str); 4] = [
    (0x9fa0, "proc"),
    (0x0187, "autofs"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
];

/// Why a directory cannot be a root.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The directory does not exist.
    #[error("the rootfs directory {path} does not exist: unpack an image there or check the spelling")]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// The path leads to something else.
    #[error("the rootfs {path} is not a directory: unpack it and name the directory")]
    NotDirectory {
        /// The path as given.
        path: PathBuf,
    },
    /// The caller may not list the directory, enter it, or walk to it.
    #[error(
        "the rootfs directory {path} cannot be read and searched by user {uid}: give it and the directories above it \
         to that user, or `chmod o+rx` them"
    )]
    Denied {
        /// The path as given.
        path: PathBuf,
        /// The caller's effective user id.
        uid: u32,
    },
    /// The directory is on a file system that overlayfs refuses as a layer.
    #[error(
        "the rootfs directory {path} is on a {file_system} file system, which overlayfs refuses: copy it elsewhere"
    )]
    FileSystem {
        /// The path as given.
        path: PathBuf,
        /// The kernel's name of the file system.
        file_system: &'static str,
    },
    /// Any other failure of opening the directory.
    #[error("cannot open the rootfs directory {path}")]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
}

/// A directory that can be the lower layer of a root.
#[derive(Debug)]
pub struct Directory {
    /// Path, absolute and without symbolic links: mount options must stay right when the working directory changes.
    pub path: PathBuf,
    dir: OwnedFd,
}

impl Directory {
    /// Opens and checks a directory.
    ///
    /// # Errors
    ///
    /// [`DirectoryError`], whose variants name the directory and the remedy.
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        let failed = |errno| refusal(path.to_owned(), errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        // Opening checks the permission to list; only a lookup inside checks the one to search.
        rustix::fs::statat(&dir, "./.", rustix::fs::AtFlags::empty()).map_err(failed)?;
        let magic = rustix::fs::fstatfs(&dir).map_err(failed)?.f_type;
        if let Some((_, file_system)) = REFUSED
            .iter()
            .find(|(refused, _)| i128::from(magic) == i128::from(*refused))
        {
            return Err(DirectoryError::FileSystem {
                path: path.to_owned(),
                file_system,
            });
        }
        let absolute = std::path::absolute(path)
            .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        Ok(Directory { path: absolute, dir })
    }

    /// Describes the root of this directory together with `upper`.
    #[must_use]
    pub fn rootfs(&self, upper: Upper) -> Rootfs {
        Rootfs {
            lowers: vec![self.path.clone()],
            own_inodes: None,
            upper,
            binds: Vec::new(),
        }
    }
}

/// Converts the kernel's error for a directory that was opened, entered or resolved.
fn refusal(path: PathBuf, errno: Errno) -> DirectoryError {
    match errno {
        Errno::NOENT => DirectoryError::Missing { path },
        Errno::NOTDIR => DirectoryError::NotDirectory { path },
        Errno::ACCESS => DirectoryError::Denied {
            path,
            uid: rustix::process::geteuid().as_raw(),
        },
        source => DirectoryError::Open { path, source },
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_directory_and_the_remedy() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("image.tar");
        std::fs::write(&file, "").unwrap();
        for (path, said) in [
            (temp.path().join("absent"), "does not exist: unpack"),
            (file.clone(), "is not a directory: unpack"),
            (file.join("below"), "is not a directory: unpack"),
            (
                PathBuf::from("/proc"),
                "is on a proc file system, which overlayfs refuses: copy",
            ),
        ] {
            let message = Directory::open(&path).unwrap_err().to_string();
            assert!(
                message.contains(said) && message.contains(path.to_str().unwrap()),
                "{message}"
            );
        }
        let message = refusal(PathBuf::from("/srv/alpine"), Errno::ACCESS).to_string();
        assert!(
            message.contains("/srv/alpine cannot be read and searched by user"),
            "{message}"
        );
    }

    #[test]
    fn a_directory_keeps_the_name_that_it_was_given() {
        let temp = tempfile::tempdir().unwrap();
        let real = temp.path().join("re:al");
        std::fs::create_dir(&real).unwrap();
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let directory = Directory::open(&link).unwrap();
        assert_eq!(directory.path, link);
        assert_eq!(directory.rootfs(Upper::None).lowers, [link]);
    }
}
