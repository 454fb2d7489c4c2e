//! Paths inside the container's root: openat2(2) with `RESOLVE_IN_ROOT`, one component at a time where something has
//! to be made. A symbolic link in an image leads to another place in that image, never out of it.

use crate::Errno;
use crate::child::Registers;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use std::ffi::CStr;

/// PATH_MAX, the NUL included.
const PATH: usize = 4096;

/// What the last component of a path is, where it is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    Dir(u32),
    File(u32),
}

fn in_root(strict: bool) -> ResolveFlags {
    let flags = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    if strict {
        flags | ResolveFlags::NO_SYMLINKS
    } else {
        flags
    }
}

/// Opens a path inside (O_PATH).
pub(crate) fn open(root: BorrowedFd<'_>, path: &CStr, strict: bool) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(
        root,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        in_root(strict),
    )
}

/// Opens a path inside (O_PATH), making what is missing of it.
pub(crate) fn open_or_make(
    root: BorrowedFd<'_>,
    path: &CStr,
    strict: bool,
    last: Last,
) -> Result<OwnedFd, Errno> {
    match open(root, path, strict) {
        Err(Errno::NOENT) => make(root, path, strict, last),
        other => other,
    }
}

/// Makes the missing components one by one. Each is looked up again from the root, so that a symbolic link among them
/// is resolved as the container would.
fn make(root: BorrowedFd<'_>, path: &CStr, strict: bool, last: Last) -> Result<OwnedFd, Errno> {
    let bytes = path.to_bytes();
    let mut prefix = [0u8; PATH];
    if bytes.len() >= PATH {
        return Err(Errno::NAMETOOLONG);
    }
    let mut parent = open(root, c".", strict)?;
    let mut end = 0;
    while end < bytes.len() {
        let start = end + bytes[end..].iter().take_while(|&&byte| byte == b'/').count();
        end = start + bytes[start..].iter().take_while(|&&byte| byte != b'/').count();
        if start == end {
            break;
        }
        prefix[..end].copy_from_slice(&bytes[..end]);
        prefix[end] = 0;
        let whole = terminated(&prefix[..=end])?;
        let is_last = bytes[end..].iter().all(|&byte| byte == b'/');
        let found = match open(root, whole, strict) {
            Err(Errno::NOENT) => {
                let name = terminated(&prefix[start..=end])?;
                match last {
                    Last::File(mode) if is_last => touch(&parent, name, mode)?,
                    Last::Dir(mode) if is_last => make_one(&parent, name, mode)?,
                    _ => make_one(&parent, name, 0o755)?,
                }
                open(root, whole, strict)
            }
            other => other,
        };
        parent = found?;
    }
    Ok(parent)
}

fn terminated(bytes: &[u8]) -> Result<&CStr, Errno> {
    CStr::from_bytes_with_nul(bytes).map_err(|_| Errno::INVAL)
}

fn make_one(parent: &OwnedFd, name: &CStr, mode: u32) -> Result<(), Errno> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode)) {
        Err(Errno::EXIST) => Err(Errno::LOOP), // a dangling symbolic link: there, and yet not to be found
        other => other,
    }
}

fn touch(parent: &OwnedFd, name: &CStr, mode: u32) -> Result<(), Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(mode)) {
        Err(Errno::EXIST) => Err(Errno::LOOP),
        other => other.map(drop),
    }
}

/// Makes a directory inside, and its parents.
pub(crate) fn make_dir(root: BorrowedFd<'_>, path: &CStr, mode: u32) -> Result<OwnedFd, Errno> {
    open_or_make(root, path, false, Last::Dir(mode))
}

/// Splits a path into an open parent and a name.
fn parent<'p>(root: BorrowedFd<'_>, path: &'p CStr) -> Result<(OwnedFd, &'p CStr), Errno> {
    let bytes = path.to_bytes_with_nul();
    let slash = bytes.iter().rposition(|&byte| byte == b'/');
    let (dir, name) = slash.map_or((&bytes[..0], bytes), |at| (&bytes[..at], &bytes[at + 1..]));
    let mut prefix = [0u8; PATH];
    if dir.len() >= PATH {
        return Err(Errno::NAMETOOLONG);
    }
    prefix[..dir.len()].copy_from_slice(dir);
    let dir = if dir.is_empty() {
        c"."
    } else {
        terminated(&prefix[..=dir.len()])?
    };
    Ok((
        open_or_make(root, dir, false, Last::Dir(0o755))?,
        terminated(name)?,
    ))
}

/// Makes a symbolic link inside; what is there already stays.
pub(crate) fn symlink(root: BorrowedFd<'_>, text: &CStr, path: &CStr) -> Result<(), Errno> {
    let (dir, name) = parent(root, path)?;
    match rustix::fs::symlinkat(text, dir, name) {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

/// Makes a device node inside, with that very mode and owner.
pub(crate) fn device(
    root: BorrowedFd<'_>,
    path: &CStr,
    mode: u32,
    (major, minor): (u32, u32),
    (uid, gid): (u32, u32),
) -> Result<(), Errno> {
    let (dir, name) = parent(root, path)?;
    let kind = FileType::from_raw_mode(mode);
    let permissions = Mode::from_raw_mode(mode & 0o7777);
    match rustix::fs::mknodat(&dir, name, kind, permissions, rustix::fs::makedev(major, minor)) {
        Err(Errno::EXIST) => return Ok(()),
        other => other?,
    }
    // chmod follows links, but nobody else can reach this new directory yet; the umask is why it is needed.
    rustix::fs::chmodat(&dir, name, permissions, AtFlags::empty())?;
    if (uid, gid) == (0, 0) {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::fs::chownat(&dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

/// Writes a whole file inside. Only a regular file is written: a FIFO or device of the image is an error.
pub(crate) fn write(root: BorrowedFd<'_>, path: &CStr, mode: u32, content: &[u8]) -> Result<(), Errno> {
    let (dir, _) = parent(root, path)?;
    drop(dir);
    let flags =
        OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::openat2(root, path, flags, Mode::from_raw_mode(mode), in_root(false))?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    write_all(file.as_fd(), content)
}

/// Writes below the container's procfs, in one write(2) as its files want it.
pub(crate) fn write_proc(registers: &Registers<'_>, path: &CStr, value: &[u8]) -> Result<(), Errno> {
    let looked_up;
    let proc = if let Some(proc) = &registers.proc {
        proc
    } else {
        looked_up = open(registers.root()?, c"proc", true)?;
        &looked_up
    };
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let file = rustix::fs::openat2(proc, path, flags, Mode::empty(), resolve)?;
    // CVE-2025-52881: a write meant for procfs must land in procfs.
    if rustix::fs::fstatfs(&file)?.f_type != rustix::fs::PROC_SUPER_MAGIC {
        return Err(Errno::XDEV);
    }
    write_all(file.as_fd(), value)
}

fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Err(Errno::INTR) => {}
            Ok(0) => return Err(Errno::IO),
            Ok(written) => bytes = &bytes[written..],
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// chdir(2), and a look whether that is inside: a descriptor of the host's left open could lead out (CVE-2024-21626).
pub(crate) fn working_dir(path: &CStr) -> Result<(), Errno> {
    rustix::process::chdir(path)?;
    let mut buffer = [0u8; PATH];
    // SAFETY: the kernel writes at most `PATH` bytes into the buffer.
    let length = unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), buffer.len()) };
    // The kernel writes "(unreachable)/…" for a directory that is not below the root.
    if length > 0 && buffer[0] == b'/' {
        Ok(())
    } else {
        Err(Errno::XDEV)
    }
}
