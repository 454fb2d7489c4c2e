//! Child programs that end together with this process, and whose files get the usual modes.

use crate::Errno;
use crate::notification::CallListener;
use crate::prctl::die_with_parent;
use crate::seccomp::{NEW_LISTENER, SockFilter, load};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// Starts a program that gets SIGKILL when the calling thread ends, and that creates files with the umask 022,
/// whatever the caller's umask is.
///
/// # Errors
/// Those of fork(2) and execve(2).
pub fn spawn_mortal(command: &mut Command) -> std::io::Result<Child> {
    let before_exec = || {
        rustix::process::umask(Mode::WGRP | Mode::WOTH);
        Ok(die_with_parent()?)
    };
    // SAFETY: between fork(2) and execve(2) the closure makes two system calls, umask(2) and prctl(2). It allocates
    // nothing, takes no lock and cannot panic; an error is a number.
    unsafe { command.pre_exec(before_exec) };
    command.spawn()
}

/// Does so for a program of whose calls this filter reports some: they wait for the listener, without which they fail with `ENOSYS`. Privileges by
/// way of execve(2) must have been given up (no_new_privs).
///
/// # Errors
/// Those of fork(2), execve(2) and seccomp(2).
pub fn spawn_reporting(
    command: &mut Command,
    filter: &'static [SockFilter],
) -> std::io::Result<(Child, CallListener)> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let report = move || {
        // From here on a call of the filter's would wait: sendmsg(2) must not be one of them.
        let listener = load(filter, NEW_LISTENER)?.ok_or(Errno::INVAL)?;
        Ok(pass(theirs.as_fd(), listener.as_fd())?)
    };
    // SAFETY: between fork(2) and execve(2) the closure makes two system calls, seccomp(2) and sendmsg(2), and closes a descriptor.
    // It allocates nothing, takes no lock and cannot panic; an error is a number.
    unsafe { command.pre_exec(report) };
    let child = spawn_mortal(command)?;
    Ok((child, CallListener::new(take(&ours)?)))
}

/// Number of this machine's system call interface, `AUDIT_ARCH_…`.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

const fn instruction(code: u16, jf: u8, k: u32) -> SockFilter {
    SockFilter { code, jt: 0, jf, k }
}

/// Filter that reports each openat(2) that is to read and write, without another flag: no program of Rust's does that, but QEMU does so for files
/// that are memory.
pub static OPEN_FOR_BOTH: [SockFilter; 8] = [
    instruction(0x20, 0, 4),
    instruction(0x15, 5, ARCH),
    instruction(0x20, 0, 0),
    instruction(0x15, 3, libc::SYS_openat as u32),
    instruction(0x20, 0, 32),
    instruction(0x15, 1, libc::O_RDWR as u32),
    instruction(0x06, 0, libc::SECCOMP_RET_USER_NOTIF),
    instruction(0x06, 0, libc::SECCOMP_RET_ALLOW),
];

fn pass(socket: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::INVAL);
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(b"l")], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Takes the descriptor of a program that has been executed, so that it has sent it.
fn take(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.ok_or(Errno::BADF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::FromRawFd as _;
    use std::fs::File;
    use std::process::Stdio;

    /// Variable by which the test knows that it is the program that it starts.
    const INNER: &str = "TOTE_OPENS";

    #[test]
    fn a_program_opens_another_file_than_it_names() {
        if std::env::var_os(INNER).is_some() {
            // SAFETY: the path ends with a zero, and the call has no other argument.
            let fd = unsafe { libc::open(c"/nonexistent".as_ptr(), libc::O_RDWR) };
            assert!(fd >= 0);
            // SAFETY: nothing else owns the descriptor that has come just now.
            let file = unsafe { OwnedFd::from_raw_fd(fd) };
            let mut text = [0; 9];
            rustix::io::read(&file, &mut text).unwrap();
            assert_eq!(text, *b"the other");
            return;
        }
        // In a thread of its own: seccomp(2) wants no_new_privs, which would stay with the other tests.
        let thread = std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("other");
            std::fs::write(&path, "the other").unwrap();
            #[expect(clippy::disallowed_methods, reason = "a test's program")]
            let mut command = Command::new(std::env::current_exe().unwrap());
            let name = "mortal::tests::a_program_opens_another_file_than_it_names";
            command
                .args(["--exact", name])
                .env(INNER, "")
                .stdout(Stdio::null());
            let (mut child, listener) = spawn_reporting(&mut command, &OPEN_FOR_BOTH).unwrap();
            let mut given = 0;
            while let Some(call) = listener.next().unwrap() {
                let mut text = [0; 13];
                crate::read_memory(call.thread, call.arguments[1], &mut text).unwrap();
                if text == *b"/nonexistent\0" {
                    given += 1;
                    let file = File::open(&path).unwrap();
                    listener.answer_with(&call, file.as_fd()).unwrap();
                } else {
                    listener.let_through(&call).unwrap();
                }
            }
            assert!(crate::await_program(&mut child).unwrap().success());
            assert_eq!(given, 1);
        });
        thread.join().unwrap();
    }
}
