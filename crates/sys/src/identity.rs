//! Identity and rights of a process; and execve(2) of its program.

use crate::outcome::best_effort;
use crate::outcome::errno;
use crate::prctl::{CAPABILITIES, prctl};
use crate::registers::Registers;
use crate::text::Text;
use crate::{Capabilities, Credentials, Errno, Exec, IdMaps, Privilege, Program, seccomp};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, StatxFlags};
use rustix::ioctl::{Setter, ioctl};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Writes the maps of the process's own user namespace: one id each. The kernel allows that without privilege once
/// setgroups(2) is given up.
pub(crate) fn map_one_id(maps: IdMaps) -> Result<(), Errno> {
    put(c"/proc/self/setgroups", b"deny")?;
    let line = |(inside, outside): (u32, u32)| MapLine::new(inside, outside);
    put(c"/proc/self/uid_map", line(maps.uid).text())?;
    put(c"/proc/self/gid_map", line(maps.gid).text())
}

fn put(path: &CStr, bytes: &[u8]) -> Result<(), Errno> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, bytes).map(drop)
}

/// Line of a map, `INSIDE OUTSIDE 1`, without allocation.
pub(crate) struct MapLine {
    bytes: [u8; 24],
    start: usize,
}

impl MapLine {
    pub(crate) fn new(inside: u32, outside: u32) -> Self {
        let mut line = Self {
            bytes: [b' '; 24],
            start: 24,
        };
        for number in [1, outside, inside] {
            line.prepend(number);
        }
        line.start += 1; // the blank before the first number
        line
    }

    fn prepend(&mut self, mut number: u32) {
        loop {
            self.start -= 1;
            self.bytes[self.start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.start -= 1;
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Calls unshare(2), for the namespaces that the clone does not make.
pub(crate) fn unshare(flags: u32) -> Result<(), Errno> {
    // SAFETY: `flags` are namespaces only, never `CLONE_FILES` or the like; they do not touch the descriptor table.
    match unsafe { libc::syscall(libc::SYS_unshare, flags) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Brings the interface `lo` up, as every container expects it.
pub(crate) fn loopback_up() -> Result<(), Errno> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which `request` is, and writes nothing.
    let request = unsafe { Setter::<{ libc::SIOCSIFFLAGS as u32 }, _>::new(request) };
    // SAFETY: `request` is a setter for SIOCSIFFLAGS with the type that it takes, as just built.
    unsafe { ioctl(socket, request) }
}

/// Sets the file mode creation mask; cannot fail.
pub(crate) fn set_umask(mask: u32) -> Result<(), Errno> {
    rustix::process::umask(Mode::from_raw_mode(mask));
    Ok(())
}

/// Takes ids of the user namespace and keeps the capabilities.
pub(crate) fn set_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::thread::set_keep_capabilities(true)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    // Ids other than root's clear the effective set; the permitted set still has the capabilities.
    let sets = rustix::thread::capabilities(None)?;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: sets.permitted,
            ..sets
        },
    )?;
    rustix::thread::set_keep_capabilities(false)
}

/// Becomes root of the user namespace; other processes of the caller's can look into this one as before.
pub(crate) fn become_root() -> Result<(), Errno> {
    set_ids(0, 0)?;
    crate::prctl::set_dumpable(true)
}

/// Gives a directory without entries to this process's ids.
pub(crate) fn own_empty(path: &CStr) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(&dir, &mut buffer);
    while let Some(entry) = entries.next() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(());
        }
    }
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    rustix::fs::fchown(&dir, Some(uid), Some(gid))
}

/// Takes on ids, capabilities and filter, in the only order that the kernel allows.
pub(crate) fn set(privilege: &Privilege, channel: BorrowedFd<'_>) -> Result<(), Errno> {
    if let Some(credentials) = &privilege.credentials {
        give_pipes(credentials.uid);
    }
    if let Some(capabilities) = &privilege.capabilities {
        limit_bounding(capabilities.bounding)?;
    }
    let load = || match &privilege.filter {
        Some((filter, flags)) => match seccomp::load(filter, *flags)? {
            // From here on each filtered call waits for the listener's owner to answer: sendmsg(2) must not be one of
            // them.
            Some(listener) => crate::console::send(channel, b'S', &listener).map(|()| {
                // Closing the listener is a system call as well; exec closes it.
                std::mem::forget(listener);
            }),
            None => Ok(()),
        },
        None => Ok(()),
    };
    if !privilege.no_new_privs {
        load()?;
    }
    if let Some(credentials) = &privilege.credentials {
        rustix::thread::set_keep_capabilities(true)?;
        change_ids(credentials)?;
    }
    if let Some(capabilities) = &privilege.capabilities {
        set_capabilities(capabilities)?;
    }
    rustix::thread::set_keep_capabilities(false)?;
    if privilege.no_new_privs {
        rustix::thread::set_no_new_privs(true)?;
        load()?;
    }
    Ok(())
}

/// Gives pipes that are the program's standard streams to its user, who could not open `/dev/stdout` otherwise, as
/// images do that log there. The host does not miss a pipe by its name; devices, terminals and files keep their
/// owners, since callers of other runtimes found their /dev/null given away.
fn give_pipes(uid: u32) {
    if uid == 0 {
        return;
    }
    let uid = Uid::from_raw(uid);
    for stream in [
        rustix::stdio::stdin(),
        rustix::stdio::stdout(),
        rustix::stdio::stderr(),
    ] {
        // If the pipe may not be given away, the program still has its descriptor.
        if rustix::fs::fstatfs(stream).is_ok_and(|of| of.f_type == PIPEFS) {
            best_effort(rustix::fs::fchown(stream, Some(uid), None));
        }
    }
}

/// `PIPEFS_MAGIC` of linux/magic.h.
const PIPEFS: rustix::fs::FsWord = 0x5049_5045;

pub(crate) fn limit_bounding(keep: u64) -> Result<(), Errno> {
    for capability in (0..CAPABILITIES).filter(|capability| keep & (1 << capability) == 0) {
        match prctl(libc::PR_CAPBSET_DROP, capability.into(), 0) {
            Err(Errno::INVAL) => break, // past the last capability that this kernel knows
            other => other?,
        };
    }
    Ok(())
}

/// Gives up all capabilities, for good. Ids stay: a change of these would take back what [`crate::die_with_parent`] asked for.
///
/// # Errors
/// Those of prctl(2) and capset(2).
pub fn renounce() -> Result<(), Errno> {
    limit_bounding(0)?;
    set_capabilities(&Capabilities::default())
}

fn change_ids(credentials: &Credentials) -> Result<(), Errno> {
    if let Some(groups) = &credentials.groups {
        // SAFETY: the kernel reads `groups.len()` 32-bit ids from the slice.
        let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
        if result != 0 {
            return Err(errno());
        }
    }
    let (uid, gid) = (Uid::from_raw(credentials.uid), Gid::from_raw(credentials.gid));
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}

fn set_capabilities(sets: &Capabilities) -> Result<(), Errno> {
    let set = CapabilitySet::from_bits_retain;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: set(sets.effective),
            permitted: set(sets.permitted),
            inheritable: set(sets.inheritable),
        },
    )?;
    prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as u64, 0)?;
    for capability in (0..CAPABILITIES).filter(|capability| sets.ambient & (1 << capability) != 0) {
        prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_RAISE as u64,
            capability.into(),
        )?;
    }
    Ok(())
}

/// Executes the program, the brought one if there is one; returns only on failure, with the reason.
pub(crate) fn exec(exec: &Exec, registers: &mut Registers<'_>) -> Errno {
    let Registers { brought, text, .. } = registers;
    match brought {
        None => {
            let Program { argv, envp, .. } = &exec.program;
            if let Some(file) = &exec.file {
                let (flags, none) = (libc::AT_EMPTY_PATH, c"".as_ptr());
                // SAFETY: the arrays are null-terminated and point into strings that `Program` owns; on success this
                // memory is gone together with the process image that borrowed it.
                unsafe {
                    libc::syscall(
                        libc::SYS_execveat,
                        file.as_raw_fd(),
                        none,
                        argv.as_ptr(),
                        envp.as_ptr(),
                        flags,
                    )
                };
                return errno();
            }
            let candidates = exec.candidates.iter().map(AsRef::as_ref);
            try_each(candidates, (argv.as_ptr(), envp.as_ptr()), exec.never, text)
        }
        Some(brought) => {
            let arrays = (brought.argv, brought.envp);
            try_each(brought.candidates(), arrays, exec.never, text)
        }
    }
}

/// Calls execve(2) for the candidates as execvp(3) does.
fn try_each<'a>(
    candidates: impl Iterator<Item = &'a CStr>,
    (argv, envp): (*const *const libc::c_char, *const *const libc::c_char),
    never: Option<(u64, u64)>,
    text: &mut Text,
) -> Errno {
    let mut reason = Errno::NOENT;
    let mut looks = false;
    for candidate in candidates {
        // An execve(2) that finds nothing has made a memory map for it. The call is one that has been made, if there is a filter of calls.
        if looks && is_missing(candidate) {
            continue;
        }
        if let Some(never) = never {
            match leads_to(candidate, never) {
                Ok(true) => {
                    text.set(b"this is the container engine itself");
                    return Errno::ACCESS;
                }
                // Most directories of a PATH do not have the program.
                Err(Errno::NOENT) => continue,
                Ok(false) | Err(_) => {}
            }
        }
        // SAFETY: the arrays are null-terminated and point into strings that `Program` owns, or that lie in a mapping
        // which stays; on success this memory is gone together with the process image that borrowed it.
        unsafe { libc::execve(candidate.as_ptr(), argv, envp) };
        match errno() {
            Errno::NOENT if is_there(candidate) => {
                read_interpreter(candidate, text);
                return Errno::NOENT;
            }
            Errno::NOENT => looks = true,
            Errno::NOTDIR => {}
            Errno::ACCESS => reason = Errno::ACCESS,
            other => return other,
        }
    }
    reason
}

fn is_there(path: &CStr) -> bool {
    // absence: an explanation of the error of execve(2), which is shown without it
    rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::TYPE).is_ok()
}

fn is_missing(path: &CStr) -> bool {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::TYPE);
    matches!(found, Err(Errno::NOENT | Errno::NOTDIR))
}

/// True if a program is that file, or a chain of `#!` lines ends at it (the kernel follows at most five). An error if
/// the program itself cannot be opened.
fn leads_to(path: &CStr, (device, inode): (u64, u64)) -> Result<bool, Errno> {
    let mut bytes = [0u8; 256];
    let mut name = [0u8; 256];
    let mut opened = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    for _ in 0..6 {
        match rustix::fs::fstat(&opened) {
            Ok(stat) if (stat.st_dev, stat.st_ino) == (device, inode) => return Ok(true),
            Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => {}
            _ => return Ok(false),
        }
        let Some(length) = read_start(&opened, &mut bytes) else {
            return Ok(false);
        };
        let Some(interpreter) = shebang(&bytes[..length]) else {
            return Ok(false);
        };
        name[..interpreter.len()].copy_from_slice(interpreter);
        name[interpreter.len()] = 0;
        let Ok(interpreter) = CStr::from_bytes_with_nul(&name[..=interpreter.len()]) else {
            return Ok(false);
        };
        match rustix::fs::open(interpreter, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(next) => opened = next,
            Err(_) => return Ok(false),
        }
    }
    Ok(false)
}

/// Reads the first bytes of a file that is held by O_PATH.
fn read_start(held: &OwnedFd, bytes: &mut [u8]) -> Option<usize> {
    // The path is the process's own number below /proc/self/fd: the procfs is the container's, and only this process
    // is looked up in it.
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let line = MapLine::new(held.as_raw_fd() as u32, 0);
    let digits = line.text().split(|&byte| byte == b' ').next()?;
    path[14..14 + digits.len()].copy_from_slice(digits);
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    // absence: an explanation of execve's error, which is shown without it
    let file = rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
        Mode::empty(),
    )
    .ok()?;
    rustix::io::read(&file, bytes).ok()
}

/// Returns the interpreter of a `#!` line, at most 254 bytes of it.
fn shebang(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(b"#!")?;
    let start = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
    let rest = &rest[start..];
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0))
        .unwrap_or(rest.len());
    Some(&rest[..end.min(254)])
}

/// Notes the interpreter of an executable as the error's text: the interpreter is missing if the file exists and exec
/// fails with ENOENT.
#[inline(never)]
fn read_interpreter(path: &CStr, text: &mut Text) {
    let mut bytes = [0u8; 2048];
    // absence: an explanation of execve's error, which is shown without it
    let Ok(file) = rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
        Mode::empty(),
    ) else {
        return;
    };
    let length = rustix::io::read(&file, &mut bytes).unwrap_or(0);
    let bytes = &bytes[..length];
    if let Some(interpreter) = shebang(bytes).or_else(|| elf_interpreter(bytes)) {
        text.set(interpreter);
    }
}

/// Returns PT_INTERP of a little-endian 64-bit ELF file whose headers and interpreter are within these bytes, as they
/// nearly always are.
fn elf_interpreter(bytes: &[u8]) -> Option<&[u8]> {
    let number = |at: usize, size: usize| -> Option<usize> {
        let mut value = [0u8; 8];
        value[..size].copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
        usize::try_from(u64::from_le_bytes(value)).ok()
    };
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, entry, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for index in 0..count.min(64) {
        let header = table.checked_add(index.checked_mul(entry)?)?;
        if number(header, 4)? == 3 {
            let (start, size) = (
                number(header.checked_add(8)?, 8)?,
                number(header.checked_add(32)?, 8)?,
            );
            return bytes.get(start..start.checked_add(size)?);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_lines() {
        assert_eq!(MapLine::new(0, 1000).text(), b"0 1000 1");
        assert_eq!(
            MapLine::new(u32::MAX, u32::MAX).text(),
            b"4294967295 4294967295 1"
        );
    }

    #[test]
    fn shebangs() {
        for (line, interpreter) in [
            (&b"#!/bin/sh\n"[..], Some(&b"/bin/sh"[..])),
            (b"#! \t/usr/bin/env -S x\n", Some(b"/usr/bin/env")),
            (b"#!/x", Some(b"/x")),
            (b"#!", None),
            (b"\x7fELF", None),
            (b"", None),
        ] {
            assert_eq!(shebang(line), interpreter, "{line:?}");
        }
    }

    #[test]
    fn hostile_elf_headers_do_not_panic() {
        let mut bytes = [0xffu8; 200];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(elf_interpreter(&bytes), None);
        for length in 0..bytes.len() {
            assert_eq!(elf_interpreter(&bytes[..length]), None);
        }
    }
}
