//! Who runs an executable: the dynamic linker it names, or the program of its `#!` line.

use super::{ReadError, elf, find, is_regular, open_regular};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The kernel's `BINPRM_BUF_SIZE`: what it looks at to recognise a format. A longer `#!` line is cut off here.
const FIRST_BYTES: usize = 256;
/// The kernel's `PATH_MAX`, the longest interpreter's name it takes, with its NUL.
const MAX_NAME: u64 = 4096;

/// The program that runs an executable, by the executable's own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// As it is written in the executable.
    pub path: PathBuf,
    /// Where it is written.
    pub kind: InterpreterKind,
    /// Whether the root has a regular file of that name. Without one, executing fails with `ENOENT`, which says
    /// nothing of an interpreter.
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

/// The interpreter of the executable `path` of `root`; `None` when it needs none, is no executable known here, or does
/// not exist. An interpreter may need one itself: ask again with its path.
///
/// # Errors
///
/// [`ReadError`], except that there is no limit on the executable's size.
pub fn interpreter_of(root: impl AsFd, path: impl AsRef<Path>) -> Result<Option<Interpreter>, ReadError> {
    let (root, path) = (root.as_fd(), path.as_ref());
    let Some(file) = open_regular(root, path)? else {
        return Ok(None);
    };
    let failed = |source| ReadError::Read {
        path: path.to_owned(),
        source,
    };
    let Some((name, kind)) = name_in(file.as_fd()).map_err(failed)? else {
        return Ok(None);
    };
    let interpreter = PathBuf::from(OsString::from_vec(name));
    let present = match find(root, &interpreter) {
        Ok(found) => found.is_some_and(|(_, stat)| is_regular(&stat)),
        // Names that lead nowhere: the executable made them up.
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

fn name_in(file: BorrowedFd<'_>) -> Result<Option<(Vec<u8>, InterpreterKind)>, Errno> {
    let first = read_at(file, 0, FIRST_BYTES)?;
    if let Some(name) = script(&first) {
        return Ok(Some((name.to_vec(), InterpreterKind::Script)));
    }
    let Some(table) = elf::program_headers(&first[..first.len().min(elf::HEADER)]) else {
        return Ok(None);
    };
    let headers = read_at(file, table.offset, table.length)?;
    let Some((offset, length)) = elf::interp(table, &headers) else {
        return Ok(None);
    };
    let mut name = read_at(file, offset, usize::try_from(length.min(MAX_NAME)).unwrap_or(0))?;
    name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(0));
    Ok((!name.is_empty()).then_some((name, InterpreterKind::Elf)))
}

/// The program of a `#!` line. As in the kernel, a line that is cut off inside the name does not count.
pub(super) fn script(first: &[u8]) -> Option<&[u8]> {
    let line = first.strip_prefix(b"#!")?;
    let start = line.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
    let name = &line[start..];
    let end = name
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t' | b'\n' | 0));
    let end = match end {
        Some(end) => end,
        None if first.len() < FIRST_BYTES => name.len(),
        None => return None,
    };
    (end > 0).then(|| &name[..end])
}

/// Up to `length` bytes from `offset`; fewer only at the end of the file.
fn read_at(file: BorrowedFd<'_>, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
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
            // An offset beyond what the file system can hold is one beyond the end.
            Err(Errno::INVAL | Errno::OVERFLOW) => break,
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
