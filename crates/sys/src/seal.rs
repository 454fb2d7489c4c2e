//! The process's own executable, out of a container's reach (CVE-2019-5736).
//!
//! A process that enters a container shows its executable there as `/proc/PID/exe`. A process that opens that gets
//! the very file that root runs next. So tote runs from a mount of the same file that is read-only and attached
//! nowhere, which no process can change: it moves there in place, by `remap`, or by executing itself once more. A
//! caller without the right to mount has that mount made in a user namespace; without user namespaces a sealed copy
//! in memory has to do.

use crate::executable::{OWN, read_only};
use crate::outcome::errno;
use crate::remap::Remap;
use crate::{Errno, Program};
use rustix::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::fs::{Access, AtFlags, MemfdFlags, Mode, OFlags, SealFlags, StatVfsMountFlags};
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::atomic::{AtomicI32, Ordering};

/// Mount that this process runs from, once [`seal`] has made one. Closing the last descriptor of a detached mount
/// waits for an RCU grace period, so that is put off until the process waits for another one anyway.
static MOUNT: AtomicI32 = AtomicI32::new(-1);

/// Lowest number for descriptors that must not collide with the caller's.
const HIGH: i32 = 256;

/// Closes the descriptor that [`seal`] keeps. Call it while another process is at work anyway.
pub fn settle_seal() {
    let mount = MOUNT.swap(-1, Ordering::Relaxed);
    if mount >= 0 {
        // SAFETY: `open_seal` stored an owned descriptor there, and only one caller of `swap` gets it.
        drop(unsafe { OwnedFd::from_raw_fd(mount) });
    }
}

/// True if no process can change this process's executable by way of the process, neither its bytes nor its mode.
///
/// An executable on a file system that happens to be mounted read-only does not count: an administrator who makes it
/// writable for an update does so for the processes that run from it, too.
#[must_use]
pub fn is_sealed() -> bool {
    is_apart() || in_sealed_memory()
}

/// True if the executable is seen through a read-only mount of it alone that is attached nowhere: only such a file
/// has the path `/`.
fn is_apart() -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    // absence: the program is sealed once more
    let read_only = rustix::fs::open(OWN, flags, Mode::empty())
        .and_then(rustix::fs::fstatvfs)
        .is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY));
    // absence: the program is sealed once more
    read_only && rustix::fs::readlink(OWN, Vec::new()).is_ok_and(|path| path.as_bytes() == b"/")
}

fn in_sealed_memory() -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    // absence: the program is sealed once more
    rustix::fs::open(OWN, flags, Mode::empty())
        .and_then(rustix::fs::fcntl_get_seals)
        .is_ok_and(|seals| seals.contains(SealFlags::WRITE))
}

/// True if this user may change the program's file, which a container of theirs could then do as well: root, the
/// file's owner, and users who may write to it.
///
/// # Errors
/// stat(2)'s.
pub fn may_change_executable() -> Result<bool, Errno> {
    let own = rustix::process::geteuid();
    let may = own.is_root()
        || rustix::fs::stat(OWN)?.st_uid == own.as_raw()
        || rustix::fs::accessat(rustix::fs::CWD, OWN, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    Ok(may)
}

/// Makes the mount that [`seal_in_place`] and [`Sealing`] need, and keeps it.
///
/// # Errors
/// open_tree(2)'s: `EPERM` if the caller may not mount.
pub fn open_seal() -> Result<(), Errno> {
    if MOUNT.load(Ordering::Relaxed) < 0 {
        let mount = mount_of_own()?;
        // The number must not be one that the caller has left free to hand it on (`--preserve-fds`).
        let mount = rustix::io::fcntl_dupfd_cloexec(&mount, HIGH).unwrap_or(mount);
        MOUNT.store(mount.into_raw_fd(), Ordering::Relaxed);
    }
    Ok(())
}

/// A new process of this program, sealed before its first operation. No other process may see it before: if its PID
/// namespace has other processes already, its parent has to be sealed.
#[derive(Debug)]
pub struct Sealing(Remap);

impl Sealing {
    /// Prepares the sealing of a process that this one is about to clone.
    ///
    /// # Errors
    /// Those of [`open_seal`], and open(2)'s.
    pub fn new() -> Result<Self, Errno> {
        open_seal()?;
        let name = format!("/proc/self/fd/{}", MOUNT.load(Ordering::Relaxed));
        let file = rustix::fs::open(name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Remap::new(file).map(Self)
    }

    /// Seals the child. Neither allocates nor locks.
    pub(crate) fn perform(&self) -> Result<(), Errno> {
        self.0.perform()
    }
}

/// Makes [`is_sealed`] true without another start of the program, which takes the rights of root. The process must
/// have one thread only.
///
/// # Errors
/// Those of [`Sealing::new`], and `EPERM`; the process goes on from where it was.
pub fn seal_in_place() -> Result<(), Errno> {
    Sealing::new()?.perform()
}

/// Makes [`is_sealed`] true. If that takes another start of the program, with the same arguments and environment,
/// this call does not return. The process must have one thread only.
///
/// # Errors
/// Reason why neither way worked.
pub fn seal() -> Result<(), Errno> {
    // `is_sealed` is true already in a process that was started anew for this.
    if seal_in_place().is_ok() || is_sealed() {
        return Ok(());
    }
    let elsewhere = |_| crate::errand::mount_of_own(&rustix::fs::readlink(OWN, Vec::new())?);
    Err(start_over(mount_of_own().or_else(elsewhere)))
}

/// Executes the program again; returns only on failure, with the reason.
fn start_over(mount: Result<OwnedFd, Errno>) -> Errno {
    let texts = |texts: &mut dyn Iterator<Item = std::ffi::OsString>| -> Option<Vec<CString>> {
        texts.map(|text| CString::new(text.into_vec()).ok()).collect()
    };
    let environment = std::env::vars_os().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        name
    });
    let (Some(args), Some(env)) = (
        texts(&mut crate::entry::arguments().into_iter()),
        texts(&mut { environment }),
    ) else {
        return Errno::INVAL;
    };
    let program = Program::new(args, env);
    match mount.or_else(|_| copy_of_own()) {
        Ok(executable) => execute(&executable, &program),
        Err(errno) => errno,
    }
}

/// Makes a detached, read-only mount of the executable alone.
fn mount_of_own() -> Result<OwnedFd, Errno> {
    read_only(OWN)
}

/// Copies the executable into memory and seals it against every change.
fn copy_of_own() -> Result<OwnedFd, Errno> {
    let own = rustix::fs::open(OWN, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let copy = rustix::fs::memfd_create(c"tote", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    while rustix::fs::sendfile(&copy, &own, None, usize::MAX >> 16)? > 0 {}
    rustix::fs::fchmod(&copy, Mode::from_raw_mode(0o555))?;
    rustix::fs::fcntl_add_seals(
        &copy,
        SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
    )?;
    // It is opened again by name, because a file that is open for writing cannot be executed.
    let name = format!("/proc/self/fd/{}", copy.as_raw_fd());
    rustix::fs::open(name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

fn execute(executable: &OwnedFd, program: &Program) -> Errno {
    // SAFETY: the arrays are null-terminated and point into strings that `Program` owns; on success this memory is gone
    // together with the process image that borrowed it.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            executable.as_raw_fd(),
            c"".as_ptr(),
            program.argv.as_ptr(),
            program.envp.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    errno()
}
