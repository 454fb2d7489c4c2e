//! A program that waits for a taker itself: what is brought to it runs where something is ready for it already, in a virtual machine for
//! example. The conversation is that of [`crate::Park`], and the program has the part of the parked process.

use crate::event::HEADER;
use crate::outcome::best_effort;
use crate::park::{ROOM, Received, peer_user, receive, receive_texts, room};
use crate::socket::{accept, tell_ready};
use crate::text::TEXT;
use crate::{Errno, Exec, console};
use rustix::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::SendFlags;
use std::ffi::CString;

/// Number of the descriptor of the socket at which such a program waits; the next one is its channel to the keeper. A process that begins
/// has none of its own with such a number.
pub const DOOR: i32 = 100;

/// Socket at which this program waits for its taker, and its channel to the keeper.
#[derive(Debug)]
pub struct Parked {
    listener: OwnedFd,
    channel: OwnedFd,
}

/// Program that a taker has brought, whose standard descriptors this process has now.
#[derive(Debug)]
pub struct Given {
    /// The program.
    pub exec: Exec,
    /// Directory to start in, if it is not the planned one.
    pub cwd: Option<CString>,
    /// Rows and columns of its terminal, if it has one.
    pub terminal: Option<(u16, u16)>,
    /// True if its input is not the null device.
    pub has_input: bool,
    /// The channel to the keeper, who takes its end for the begin of the program.
    pub channel: OwnedFd,
}

impl Parked {
    /// Takes over both descriptors, if [`crate::Op::Stdio`] has put them at [`DOOR`] before this program was executed. Call it once, at its
    /// beginning.
    #[must_use]
    pub fn own() -> Option<Self> {
        let own = |number: i32| {
            // SAFETY: the call takes a number, and changes nothing where no descriptor has that.
            if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
                return None;
            }
            // SAFETY: the descriptor came with the start of this program, so no other value owns it.
            Some(unsafe { OwnedFd::from_raw_fd(number) })
        };
        Some(Self {
            listener: own(DOOR)?,
            channel: own(DOOR + 1)?,
        })
    }

    /// Tells the keeper why the program will not wait.
    ///
    /// # Errors
    /// send(2)'s: the keeper has gone.
    pub fn failed(&self, reason: &str) -> Result<(), Errno> {
        let mut message = [0; HEADER + TEXT];
        message[0] = b'F';
        message[1..5].copy_from_slice(&u32::MAX.to_ne_bytes());
        message[5..HEADER].copy_from_slice(&Errno::IO.raw_os_error().to_ne_bytes());
        let length = reason.floor_char_boundary(TEXT);
        message[HEADER..HEADER + length].copy_from_slice(&reason.as_bytes()[..length]);
        let message = &message[..HEADER + length];
        rustix::net::send(&self.channel, message, SendFlags::NOSIGNAL).map(drop)
    }

    /// Tells the keeper that the program waits.
    ///
    /// # Errors
    /// send(2)'s: the keeper has gone.
    pub fn ready(&self) -> Result<(), Errno> {
        tell_ready(self.channel.as_fd())
    }

    /// Lets in the first taker that has connected, and none after it; `None` if the taker wants no program to run.
    ///
    /// # Errors
    /// `EPERM` for another user; `EPROTO` and `EPIPE` for what is not a letter; those of recvmsg(2).
    pub fn take(self) -> Result<Option<Given>, Errno> {
        let Self { listener, channel } = self;
        // The listener has the credentials of its maker, in terms of this user namespace.
        let own = peer_user(listener.as_fd())?;
        let connection = accept(&listener)?;
        drop(listener);
        if own != peer_user(connection.as_fd())? {
            return Err(Errno::PERM);
        }
        let room = room(ROOM)?;
        let Received { head, fds, length } = receive(&connection, room)?;
        if head[0] != b'P' {
            // A taker that has closed its end needs no message.
            best_effort(tell_ready(connection.as_fd()));
            return Ok(None);
        }
        let (cwd, brought) = receive_texts(&connection, &head, (room, length))?;
        console::send(channel.as_fd(), b'T', &connection)?;
        let half = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
        let terminal = (head[2] == 1).then(|| (half(4), half(6)));
        console::put_given(head[1], fds)?;
        if let Some(size) = terminal {
            open_terminal(size, connection.as_fd())?;
        }
        Ok(Some(Given {
            exec: brought.to_exec(),
            cwd: Some(cwd.to_owned()).filter(|cwd| !cwd.is_empty()),
            terminal,
            has_input: head[1] & 1 != 0 || terminal.is_some(),
            channel,
        }))
    }
}

impl AsFd for Parked {
    /// Returns the descriptor that is readable when a taker has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Makes a terminal, sends its master to the taker, and takes it for the session and its standard descriptors.
fn open_terminal(size: (u16, u16), taker: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let devpts = rustix::fs::open(c"/dev/pts", flags, Mode::empty())?;
    let (master, slave) = console::make(devpts.as_fd(), c"ptmx", (size, 0, false))?;
    console::send(taker, b'C', &master)?;
    console::take_slave(slave)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Letter, Program, Taking, start_gate};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap()
    }

    /// A program that waits, and what its keeper and its taker have.
    fn parked() -> (Parked, OwnedFd, Taking) {
        let dir = tempfile::tempdir().unwrap();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(dir.path(), flags, Mode::empty()).unwrap();
        let listener = start_gate(dir.as_fd(), "door").unwrap();
        let (ours, channel) = pair();
        let taking = Taking::open(dir.as_fd(), "door").unwrap();
        (Parked { listener, channel }, ours, taking)
    }

    #[test]
    fn a_program_is_brought_to_one_that_waits() {
        let (parked, keeper, taking) = parked();
        parked.ready().unwrap();
        assert!(matches!(crate::event::receive(keeper.as_fd()), Ok(Event::Ready)));
        let text = |text: &str| CString::new(text).unwrap();
        let exec = Exec {
            file: None,
            candidates: vec![text("/bin/a"), text("/usr/bin/a")],
            program: Program::new(vec![text("a"), text(""), text("c")], vec![text("A=b")]),
            never: None,
        };
        taking
            .bring(&Letter {
                exec: &exec,
                cwd: Some(c"/srv"),
                stdio: [None; 3],
                terminal: None,
            })
            .unwrap();
        let given = parked.take().unwrap().unwrap();
        assert!(matches!(
            crate::event::receive(keeper.as_fd()),
            Ok(Event::Taken(_))
        ));
        assert_eq!(given.exec.candidates, exec.candidates);
        assert_eq!(given.exec.program.args(), exec.program.args());
        assert_eq!(given.exec.program.env(), exec.program.env());
        assert_eq!(given.cwd, Some(text("/srv")));
        assert_eq!((given.terminal, given.has_input), (None, false));
        drop(given);
        assert!(
            matches!(crate::event::receive(keeper.as_fd()), Ok(Event::Exec)),
            "it runs"
        );
    }

    #[test]
    fn a_program_that_nobody_wants_ends() {
        let (parked, keeper, taking) = parked();
        taking.dismiss().unwrap();
        assert!(parked.take().unwrap().is_none());
        assert!(matches!(taking.event(), Ok(Event::Ready)), "it has heard it");
        assert!(matches!(crate::event::receive(keeper.as_fd()), Ok(Event::Exec)));
    }

    #[test]
    fn the_keeper_hears_why_it_does_not_wait() {
        let (parked, keeper, _taking) = parked();
        parked.failed(&"ä".repeat(200)).unwrap();
        let event = crate::event::receive(keeper.as_fd()).unwrap();
        let Event::Failed { op, text, .. } = event else {
            panic!("{event:?}")
        };
        assert_eq!((op, text), (Event::PROGRAM, "ä".repeat(TEXT / 2)));
    }
}
