//! Streams and signals of the container, as the attendant has them.

use crate::VmmError;
use crate::attend::BOOT;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::BorrowedFd;
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::os::unix::net::UnixListener;
use std::time::Duration;
use tote_channel::Stream;
use tote_sys::{Endless, Errno, SignalFd, SignalSet, Wait};

/// Bytes of which a pipe that is ready takes all, so that no write waits: `PIPE_BUF`.
const ATOMIC: usize = 4096;

/// Signals that are not for the container: those that no process can catch, and those that are about this process itself.
const OWN: [i32; 8] = [
    4,  // SIGILL
    7,  // SIGBUS
    8,  // SIGFPE
    9,  // SIGKILL
    11, // SIGSEGV
    13, // SIGPIPE
    17, // SIGCHLD
    19, // SIGSTOP
];

/// Signal by which the guest is told to kill the container: SIGSTKFLT, which no kernel sends. SIGKILL would end the machine, with
/// everything that the guest has not written to its disks yet.
pub const KILL_IN_GUEST: i32 = 16;

/// Number of SIGWINCH.
pub(crate) const RESIZED: i32 = 28;

/// Streams and signals of the container.
#[derive(Debug)]
pub struct Streams<'a> {
    /// Standard input.
    pub input: BorrowedFd<'a>,
    /// Standard output and standard error.
    pub outputs: [BorrowedFd<'a>; 2],
    /// Signals for the container.
    pub signals: SignalFd,
    /// True if the process in the guest gets no terminal, whatever its input here is.
    pub plain: bool,
    /// True if the process in the guest gets no input, which its plan says.
    pub mute: bool,
    /// Time in which the guest has to come up, and to begin what is asked of it.
    pub patience: Duration,
    /// Socket on which other commands come that have something to do in the container.
    pub visitors: Option<UnixListener>,
}

impl<'a> Streams<'a> {
    /// Takes the streams of this process and all of its signals, as the first process of a sandbox.
    ///
    /// # Errors
    /// [`VmmError::Kernel`].
    pub fn own() -> Result<Streams<'static>, VmmError> {
        let signals = OWN
            .iter()
            .fold(SignalSet::full(), |set, number| set.without(*number));
        Ok(Streams {
            input: rustix::stdio::stdin(),
            outputs: [rustix::stdio::stdout(), rustix::stdio::stderr()],
            signals: SignalFd::new(&signals).map_err(VmmError::kernel("get signals"))?,
            plain: false,
            mute: false,
            patience: BOOT,
            visitors: None,
        })
    }

    /// Returns rows and columns, if the input is a terminal.
    pub(crate) fn size(&self) -> Option<(u16, u16)> {
        let is_terminal = !self.plain && isatty(self.input);
        let size = is_terminal.then(|| tcgetwinsize(self.input).ok())??;
        Some((size.ws_row, size.ws_col))
    }

    /// Keeps the terminal from showing what is typed before the one in the guest does; keys that end a program still end the machine.
    pub(crate) fn silence(&self) -> Result<(), VmmError> {
        self.change(|state| state.local_modes.remove(LocalModes::ECHO))
    }

    /// Lets the terminal pass on everything as it comes: lines are edited by the one in the guest. The old state is not kept,
    /// because the terminal is the container's.
    pub(crate) fn make_raw(&self) -> Result<(), VmmError> {
        self.change(Termios::make_raw)
    }

    fn change(&self, change: impl FnOnce(&mut Termios)) -> Result<(), VmmError> {
        let changed = tcgetattr(self.input).and_then(|mut state| {
            change(&mut state);
            tcsetattr(self.input, OptionalActions::Now, &state)
        });
        changed.map_err(VmmError::kernel("change the terminal"))
    }
}

/// Output that waits for its reader.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    bytes: Vec<u8>,
    closed: bool,
}

impl Waiting {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes a piece to a descriptor that is ready; returns how many bytes are done with. What has lost its reader is lost.
    pub(crate) fn write(&mut self, to: BorrowedFd<'_>) -> usize {
        let piece = &self.bytes[..self.bytes.len().min(ATOMIC)];
        let count = match rustix::io::write(to, piece) {
            _ if self.closed => self.bytes.len(),
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => {
                self.closed = true;
                self.bytes.len()
            }
        };
        self.bytes.drain(..count);
        count
    }

    /// Writes everything, as long as there is a reader.
    pub(crate) fn finish(&mut self, to: BorrowedFd<'_>) {
        while !self.bytes.is_empty() {
            let mut fds = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
            match Wait::endless(Endless::Reader).poll(&mut fds) {
                Ok(_) => _ = self.write(to),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// Both outputs, in the order of their buffers.
pub(crate) const OUTPUTS: [Stream; 2] = [Stream::Out, Stream::Err];
