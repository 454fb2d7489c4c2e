//! A user namespace that exists only for its maps, as id-mapped mounts want one.

use crate::Errno;
use crate::birth::{CloneArgs, errno};
use crate::child::exit;
use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::{WaitId, WaitIdOptions};

/// Makes a user namespace with these maps (as `/proc/PID/uid_map` takes them) and gives a descriptor of it.
///
/// The process that holds it open for the moment in which the maps are written shares nothing and does nothing.
///
/// # Errors
/// clone3(2)'s, and write(2)'s on the maps.
pub fn with_mapping(uid_map: &str, gid_map: &str) -> Result<OwnedFd, Errno> {
    let mut pidfd: i32 = -1;
    let args = CloneArgs {
        flags: (libc::CLONE_NEWUSER | libc::CLONE_PIDFD) as u64,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    // SAFETY: as in `birth`; the child only waits to be killed.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    match pid {
        -1 => return Err(errno()),
        0 => loop {
            if crate::die_with_parent().is_err() {
                exit(1);
            }
            // SAFETY: pause has no requirement.
            unsafe { libc::pause() };
        },
        _ => {}
    }
    // SAFETY: the kernel put a new descriptor of ours there, as CLONE_PIDFD says.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let namespace = map(pid, uid_map, gid_map);
    rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL)?;
    rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)?;
    namespace
}

fn map(pid: i64, uid_map: &str, gid_map: &str) -> Result<OwnedFd, Errno> {
    for (file, map) in [("uid_map", uid_map), ("gid_map", gid_map)] {
        let file = rustix::fs::open(
            format!("/proc/{pid}/{file}"),
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::write(file, map.as_bytes())?;
    }
    rustix::fs::open(
        format!("/proc/{pid}/ns/user"),
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}
