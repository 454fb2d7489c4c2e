//! A process that is born into an existing container.

use crate::outcome::best_effort;
use crate::outcome::errno;
use crate::registers::Registers;
use crate::{Errno, console, prctl, root};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

/// Joins the namespaces of another process, all in one call, and takes its root.
#[derive(Debug)]
pub struct JoinProcess {
    /// Pidfd of a process of the container.
    pub pidfd: OwnedFd,
    /// `CLONE_NEW…` bits.
    pub namespaces: u32,
    /// Root to take where it differs from the root of the mount namespace.
    pub root: Option<OwnedFd>,
}

/// Joins the namespaces, as the child: it still runs the runtime's executable, but inside a container that belongs to
/// other users.
pub(crate) fn join(how: &JoinProcess, registers: &mut Registers<'_>) -> Result<(), Errno> {
    if how.namespaces & libc::CLONE_NEWPID as u32 == 0 {
        // Without a new PID namespace in between, processes of the container must neither trace this one nor open its
        // executable or descriptors (CVE-2016-9962, CVE-2019-5736).
        prctl::set_dumpable(false)?;
    }
    // setns(2) refuses to join nothing; a process of the host may share all namespaces.
    if how.namespaces != 0 {
        set_namespaces(how.pidfd.as_fd(), how.namespaces)?;
    }
    if let Some(root) = &how.root {
        rustix::process::fchdir(root)?;
        rustix::process::chroot(c".")?;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    registers.root = Some(rustix::fs::open(c"/", flags, Mode::empty())?);
    Ok(())
}

/// Namespace, with the kind that it has to be.
#[derive(Debug)]
pub struct Namespace {
    /// Kind as one `CLONE_NEW…` bit. Never 0, with which setns(2) accepts any kind: a process that joined the host's
    /// mounts in place of another's host name would do everything that follows there.
    pub kind: u32,
    /// Descriptor of the namespace.
    pub fd: OwnedFd,
}

impl Namespace {
    /// Joins it by setns(2). A PID namespace takes effect for children, every other kind for this thread.
    ///
    /// # Errors
    /// setns(2)'s: `EINVAL` if the descriptor is of another kind.
    pub fn join(&self) -> Result<(), Errno> {
        if self.kind == 0 {
            return Err(Errno::INVAL);
        }
        set_namespaces(self.fd.as_fd(), self.kind)
    }
}

/// Returns the kind of namespace that a descriptor is of, as `CLONE_NEW…`, wherever it is bound (ioctl_nsfs(2)).
///
/// # Errors
/// `EINVAL` if it is not a namespace.
pub fn namespace_kind(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    // Another file system might understand that number as a request of its own.
    if rustix::fs::fstatfs(fd)?.f_type != NSFS {
        return Err(Errno::INVAL);
    }
    // SAFETY: NS_GET_NSTYPE takes no argument.
    let kind = unsafe { libc::ioctl(fd.as_raw_fd(), NS_GET_NSTYPE) };
    u32::try_from(kind).map_err(|_| errno())
}

/// `NSFS_MAGIC` of linux/magic.h.
const NSFS: rustix::fs::FsWord = 0x6e73_6673;

/// `_IO(0xb7, 0x3)` of linux/nsfs.h.
const NS_GET_NSTYPE: libc::Ioctl = 0xb703;

/// Calls setns(2) with a pidfd, or with the descriptor of a namespace of the one kind given. A PID namespace takes
/// effect for children, every other kind for this thread.
///
/// # Errors
/// setns(2)'s.
pub fn set_namespaces(fd: BorrowedFd<'_>, namespaces: u32) -> Result<(), Errno> {
    // SAFETY: setns takes two numbers; no other thread of this process shares the state that it changes.
    match unsafe { libc::syscall(libc::SYS_setns, fd.as_raw_fd(), namespaces) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Makes a pseudo-terminal in the container's devpts for a process that joined it, and sends the master to the parent.
pub(crate) fn terminal(how: console::How, registers: &mut Registers<'_>) -> Result<(), Errno> {
    let found = root::open(registers.root()?, c"dev/pts", false)
        .and_then(|devpts| console::make(devpts.as_fd(), c"ptmx", how));
    let (master, slave) = match found {
        Err(Errno::NOENT) => console::make(registers.root()?, c"dev/ptmx", how)?,
        other => other?,
    };
    console::send(registers.channel, b'C', &master)?;
    registers.terminal = Some(slave);
    // The directory is a convenience for ps(1) and who(1) only: the root is not needed any more.
    best_effort(rustix::process::chdir(c"/"));
    Ok(())
}
