//! Writes to the container's procfs, through a mount of it that no other process can reach.

use crate::lookup::openat2;
use crate::registers::Registers;
use crate::{Errno, root};
use rustix::fd::AsFd as _;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::ffi::CStr;

/// Keeps the host's procfs open for later writes below `self`.
pub(crate) fn hold_proc(registers: &mut Registers<'_>) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    registers.own_proc = Some(rustix::fs::open(c"/proc", flags, Mode::empty())?);
    Ok(())
}

/// Writes below the container's procfs, in one write(2) as its files require.
pub(crate) fn write_proc(registers: &Registers<'_>, path: &CStr, value: &[u8]) -> Result<(), Errno> {
    let looked_up;
    let own = registers.own_proc.as_ref();
    let own = own.filter(|_| path.to_bytes().starts_with(b"self/"));
    let proc = if let Some(proc) = own.or(registers.proc.as_ref()) {
        proc
    } else {
        looked_up = root::open(registers.root()?, c"proc", true)?;
        &looked_up
    };
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let file = openat2(proc, path, flags, Mode::empty(), resolve)?;
    // A write to another file system is refused: a write meant for procfs must land in procfs (CVE-2025-52881).
    if rustix::fs::fstatfs(&file)?.f_type != rustix::fs::PROC_SUPER_MAGIC {
        return Err(Errno::XDEV);
    }
    root::write_all(file.as_fd(), value)
}
