//! Finding a program by name, as `execvp` would inside the root.

use super::{find, is_regular};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why a program was not found. A shell's exit status is 127 for the first two, 126 for the others.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// There is no name.
    #[error("cannot find a program without a name")]
    Empty,
    /// Nothing of that name.
    #[error("cannot find {} in the rootfs{}", name.display(), searched(path.as_deref()))]
    NotFound {
        /// The name that was asked for.
        name: OsString,
        /// The `PATH` that was searched; `None` when the name has a `/`.
        path: Option<OsString>,
    },
    /// There is one, without any execute bit.
    #[error("cannot execute {path} in the rootfs: it has no execute permission")]
    NotExecutable {
        /// The path inside the root.
        path: PathBuf,
    },
    /// There is something else of that name.
    #[error("cannot execute {path} in the rootfs: it is {what}")]
    NotRegular {
        /// The path inside the root.
        path: PathBuf,
        /// "a directory" or "not a regular file".
        what: &'static str,
    },
    /// The kernel would not walk there.
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

/// The absolute path, inside `root`, of the program `name`. A name with a `/` is taken from `cwd` (absolute, inside the
/// root), any other is searched in the directories of `path`, the value of `PATH`; an empty one among them is `cwd`.
///
/// The answer is what the root's files say before anything is mounted over them, and does not ask which user will
/// execute it.
///
/// # Errors
///
/// [`LookupError`]. When a directory of `path` has a file that cannot be executed and no later one has a better one,
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

/// Whether the program exists; that it cannot be executed is the error.
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
