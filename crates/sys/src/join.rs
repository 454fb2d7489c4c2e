//! A process that is born into an existing container.

use crate::birth::errno;
use crate::child::{Registers, best_effort};
use crate::{Errno, console, prctl, root};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

/// Joins the namespaces of another process, all in one call, and takes its root.
#[derive(Debug)]
pub struct JoinProcess {
    /// The pidfd of a process of the container.
    pub pidfd: OwnedFd,
    /// `CLONE_NEW…` bits.
    pub namespaces: u32,
    /// The root to take where it is not that of the mount namespace, which others have as well.
    pub root: Option<OwnedFd>,
}

/// Child: still the runtime's executable, in a place where others are at home.
pub(crate) fn join(how: &JoinProcess, registers: &mut Registers<'_>) -> Result<(), Errno> {
    if how.namespaces & libc::CLONE_NEWPID as u32 == 0 {
        // Nothing is between: who is at home there must neither trace it nor open its executable or descriptors
        // (CVE-2016-9962, CVE-2019-5736).
        prctl::set_dumpable(false)?;
    }
    set_namespaces(how.pidfd.as_fd(), how.namespaces)?;
    if let Some(root) = &how.root {
        rustix::process::fchdir(root)?;
        rustix::process::chroot(c".")?;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    registers.root = Some(rustix::fs::open(c"/", flags, Mode::empty())?);
    Ok(())
}

/// A namespace, and what it must be one of.
#[derive(Debug)]
pub struct Namespace {
    /// `CLONE_NEW…`, one bit. Never 0, by which the kernel would take the descriptor for whatever it is: a process that
    /// joins the host's mounts instead of another's host name does everything that follows there.
    pub kind: u32,
    /// It, opened.
    pub fd: OwnedFd,
}

impl Namespace {
    /// setns(2). The PID namespace goes for children, everything else for this thread.
    ///
    /// # Errors
    /// setns(2)'s: `EINVAL` where the descriptor is of another kind.
    pub fn join(&self) -> Result<(), Errno> {
        if self.kind == 0 {
            return Err(Errno::INVAL);
        }
        set_namespaces(self.fd.as_fd(), self.kind)
    }
}

/// What a descriptor is a namespace of: `CLONE_NEW…`, wherever it is bound (ioctl_nsfs(2)).
///
/// # Errors
/// `EINVAL` where it is of no namespace.
pub fn namespace_kind(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    // Another file system's file might take that number for a request of its own.
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

/// setns(2) by pidfd, or by the descriptor of a namespace that is of the one kind given. The PID namespace goes for
/// children, everything else for this thread.
///
/// # Errors
/// setns(2)'s.
pub fn set_namespaces(fd: BorrowedFd<'_>, namespaces: u32) -> Result<(), Errno> {
    // SAFETY: setns takes two numbers; no descriptor table or memory is shared with another thread of this process.
    match unsafe { libc::syscall(libc::SYS_setns, fd.as_raw_fd(), namespaces) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Makes a pseudo-terminal in the container's devpts for a process that joined it, and sends the master away.
pub(crate) fn terminal(how: console::How, registers: &mut Registers<'_>) -> Result<(), Errno> {
    let found = root::open(registers.root()?, c"dev/pts", false)
        .and_then(|devpts| console::make(devpts.as_fd(), c"ptmx", how));
    let (master, slave) = match found {
        Err(Errno::NOENT) => console::make(registers.root()?, c"dev/ptmx", how)?,
        other => other?,
    };
    console::send(registers.channel, b'C', &master)?;
    registers.terminal = Some(slave);
    // Only a convenience of ps and who: the root is not needed any more.
    best_effort(rustix::process::chdir(c"/"));
    Ok(())
}
