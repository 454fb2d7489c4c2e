//! Namespaces that take more than one call to make.

use crate::clone3::{CloneArgs, clone};
use crate::identity::unshare;
use crate::outcome::{best_effort, exit};
use crate::{Errno, prctl};
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

/// Makes a new time namespace for the program that this process executes.
///
/// clone3(2) could make one as well, but the clocks are fixed as soon as a process is inside, as the child would be.
/// After unshare(2), only execve(2) or a fork enters the namespace.
pub(crate) fn new_time(offsets: &[u8]) -> Result<(), Errno> {
    unshare(libc::CLONE_NEWTIME as u32)?;
    if offsets.is_empty() {
        return Ok(());
    }
    let file = rustix::fs::open(
        c"/proc/self/timens_offsets",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    rustix::io::write(file, offsets).map(drop)
}

/// Gives this process mounts of its own: no other process sees what it mounts from now on, and its mounts go when it
/// ends.
///
/// # Errors
/// unshare(2)'s.
pub fn own_mounts() -> Result<(), Errno> {
    unshare(libc::CLONE_NEWNS as u32)
}

/// User namespace without maps. A process outside that has the right to do so must write them, so a process waits in
/// the namespace until they are written; that process ends when this value is dropped.
#[derive(Debug)]
pub struct NewUserNamespace {
    pid: u32,
    pidfd: OwnedFd,
}

impl NewUserNamespace {
    /// Makes the namespace, and the process that waits in it.
    ///
    /// # Errors
    /// clone3(2)'s.
    pub fn make() -> Result<Self, Errno> {
        let mut pidfd: i32 = -1;
        let args = CloneArgs {
            flags: libc::CLONE_NEWUSER as u64 | libc::CLONE_PIDFD as u64,
            pidfd: (&raw mut pidfd) as u64,
            exit_signal: libc::SIGCHLD as u64,
            ..CloneArgs::default()
        };
        let pid = clone(&args, stay)?;
        // SAFETY: the kernel has stored a new descriptor there, owned by this process, as CLONE_PIDFD says.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        Ok(Self { pid, pidfd })
    }

    /// Returns the pid of the process whose maps are to be written.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Opens the namespace itself, which lives as long as the descriptor.
    ///
    /// # Errors
    /// open(2)'s.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::open(format!("/proc/{}/ns/user", self.pid), flags, Mode::empty())
    }
}

impl Drop for NewUserNamespace {
    fn drop(&mut self) {
        // The process only waits, so it is still there, and nothing else reaps it.
        best_effort(rustix::process::pidfd_send_signal(
            &self.pidfd,
            rustix::process::Signal::KILL,
        ));
        let wait = crate::Wait::ending();
        best_effort(wait.reap(rustix::fd::AsFd::as_fd(&self.pidfd)));
    }
}

/// Makes a user namespace with these maps, as `/proc/PID/uid_map` and `gid_map` have them.
///
/// # Errors
/// clone3(2)'s, and write(2)'s on the maps: `EPERM` for ids that the caller may not map, `EINVAL` for lines that overlap.
pub fn user_namespace_of(uid_map: &str, gid_map: &str) -> Result<OwnedFd, Errno> {
    let made = NewUserNamespace::make()?;
    map(made.pid, uid_map, gid_map)?;
    made.open()
}

fn map(pid: u32, uid_map: &str, gid_map: &str) -> Result<(), Errno> {
    for (file, map) in [("uid_map", uid_map), ("gid_map", gid_map)] {
        let file = rustix::fs::open(
            format!("/proc/{pid}/{file}"),
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::write(file, map.as_bytes())?;
    }
    Ok(())
}

/// Waits, as the process that holds the namespace open.
fn stay() {
    if prctl::die_with_parent().is_err() {
        exit(1);
    }
    loop {
        // SAFETY: pause takes no arguments and touches no memory.
        unsafe { libc::pause() };
    }
}
