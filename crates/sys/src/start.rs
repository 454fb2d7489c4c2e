//! Gate between `create` and `start` of a container whose creator may have ended meanwhile.
//!
//! The new process holds a listening socket that is bound in the container's state directory, and waits in accept(2).
//! The command that starts the container connects and has a conversation with it, in which failures up to and
//! including execve(2) are reported. The kernel keeps the true state: a connection is refused once the process has
//! gone on or has ended, and a connection attempt with another socket type finds out without starting anything. After
//! a crash only a name remains to be removed.

use crate::event::{Event, receive};
use crate::outcome::best_effort;
use crate::registers::Registers;
use crate::socket::{accept, address, socket, tell_ready};
use crate::wait::Wait;
use crate::{Errno, Exec, Op};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, FileType, StatxFlags};
use rustix::net::SocketType;
use std::ffi::CStr;
use std::time::Duration;

/// Time in which a process that waits for its start takes a connection: more than one command waits for it only when the process is held up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Wait for the command that starts the container.
#[derive(Debug)]
pub struct AwaitStart {
    /// Bound and listening socket, made by [`start_gate`].
    pub listener: OwnedFd,
}

/// Makes the gate: a socket of this name in the directory.
///
/// # Errors
/// bind(2)'s; `EADDRINUSE` if the name exists.
pub fn start_gate(dir: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let listener = socket(SocketType::SEQPACKET)?;
    rustix::net::bind(&listener, &address(dir, name)?)?;
    rustix::net::listen(&listener, 1)?;
    Ok(listener)
}

/// True if a process waits behind the gate.
///
/// # Errors
/// connect(2)'s, except those that answer the question.
pub fn waits_for_start(dir: BorrowedFd<'_>, name: &str) -> Result<bool, Errno> {
    // unix(7): connect(2) fails with EPROTOTYPE for a live socket of another type, with ECONNREFUSED if only its name
    // is left.
    match Wait::within(PATIENCE).connect(socket(SocketType::DGRAM)?, &address(dir, name)?) {
        Err(Errno::PROTOTYPE) => Ok(true),
        Err(Errno::CONNREFUSED | Errno::NOENT) | Ok(()) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The starting side of the conversation.
#[derive(Debug)]
pub struct Starting(OwnedFd);

impl Starting {
    /// Opens the gate.
    ///
    /// # Errors
    /// `ECONNREFUSED` if no process waits behind it.
    pub fn open(dir: BorrowedFd<'_>, name: &str) -> Result<Self, Errno> {
        let socket = socket(SocketType::SEQPACKET)?;
        Wait::within(PATIENCE).connect(&socket, &address(dir, name)?)?;
        Ok(Self(socket))
    }

    /// Waits for the next message of the process: first [`Event::Ready`], then the outcome of its start.
    /// [`Event::Exec`] without `Ready` before it is the end of a process that never noticed the connection.
    ///
    /// # Errors
    /// Those of [`crate::Child::event`].
    pub fn event(&self) -> Result<Event, Errno> {
        receive(self.0.as_fd())
    }
}

/// Waits in the child, which has nothing left to do but to become the program, and nothing that the program lacks: from here
/// on processes in the container may look into this one. The calls made here are those of `WAIT` in `sandbox`.
pub(crate) fn wait(how: &AwaitStart, registers: &mut Registers<'_>) -> Result<(), Errno> {
    // A change of ids has reset the flag to what the sysctl `fs.suid_dumpable` says.
    best_effort(crate::prctl::set_dumpable(false));
    tell_ready(registers.channel)?;
    let conversation = accept(&how.listener)?;
    // SAFETY: this closes the listener, whose owner is never dropped: this process ends by execve or _exit. From here
    // on a second start is refused.
    unsafe { rustix::io::close(how.listener.as_raw_fd()) };
    // A starter that has closed its end needs no message.
    best_effort(tell_ready(conversation.as_fd()));
    registers.conversation = Some(conversation);
    Ok(())
}

/// Looks for the program as execvp(3) does, without executing it. No descriptor of the host is open any more through which a
/// path of the image could lead.
pub(crate) fn find_program(rest: &[Op]) -> Result<(), Errno> {
    match rest.last() {
        Some(Op::Exec(exec)) => find(exec),
        _ => Err(Errno::INVAL),
    }
}

fn find(exec: &Exec) -> Result<(), Errno> {
    let mut reason = Errno::NOENT;
    for candidate in &exec.candidates {
        match executable(candidate) {
            Ok(()) => return Ok(()),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => reason = errno,
        }
    }
    Err(reason)
}

fn executable(path: &CStr) -> Result<(), Errno> {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::TYPE)?;
    if FileType::from_raw_mode(found.stx_mode.into()) != FileType::RegularFile {
        return Err(Errno::ACCESS);
    }
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};

    fn open(path: &std::path::Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    #[test]
    fn the_gate_tells_whether_somebody_waits() {
        let dir = tempfile::tempdir().unwrap();
        let fd = open(dir.path());
        assert!(!waits_for_start(fd.as_fd(), "start").unwrap(), "no gate");
        let gate = start_gate(fd.as_fd(), "start").unwrap();
        assert!(waits_for_start(fd.as_fd(), "start").unwrap(), "asked once");
        assert!(
            waits_for_start(fd.as_fd(), "start").unwrap(),
            "asking starts nothing"
        );
        assert_eq!(start_gate(fd.as_fd(), "start").unwrap_err(), Errno::ADDRINUSE);
        drop(gate);
        assert!(
            !waits_for_start(fd.as_fd(), "start").unwrap(),
            "only its name is left"
        );
        assert_eq!(
            Starting::open(fd.as_fd(), "start").unwrap_err(),
            Errno::CONNREFUSED
        );
    }

    #[test]
    fn a_starter_that_was_never_heard_sees_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let fd = open(dir.path());
        let gate = start_gate(fd.as_fd(), "start").unwrap();
        let starting = Starting::open(fd.as_fd(), "start").unwrap();
        drop(gate);
        assert!(matches!(starting.event(), Ok(Event::Exec)));
    }
}
