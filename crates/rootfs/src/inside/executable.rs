//! An executable file of a root, as a program outside of it has to know it to start it from another place.

use super::interpreter::{name_in, read_at};
use super::{InterpreterKind, ReadError, find, is_regular, open_found};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use tote_needs::{FIRST_BYTES, script_line};

/// An executable file of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// Path in the root, without links.
    pub path: PathBuf,
    /// Needs of the file beside itself.
    pub needs: Needs,
}

/// Needs of an executable file beside itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing that the kernel looks for: a static program, or a format of another kind.
    Nothing,
    /// The dynamic linker of this path.
    Linker(PathBuf),
    /// The interpreter of its first line, with one argument.
    Interpreter {
        /// Path of the interpreter.
        path: PathBuf,
        /// Rest of the line.
        argument: Option<OsString>,
    },
}

/// Bytes of a file that are read at once: they have all that is looked for in most programs.
const BEGINNING: usize = 4096;

/// Looks at the file `path` of `root`; `None` for anything but a regular file with an execute bit. `is_resolved` says that the path
/// is known to be without links.
///
/// # Errors
///
/// [`ReadError`], except [`ReadError::TooLarge`] and [`ReadError::NotRegular`].
pub fn executable_in(
    root: impl AsFd,
    path: impl AsRef<Path>,
    is_resolved: bool,
) -> Result<Option<Executable>, ReadError> {
    let (root, path) = (root.as_fd(), path.as_ref());
    let failed = |source| ReadError::Open {
        path: path.to_owned(),
        source,
    };
    let Some((found, stat)) = find(root, path).map_err(failed)? else {
        return Ok(None);
    };
    if !is_regular(&stat) || stat.st_mode & 0o111 == 0 {
        return Ok(None);
    }
    let file = open_found(found.as_fd()).map_err(failed)?;
    let failed = |source| ReadError::Read {
        path: path.to_owned(),
        source,
    };
    let beginning = read_at(file.as_fd(), 0, BEGINNING).map_err(failed)?;
    let read = |offset, length| {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        match beginning.get(start..start.saturating_add(length)) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => read_at(file.as_fd(), offset, length),
        }
    };
    let needs = match name_in(&read).map_err(failed)? {
        None => Needs::Nothing,
        Some((name, InterpreterKind::Elf)) => Needs::Linker(OsString::from_vec(name).into()),
        Some((name, InterpreterKind::Script)) => Needs::Interpreter {
            argument: argument(&read(0, FIRST_BYTES).map_err(failed)?),
            path: OsString::from_vec(name).into(),
        },
    };
    let path = if is_resolved {
        path.to_owned()
    } else {
        path_below(root, file.as_fd()).map_err(failed)?
    };
    Ok(Some(Executable { path, needs }))
}

/// Resolves the links of a path inside `root`; `None` if it does not exist.
///
/// # Errors
///
/// [`ReadError::Open`].
pub fn resolve_in(root: impl AsFd, path: impl AsRef<Path>) -> Result<Option<PathBuf>, ReadError> {
    let (root, path) = (root.as_fd(), path.as_ref());
    let failed = |source| ReadError::Open {
        path: path.to_owned(),
        source,
    };
    let Some((found, _)) = find(root, path).map_err(failed)? else {
        return Ok(None);
    };
    path_below(root, found.as_fd()).map(Some).map_err(failed)
}

/// Returns the path of an open file below an open root, as the kernel knows it.
fn path_below(root: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    let path = |fd: BorrowedFd<'_>| {
        let text = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
        Ok::<_, Errno>(PathBuf::from(OsString::from_vec(text.into_bytes())))
    };
    let (root, file) = (path(root)?, path(file)?);
    let below = file.strip_prefix(&root).map_err(|_| Errno::NOENT)?;
    Ok(Path::new("/").join(below))
}

/// Parses the argument of a `#!` line: all that follows the interpreter, as one word.
fn argument(first: &[u8]) -> Option<OsString> {
    let argument = script_line(first)?.argument;
    (!argument.is_empty()).then(|| OsStr::from_bytes(argument).to_owned())
}
