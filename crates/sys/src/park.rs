//! A sandbox that lacks only its program: its process waits before its last operations until a taker brings one.
//!
//! ```text
//!   taker                             the parked process                 its keeper, which is its parent
//!   ------------                      ------------------                 -------------------------------
//!   connect ───────────────────────►  accept
//!   'P', descriptors, texts ───────►  from here on it belongs to this taker
//!                                     'T' and the connection ──────────► (sleeps on)
//!        ◄─ 'C' console, 'F' failure  … the last steps, execve ────────► sees the end of the channel, then the 'T'
//!        ◄────────────────────────────────────────────── 'B' the program runs, 'X' it has ended
//!   'S' a signal, 'N' a note ──────────────────────────────────────────►
//! ```
//! The kernel decides which taker gets the sandbox: the first one whose connection is accepted, after which the
//! process listens no more. An unread letter resets its connection, so the second taker knows that its program was
//! not run. A taker that dies closes the connection, which the keeper sees.
//!
//! No other process is woken before the program runs: on few processors it would take time from the program.

use crate::brought::Brought;
use crate::event::{ENDED, receive_once};
use crate::outcome::{best_effort, errno, exit};
use crate::registers::Registers;
use crate::socket::{accept, address, socket, tell_ready};
use crate::wait::connect_at_once;
use crate::{Errno, Event, Exec, console, root};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketType,
};
use std::ffi::{CStr, CString};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Length of the head of a letter: its kind, which descriptors come along, whether a terminal is wanted; rows,
/// columns; the numbers of candidates, arguments and variables; the length of the texts in bytes.
const LETTER: usize = 24;

/// Upper bound of the texts in bytes: more than execve(2) takes.
const MOST: usize = 8 << 20;

/// Bytes of texts in one message.
const PIECE: usize = 64 * 1024;

/// Bytes of memory for the texts of one message, and for the arrays of a program of that size.
pub(crate) const ROOM: usize = 2 * PIECE;

/// Wait for a taker that brings the program.
#[derive(Debug)]
pub struct Park {
    /// Bound and listening socket, made by [`crate::start_gate`].
    pub listener: OwnedFd,
    /// Owner of a terminal that the process makes.
    pub owner: u32,
}

/// Letter of a taker to a parked sandbox.
#[derive(Debug)]
pub struct Letter<'a> {
    /// The program.
    pub exec: &'a Exec,
    /// Directory to start in, made if it is missing; `None` keeps the current one.
    pub cwd: Option<&'a CStr>,
    /// Standard input, output and error; `None` keeps the current one.
    pub stdio: [Option<BorrowedFd<'a>>; 3],
    /// Rows and columns of a terminal in the place of all three; its master is sent back.
    pub terminal: Option<(u16, u16)>,
}

/// Connection of a taker to a parked sandbox, and later to its keeper.
#[derive(Debug)]
pub struct Taking(OwnedFd);

impl Taking {
    /// Connects to the process that waits at this socket of the directory.
    ///
    /// # Errors
    /// `ECONNREFUSED` if no process waits there any more, `EAGAIN` if other takers are ahead, `EPERM` if the socket
    /// belongs to another user.
    pub fn open(dir: BorrowedFd<'_>, name: &str) -> Result<Self, Errno> {
        let connection = socket(SocketType::SEQPACKET)?;
        rustix::io::ioctl_fionbio(&connection, true)?;
        connect_at_once(&connection, &address(dir, name)?)?;
        rustix::io::ioctl_fionbio(&connection, false)?;
        if peer_user(connection.as_fd())? != rustix::process::geteuid().as_raw() {
            return Err(Errno::PERM);
        }
        Ok(Self(connection))
    }

    /// Brings the program.
    ///
    /// # Errors
    /// sendmsg(2)'s: `EPIPE` if another taker was first. `E2BIG` for more than the kernel takes.
    pub fn bring(&self, letter: &Letter<'_>) -> Result<(), Errno> {
        let Exec {
            candidates, program, ..
        } = letter.exec;
        let cwd = [CString::from(letter.cwd.unwrap_or_default())];
        let lists: [&[CString]; 4] = [&cwd, candidates, program.args(), program.env()];
        let mut texts = Vec::new();
        for text in lists.into_iter().flatten() {
            texts.extend_from_slice(text.as_bytes_with_nul());
        }
        if texts.len() > MOST {
            return Err(Errno::TOOBIG);
        }
        let (rows, columns) = letter.terminal.unwrap_or_default();
        let mut head = [0; LETTER];
        head[0] = b'P';
        for (number, _) in letter.stdio.iter().enumerate().filter(|(_, fd)| fd.is_some()) {
            head[1] |= 1 << number;
        }
        head[2] = letter.terminal.is_some().into();
        head[4..6].copy_from_slice(&rows.to_ne_bytes());
        head[6..8].copy_from_slice(&columns.to_ne_bytes());
        let counts = [
            candidates.len(),
            program.args().len(),
            program.env().len(),
            texts.len(),
        ];
        for (place, count) in head[8..].chunks_exact_mut(4).zip(counts) {
            place.copy_from_slice(&u32::try_from(count).map_err(|_| Errno::TOOBIG)?.to_ne_bytes());
        }
        let fds: Vec<BorrowedFd<'_>> = letter.stdio.iter().flatten().copied().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(Errno::INVAL);
        }
        let (first, more) = texts.split_at(texts.len().min(PIECE));
        let slices = [IoSlice::new(&head), IoSlice::new(first)];
        rustix::net::sendmsg(&self.0, &slices, &mut control, SendFlags::NOSIGNAL)?;
        for piece in more.chunks(PIECE) {
            rustix::net::send(&self.0, piece, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// Lets the process end unused; the answer [`Event::Ready`] confirms that it heard this.
    ///
    /// # Errors
    /// send(2)'s.
    pub fn dismiss(&self) -> Result<(), Errno> {
        let mut head = [0; LETTER];
        head[0] = b'D';
        rustix::net::send(&self.0, &head, SendFlags::NOSIGNAL).map(drop)
    }

    /// Waits for the next message of the last operations or of the keeper. [`Event::Unread`] means that the letter,
    /// or what was sent since, was not read completely; [`Event::Exec`] is the end of the connection.
    ///
    /// # Errors
    /// recvmsg(2)'s; `EPROTO` for an unknown message.
    pub fn event(&self) -> Result<Event, Errno> {
        match receive_once(self.0.as_fd()) {
            Err(Errno::CONNRESET) => Ok(Event::Unread),
            other => other,
        }
    }
}

impl Taking {
    /// Asks the keeper to send the program a signal.
    ///
    /// # Errors
    /// send(2)'s.
    pub fn signal(&self, signo: i32) -> Result<(), Errno> {
        let [byte, ..] = signo.to_le_bytes();
        rustix::net::send(&self.0, &[b'S', byte], SendFlags::NOSIGNAL).map(drop)
    }

    /// Sends the keeper the container's new record.
    ///
    /// # Errors
    /// send(2)'s.
    pub fn note(&self, text: &[u8]) -> Result<(), Errno> {
        let last = text.len().saturating_sub(1) / PIECE;
        for (number, piece) in text.chunks(PIECE).enumerate() {
            let kind = if number == last { b'N' } else { b'n' };
            rustix::net::send(&self.0, &[&[kind], piece].concat(), SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }
}

/// Keeper's end of the connection to the taker, which came with [`Event::Taken`].
#[derive(Debug)]
pub struct Taker(OwnedFd);

/// Request of a taker.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    /// Send this signal to the program.
    Signal(i32),
    /// Store this piece of the container's record; the flag marks the last piece.
    Note(Vec<u8>, bool),
    /// A request that is not known here.
    Unknown,
    /// End the sandbox: the taker has gone.
    Gone,
}

impl Taker {
    /// Takes over the connection.
    #[must_use]
    pub fn new(connection: OwnedFd) -> Self {
        Self(connection)
    }

    /// True if another user took the sandbox.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        peer_user(self.0.as_fd()) != Ok(rustix::process::geteuid().as_raw())
    }

    /// Tells the taker that the program runs.
    pub fn began(&self) {
        self.say(b"B");
    }

    /// Tells the taker how the program ended: a status or a signal, and how many processes were killed for want of
    /// memory.
    pub fn ended(&self, status: i32, signaled: bool, ooms: u64) {
        let mut word = [0; ENDED];
        (word[0], word[1]) = (b'X', signaled.into());
        word[2..6].copy_from_slice(&status.to_ne_bytes());
        word[6..].copy_from_slice(&u32::try_from(ooms).unwrap_or(u32::MAX).to_ne_bytes());
        self.say(&word);
    }

    /// Sends without waiting: a taker that has gone needs no message, and one that does not listen must not hold up
    /// the keeper.
    fn say(&self, word: &[u8]) {
        best_effort(rustix::net::send(
            &self.0,
            word,
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        ));
    }

    /// Waits for the taker's next request.
    ///
    /// # Errors
    /// recv(2)'s.
    pub fn wish(&self) -> Result<Wish, Errno> {
        let mut bytes = vec![0; PIECE + 1];
        let length = loop {
            match rustix::net::recv(&self.0, &mut bytes[..], RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(Wish::Gone),
                other => break other?.1,
            }
        };
        Ok(match bytes[..length] {
            [] => Wish::Gone,
            [b'S', signo] => Wish::Signal(signo.into()),
            [kind @ (b'n' | b'N'), ref text @ ..] => Wish::Note(text.to_vec(), kind == b'N'),
            _ => Wish::Unknown,
        })
    }
}

impl AsFd for Taker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Taking {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits in the child, which lacks only its program and, where the root of its container may change them, its ids. It has no
/// capability beyond those of its container. The calls made here are those of `PARK` in `sandbox`.
pub(crate) fn wait(how: &Park, registers: &mut Registers<'_>) -> Result<(), Errno> {
    best_effort(crate::prctl::set_dumpable(false));
    let room = room(ROOM)?;
    // The listener has the credentials of its maker as well, in terms of this user namespace.
    let own = peer_user(how.listener.as_fd())?;
    tell_ready(registers.channel)?;
    let connection = accept(&how.listener)?;
    // SAFETY: this closes the listener, whose owner is never dropped: this process ends by execve or _exit. From here
    // on no other taker can take the sandbox.
    unsafe { rustix::io::close(how.listener.as_raw_fd()) };
    if own != peer_user(connection.as_fd())? {
        return Err(Errno::PERM);
    }
    let Received { head, fds, length } = receive(&connection, room)?;
    if head[0] != b'P' {
        // A taker that has closed its end needs no message.
        best_effort(tell_ready(connection.as_fd()));
        exit(0);
    }
    let (cwd, brought) = receive_texts(&connection, &head, (room, length))?;
    console::send(registers.channel, b'T', &connection)?;
    registers.conversation = Some(connection);
    settle((&head, how.owner), fds, cwd, registers)?;
    registers.brought = Some(brought);
    Ok(())
}

/// Sets up standard descriptors, terminal and working directory.
fn settle(
    (head, owner): (&[u8; LETTER], u32),
    fds: [Option<OwnedFd>; 3],
    cwd: &CStr,
    registers: &mut Registers<'_>,
) -> Result<(), Errno> {
    console::put_given(head[1], fds)?;
    if head[2] == 1 {
        let half = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
        console::open_by_name(((half(4), half(6)), owner, false), registers)?;
        console::take(registers)?;
    }
    if !cwd.is_empty() {
        root::make_dir(registers.root()?, cwd, 0o755)?;
        root::working_dir(cwd)?;
    }
    Ok(())
}

/// Head of a letter, its descriptors, and how many bytes of its texts came with it.
pub(crate) struct Received {
    pub(crate) head: [u8; LETTER],
    pub(crate) fds: [Option<OwnedFd>; 3],
    pub(crate) length: usize,
}

/// Receives the first message; its texts go to the beginning of `room`.
pub(crate) fn receive(connection: &OwnedFd, room: &mut [u8]) -> Result<Received, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut head = [0; LETTER];
    let bytes = loop {
        let mut slices = [IoSliceMut::new(&mut head), IoSliceMut::new(room)];
        match rustix::net::recvmsg(connection, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    let mut fds = [None, None, None];
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(given) = message {
            for (place, fd) in fds.iter_mut().zip(given) {
                *place = Some(fd);
            }
        }
    }
    let length = bytes.checked_sub(LETTER).ok_or(Errno::PIPE)?;
    Ok(Received { head, fds, length })
}

/// Maps zeroed memory that is never unmapped.
pub(crate) fn room(size: usize) -> Result<&'static mut [u8], Errno> {
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
    let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), size, protection, flags) }?;
    // SAFETY: the mapping is `size` bytes long, zeroed and never unmapped, and nothing else refers to it.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), size) })
}

/// Receives the texts, of which `had` bytes are in `room` already; returns the directory, and the program with its
/// arrays behind them.
pub(crate) fn receive_texts(
    connection: &OwnedFd,
    head: &[u8; LETTER],
    (room, had): (&'static mut [u8], usize),
) -> Result<(&'static CStr, Brought), Errno> {
    const WORD: usize = size_of::<*const libc::c_char>();
    let number =
        |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
    let (candidates, args, env, length) = (number(8), number(12), number(16), number(20));
    // Each of them has at least the byte that ends it.
    if length > MOST || candidates.max(args).max(env) > length || had > length {
        return Err(Errno::TOOBIG);
    }
    let arrays = length.next_multiple_of(WORD);
    let all = arrays + (args + env + 2) * WORD;
    let room = if all <= room.len() {
        room
    } else {
        let larger = self::room(all)?;
        larger[..had].copy_from_slice(&room[..had]);
        larger
    };
    let (bytes, behind) = room.split_at_mut(arrays);
    let bytes = &mut bytes[..length];
    let mut filled = had;
    while filled < length {
        match rustix::net::recv(connection, &mut bytes[filled..], RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok((_, 0)) => return Err(Errno::PIPE),
            Ok((_, more)) => filled += more,
        }
    }
    let mut rest: &'static [u8] = bytes;
    let cwd = text(&mut rest)?;
    let paths = rest;
    for _ in 0..candidates {
        text(&mut rest)?;
    }
    let paths = &paths[..paths.len() - rest.len()];
    let behind = behind.as_mut_ptr().cast::<*const libc::c_char>();
    // SAFETY: the array lies behind the texts, aligned, inside the mapping and zeroed, which is a valid array of null
    // pointers; nothing else refers to it.
    let pointers = unsafe { std::slice::from_raw_parts_mut(behind, args + env + 2) };
    let (argv, envp) = pointers.split_at_mut(args + 1);
    for place in argv.iter_mut().take(args).chain(envp.iter_mut().take(env)) {
        *place = text(&mut rest)?.as_ptr();
    }
    let brought = Brought {
        candidates: paths,
        argv: argv.as_ptr(),
        envp: envp.as_ptr(),
    };
    Ok((cwd, brought))
}

/// Returns the user at the other end of a connection, in terms of this user namespace; for a listening socket, its
/// maker.
///
/// rustix is not used, because it takes a process that this PID namespace does not show for an error.
pub(crate) fn peer_user(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the structure.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    match done {
        0 => Ok(peer.uid),
        _ => Err(errno()),
    }
}

/// Takes the first text off.
fn text(rest: &mut &'static [u8]) -> Result<&'static CStr, Errno> {
    let text = CStr::from_bytes_until_nul(rest).map_err(|_| Errno::PROTO)?;
    *rest = &rest[text.count_bytes() + 1..];
    Ok(text)
}
