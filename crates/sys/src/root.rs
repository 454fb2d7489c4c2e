//! Paths inside the container's root: openat2(2) with `RESOLVE_IN_ROOT`, one component at a time where components
//! have to be made. A symbolic link in an image leads to another place in that image, never out of it.

use crate::Errno;
use crate::lookup::openat2;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use std::ffi::CStr;

/// PATH_MAX, the NUL included. Functions that have a buffer of this size are not inlined: the loop over a plan's operations
/// would have all of their buffers, and the kernel would make a page for each 4 KiB of them in each birth.
const PATH: usize = 4096;
/// NAME_MAX, and a NUL.
const NAME: usize = 256;

/// Kind of a path's last component, with the permission bits for making it.
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
    openat2(
        root,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        in_root(strict),
    )
}

/// Opens a path inside (O_PATH), making its missing components.
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

/// Most symbolic links on the way, as the kernel's own limit.
const LINKS: usize = 40;

/// Makes the missing components one by one. Each is looked up again from the root, so that a symbolic link among them
/// is resolved as the container would; the target of a dangling link is made.
pub(crate) fn make(root: BorrowedFd<'_>, path: &CStr, strict: bool, last: Last) -> Result<OwnedFd, Errno> {
    let mut walk = Walk {
        bytes: [0; PATH],
        length: 0,
    };
    walk.append(path.to_bytes())?;
    for _ in 0..LINKS {
        if let Some(made) = walk.go(root, strict, last)? {
            return Ok(made);
        }
    }
    Err(Errno::LOOP)
}

/// A path that is being made.
struct Walk {
    bytes: [u8; PATH],
    length: usize,
}

impl Walk {
    fn append(&mut self, more: &[u8]) -> Result<(), Errno> {
        let end = self.length + more.len();
        // One byte stays for the NUL.
        if end >= PATH {
            return Err(Errno::NAMETOOLONG);
        }
        self.bytes[self.length..end].copy_from_slice(more);
        self.length = end;
        Ok(())
    }

    /// Goes down, making missing components. `None` when a link was in the way: the path then contains the link's
    /// target.
    fn go(&mut self, root: BorrowedFd<'_>, strict: bool, last: Last) -> Result<Option<OwnedFd>, Errno> {
        let mut parent = open(root, c".", strict)?;
        let mut end = 0;
        loop {
            let slashes = |from: usize, to: usize, slash: bool| {
                let rest = self.bytes[from..to].iter();
                from + rest.take_while(|&&byte| (byte == b'/') == slash).count()
            };
            let start = slashes(end, self.length, true);
            end = slashes(start, self.length, false);
            if start == end {
                return Ok(Some(parent));
            }
            let is_last = slashes(end, self.length, true) == self.length;
            // The byte after a component is a slash or past the end; it becomes a NUL while this component is looked
            // at.
            let after = std::mem::replace(&mut self.bytes[end], 0);
            let whole = terminated(&self.bytes[..=end])?;
            let name = terminated(&self.bytes[start..=end])?;
            let found = match open(root, whole, strict) {
                Err(Errno::NOENT) => {
                    let made = match last {
                        Last::File(mode) if is_last => touch(&parent, name, mode),
                        Last::Dir(mode) if is_last => make_one(&parent, name, mode),
                        _ => make_one(&parent, name, 0o755),
                    };
                    match made {
                        // The name exists and cannot be resolved: it is a dangling symbolic link.
                        Err(Errno::EXIST) if strict => return Err(Errno::LOOP),
                        Err(Errno::EXIST) => {
                            self.bytes[end] = after;
                            return self.follow(&parent, start, end).map(|()| None);
                        }
                        made => made.and_then(|()| open(root, whole, strict)),
                    }
                }
                other => other,
            };
            parent = found?;
            self.bytes[end] = after;
        }
    }

    /// Replaces a component by the target of the link of that name.
    fn follow(&mut self, parent: &OwnedFd, start: usize, end: usize) -> Result<(), Errno> {
        let mut name = [0u8; NAME];
        name.get_mut(..end - start)
            .ok_or(Errno::NAMETOOLONG)?
            .copy_from_slice(&self.bytes[start..end]);
        let name = CStr::from_bytes_until_nul(&name).map_err(|_| Errno::INVAL)?;
        let mut text = [0u8; PATH];
        let text_length = rustix::fs::readlinkat_raw(parent, name, &mut text[..])?;
        let mut rest = [0u8; PATH];
        let length = self.length - end;
        rest[..length].copy_from_slice(&self.bytes[end..self.length]);
        let text = &text[..text_length];
        self.length = if text.starts_with(b"/") { 0 } else { start };
        self.append(text)?;
        self.append(&rest[..length])
    }
}

fn terminated(bytes: &[u8]) -> Result<&CStr, Errno> {
    CStr::from_bytes_with_nul(bytes).map_err(|_| Errno::INVAL)
}

pub(crate) fn make_one(parent: impl AsFd, name: &CStr, mode: u32) -> Result<(), Errno> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode))
}

pub(crate) fn touch(parent: impl AsFd, name: &CStr, mode: u32) -> Result<(), Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(mode)).map(drop)
}

/// Makes a directory inside, and its parents.
pub(crate) fn make_dir(root: BorrowedFd<'_>, path: &CStr, mode: u32) -> Result<OwnedFd, Errno> {
    open_or_make(root, path, false, Last::Dir(mode))
}

/// Splits a path into an open parent and a name.
#[inline(never)]
pub(crate) fn parent<'p>(root: BorrowedFd<'_>, path: &'p CStr) -> Result<(OwnedFd, &'p CStr), Errno> {
    let mut prefix = [0u8; PATH];
    let (dir, name) = split(path, &mut prefix)?;
    Ok((open_or_make(root, dir, false, Last::Dir(0o755))?, name))
}

/// Splits a path into its directory, which is written to `prefix`, and a name.
fn split<'p, 'd>(path: &'p CStr, prefix: &'d mut [u8; PATH]) -> Result<(&'d CStr, &'p CStr), Errno> {
    let bytes = path.to_bytes_with_nul();
    let slash = bytes.iter().rposition(|&byte| byte == b'/');
    let (dir, name) = slash.map_or((&bytes[..0], bytes), |at| (&bytes[..at], &bytes[at + 1..]));
    if dir.len() >= PATH {
        return Err(Errno::NAMETOOLONG);
    }
    prefix[..dir.len()].copy_from_slice(dir);
    let dir = if dir.is_empty() {
        c"."
    } else {
        terminated(&prefix[..=dir.len()])?
    };
    Ok((dir, terminated(name)?))
}

/// Moves an entry of the root's top to its place in the root, making the directories on the way.
pub(crate) fn rename(root: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno> {
    let (dir, name) = parent(root, to)?;
    rustix::fs::renameat(root, from, &dir, name)
}

/// Makes a symbolic link inside; an existing entry stays, or, with `replace`, is removed first.
pub(crate) fn symlink(root: BorrowedFd<'_>, text: &CStr, path: &CStr, replace: bool) -> Result<(), Errno> {
    let (dir, name) = parent(root, path)?;
    match rustix::fs::symlinkat(text, &dir, name) {
        Err(Errno::EXIST) if replace => {
            rustix::fs::unlinkat(&dir, name, AtFlags::empty())?;
            rustix::fs::symlinkat(text, &dir, name)
        }
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

/// Calls `act` with the same path on the host.
#[inline(never)]
pub(crate) fn with_absolute<T>(path: &CStr, act: impl FnOnce(&CStr) -> Result<T, Errno>) -> Result<T, Errno> {
    let mut walk = Walk {
        bytes: [0; PATH],
        length: 0,
    };
    walk.append(b"/")?;
    walk.append(path.to_bytes())?;
    act(terminated(&walk.bytes[..=walk.length])?)
}

/// Writes a whole file inside. Only a regular file is written: a FIFO or device of the image is an error, and so is a
/// file of a kernel file system (procfs and its kin).
///
/// The file is the container's own, so it must not be written to a mount inside the container, which may be the
/// host's: a symbolic link of the image that leads there is replaced by the file.
pub(crate) fn write(root: BorrowedFd<'_>, path: &CStr, mode: u32, content: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let own = in_root(false) | ResolveFlags::NO_XDEV;
    let open = |flags| openat2(root, path, flags, Mode::from_raw_mode(mode), own);
    let opened = match open(flags | OFlags::EXCL) {
        // A new file is a regular one, of a file system in which files can be made.
        Ok(new) => return write_all(new.as_fd(), content),
        Err(Errno::NOENT) => {
            drop(parent(root, path)?);
            open(flags)
        }
        Err(Errno::EXIST) => open(flags),
        other => other,
    };
    let file = match opened {
        Err(Errno::XDEV) => match instead_of_link(root, path, mode)? {
            Some(file) => file,
            None => return Ok(()),
        },
        file => file?,
    };
    let found = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    if KERNELS.contains(&rustix::fs::fstatfs(&file)?.f_type) {
        return Err(Errno::XDEV);
    }
    if found.st_size != 0 {
        rustix::fs::ftruncate(&file, 0)?;
    }
    write_all(file.as_fd(), content)
}

/// Magic numbers of kernel file systems, linux/magic.h: procfs, sysfs, cgroups of both versions, debugfs, tracefs,
/// securityfs, bpf, configfs, efivarfs.
const KERNELS: [rustix::fs::FsWord; 10] = [
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0xcafe_4a11,
    0x6265_6570,
    0xde5e_81e4,
];

/// Replaces a symbolic link by a new file; `None` if its directory belongs to another mount, or if it is not a link.
#[inline(never)]
fn instead_of_link(root: BorrowedFd<'_>, path: &CStr, mode: u32) -> Result<Option<OwnedFd>, Errno> {
    let mut prefix = [0u8; PATH];
    let (dir, name) = split(path, &mut prefix)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = in_root(false) | ResolveFlags::NO_XDEV;
    let dir = match openat2(root, dir, flags, Mode::empty(), own) {
        Err(Errno::XDEV) => return Ok(None),
        dir => dir?,
    };
    let found = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
        return Ok(None);
    }
    rustix::fs::unlinkat(&dir, name, AtFlags::empty())?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(&dir, name, flags, Mode::from_raw_mode(mode)).map(Some)
}

/// Writes all bytes.
pub(crate) fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
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

/// Changes directory and checks that the result is inside: a leaked descriptor of the host could lead out
/// (CVE-2024-21626).
#[inline(never)]
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
