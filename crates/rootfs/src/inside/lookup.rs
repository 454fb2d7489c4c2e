//! Lookup of a program by name, as `execvp` would do inside the root.

use super::{find, is_regular};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why a program was not found. A shell's exit status is 127 for the first two variants, 126 for the others.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The name is empty.
    #[error("cannot find a program without a name")]
    Empty,
    /// No file has the name.
    #[error("cannot find {} in the rootfs{}", name.display(), searched(path.as_deref()))]
    NotFound {
        /// The name that was asked for.
        name: OsString,
        /// The `PATH` that was searched; `None` if the name has a `/`.
        path: Option<OsString>,
    },
    /// The file has no execute bit.
    #[error("cannot execute {path} in the rootfs: it has no execute permission")]
    NotExecutable {
        /// The path inside the root.
        path: PathBuf,
    },
    /// The name leads to something other than a file.
    #[error("cannot execute {path} in the rootfs: it is {what}")]
    NotRegular {
        /// The path inside the root.
        path: PathBuf,
        /// "a directory" or "not a regular file".
        what: &'static str,
    },
    /// The kernel could not resolve the path.
    #[error("cannot look for {path} in the rootfs")]
    Walk {
        /// The path inside the root.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
}

fn searched(path: Option<&OsStr>) -> String {
    path.map(|path| format!(": PATH is {}", path.display()))
        .unwrap_or_default()
}

/// Finds the absolute path, inside `root`, of the program `name`. A name with a `/` is relative to `cwd` (absolute,
/// inside the root); any other is searched in the directories of `path`, the value of `PATH`, where an empty entry
/// stands for `cwd`.
///
/// The lookup sees the root's files before anything is mounted over them, and does not consider which user will
/// execute the program.
///
/// # Errors
///
/// [`LookupError`]. If a directory of `path` has a file that cannot be executed, and no later one has one that can,
/// that file is the error, as with `execvp`.
pub fn lookup_executable(
    root: impl AsFd,
    name: &OsStr,
    path: &OsStr,
    cwd: &Path,
) -> Result<PathBuf, LookupError> {
    let root = root.as_fd();
    if name.is_empty() {
        return Err(LookupError::Empty);
    }
    let cwd = Path::new("/").join(cwd);
    if name.as_bytes().contains(&b'/') {
        let program = cwd.join(name);
        return match probe(root, &program)? {
            true => Ok(program),
            false => Err(LookupError::NotFound {
                name: name.to_owned(),
                path: None,
            }),
        };
    }
    let mut refused = None;
    for dir in path.as_bytes().split(|byte| *byte == b':') {
        let program = cwd.join(OsStr::from_bytes(dir)).join(name);
        match probe(root, &program) {
            Ok(true) => return Ok(program),
            Ok(false) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| LookupError::NotFound {
        name: name.to_owned(),
        path: Some(path.to_owned()),
    }))
}

/// Returns whether the program exists; an existing file that cannot be executed is an error.
fn probe(root: BorrowedFd<'_>, program: &Path) -> Result<bool, LookupError> {
    let path = || program.to_owned();
    let stat = match find(root, program) {
        Ok(Some((_, stat))) => stat,
        Ok(None) => return Ok(false),
        Err(source) => return Err(LookupError::Walk { path: path(), source }),
    };
    if !is_regular(&stat) {
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let what = if directory {
            "a directory"
        } else {
            "not a regular file"
        };
        return Err(LookupError::NotRegular { path: path(), what });
    }
    if stat.st_mode & 0o111 == 0 {
        return Err(LookupError::NotExecutable { path: path() });
    }
    Ok(true)
}
