//! The interpreter of an executable: its dynamic linker, or the program of its `#!` line.

use super::{ReadError, find, is_regular, open_regular};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use tote_needs::{FIRST_BYTES, elf, script_line};

/// Maximum length of an interpreter's name with its NUL, the kernel's `PATH_MAX`.
const MAX_NAME: u64 = 4096;

/// The program that runs an executable, as the executable itself names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Path as written in the executable.
    pub path: PathBuf,
    /// Part of the executable that names it.
    pub kind: InterpreterKind,
    /// True if the root has a regular file of that name. Without one, executing fails with `ENOENT`, which does not
    /// mention the interpreter.
    pub present: bool,
}

/// How an executable names its [`Interpreter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterpreterKind {
    /// The dynamic linker, in an ELF program header.
    Elf,
    /// The first line, after `#!`.
    Script,
}

/// Finds the interpreter of the executable `path` of `root`; `None` if it needs none, is not an executable of a
/// known format, or does not exist. An interpreter may need one itself: call again with its path.
///
/// # Errors
///
/// [`ReadError`], except [`ReadError::TooLarge`]: an executable may have any size.
pub fn interpreter_of(root: impl AsFd, path: impl AsRef<Path>) -> Result<Option<Interpreter>, ReadError> {
    let (root, path) = (root.as_fd(), path.as_ref());
    let Some(file) = open_regular(root, path)? else {
        return Ok(None);
    };
    let failed = |source| ReadError::Read {
        path: path.to_owned(),
        source,
    };
    let read = |offset, length| read_at(file.as_fd(), offset, length);
    let Some((name, kind)) = name_in(&read).map_err(failed)? else {
        return Ok(None);
    };
    let interpreter = PathBuf::from(OsString::from_vec(name));
    let present = match find(root, &interpreter) {
        Ok(found) => found.is_some_and(|(_, stat)| is_regular(&stat)),
        // The name comes from the executable, so one that leads nowhere only means a missing interpreter.
        Err(Errno::NAMETOOLONG | Errno::LOOP) => false,
        Err(source) => {
            return Err(ReadError::Open {
                path: interpreter,
                source,
            });
        }
    };
    Ok(Some(Interpreter {
        path: interpreter,
        kind,
        present,
    }))
}

/// Reads bytes of a file: offset and number. Fewer come only at its end.
pub(super) type Reads<'a> = &'a dyn Fn(u64, usize) -> Result<Vec<u8>, Errno>;

/// Finds the name of the interpreter.
pub(super) fn name_in(read: Reads<'_>) -> Result<Option<(Vec<u8>, InterpreterKind)>, Errno> {
    let first = read(0, FIRST_BYTES)?;
    if let Some(line) = script_line(&first) {
        return Ok(Some((line.program.to_vec(), InterpreterKind::Script)));
    }
    let Some(table) = elf::program_headers(&first[..first.len().min(elf::HEADER)]) else {
        return Ok(None);
    };
    let headers = read(table.offset, table.length)?;
    let Some((offset, length)) = elf::interp(table, &headers) else {
        return Ok(None);
    };
    let mut name = read(offset, usize::try_from(length.min(MAX_NAME)).unwrap_or(0))?;
    name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(0));
    Ok((!name.is_empty()).then_some((name, InterpreterKind::Elf)))
}

/// Reads up to `length` bytes from `offset`; fewer only at the end of the file.
pub(super) fn read_at(file: BorrowedFd<'_>, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        let Some(at) = offset
            .checked_add(filled as u64)
            .filter(|at| i64::try_from(*at).is_ok())
        else {
            break;
        };
        match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut bytes[filled..], at)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            // An offset beyond the file system's limit is beyond the end.
            Err(Errno::INVAL | Errno::OVERFLOW) => break,
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
