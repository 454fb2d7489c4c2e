//! The container's terminal.

use crate::Errno;
use crate::attach::attach;
use crate::lookup::openat2;
use crate::registers::Registers;
use crate::root::{self, Last};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, Uid};
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, OutputModes, Winsize};
use std::ffi::CStr;
use std::io::IoSlice;
use std::mem::MaybeUninit;

/// Rows and columns, the owner, and whether line ends stay as they are.
pub(crate) type How = ((u16, u16), u32, bool);

/// Makes a pseudo-terminal in the container's own devpts, binds the slave to `/dev/console` and sends the master to
/// the parent.
///
/// Every access goes by descriptors: a `/dev/console` or `/dev/pts` that an image prepared cannot redirect the bind
/// (CVE-2025-52565).
pub(crate) fn open(how: How, registers: &mut Registers<'_>) -> Result<(), Errno> {
    let devpts = registers.devpts.as_ref().ok_or(Errno::NODEV)?;
    let (master, slave) = make(devpts.as_fd(), c"ptmx", how)?;
    let clone =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&slave, c"", clone)?;
    let place = root::open_or_make(registers.root()?, c"dev/console", true, Last::File(0o600))?;
    attach(tree.as_fd(), place.as_fd())?;
    send(registers.listens(), b'C', &master)?;
    registers.terminal = Some(slave);
    Ok(())
}

/// Does the same if a filter may forbid mounts: `/dev/console` becomes a link to the slave's name, if nothing has
/// that name yet.
pub(crate) fn open_by_name(how: How, registers: &mut Registers<'_>) -> Result<(), Errno> {
    let devpts = registers.devpts.as_ref().ok_or(Errno::NODEV)?;
    let (master, slave) = make(devpts.as_fd(), c"ptmx", how)?;
    let name = Name::of(&master)?;
    match root::symlink(registers.root()?, name.text()?, c"dev/console", false) {
        // An existing entry, such as a device of the host, stays. A container without the capability for it has no such link:
        // a terminal works without.
        Ok(()) | Err(Errno::EXIST | Errno::ACCESS) => {}
        Err(errno) => return Err(errno),
    }
    send(registers.listens(), b'C', &master)?;
    registers.terminal = Some(slave);
    Ok(())
}

/// Name of the slave, `pts/0`.
struct Name {
    bytes: [u8; 16],
    start: usize,
}

impl Name {
    fn of(master: &OwnedFd) -> Result<Self, Errno> {
        use rustix::fd::AsRawFd as _;
        let mut number: libc::c_uint = 0;
        // SAFETY: TIOCGPTN writes one unsigned int, to a variable that outlives the call.
        if unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTN, &raw mut number) } == -1 {
            return Err(crate::outcome::errno());
        }
        let mut name = Self {
            bytes: [0; 16],
            start: 15,
        };
        loop {
            name.prepend(b'0' + (number % 10) as u8);
            number /= 10;
            if number == 0 {
                break;
            }
        }
        b"/stp".iter().for_each(|byte| name.prepend(*byte));
        Ok(name)
    }

    fn prepend(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }

    fn text(&self) -> Result<&CStr, Errno> {
        CStr::from_bytes_with_nul(&self.bytes[self.start..]).map_err(|_| Errno::INVAL)
    }
}

/// Makes a pseudo-terminal with the multiplexer `name` in `dir`; returns its master and its slave.
pub(crate) fn make(
    dir: BorrowedFd<'_>,
    name: &CStr,
    (size, owner, plain): How,
) -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let master = openat2(dir, name, flags, Mode::empty(), resolve)?;
    // The file is opened before it is known to be a multiplexer (5:2); at worst it is another device of the
    // container's.
    if rustix::fs::fstat(&master)?.st_rdev != rustix::fs::makedev(5, 2) {
        return Err(Errno::NOTTY);
    }
    rustix::pty::unlockpt(&master)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    let (ws_row, ws_col) = size;
    rustix::termios::tcsetwinsize(
        &slave,
        Winsize {
            ws_row,
            ws_col,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )?;
    if plain {
        let mut modes = rustix::termios::tcgetattr(&slave)?;
        modes.output_modes.remove(OutputModes::ONLCR);
        rustix::termios::tcsetattr(&slave, OptionalActions::Now, &modes)?;
    }
    if owner != 0 {
        rustix::fs::fchown(&slave, Some(Uid::from_raw(owner)), None)?;
    }
    Ok((master, slave))
}

/// Makes `/dev/null` the standard input, or a pipe at its end if the container has another kind of file of that name.
pub(crate) fn no_stdin() -> Result<(), Errno> {
    match own_null(OFlags::RDONLY) {
        Ok(null) => rustix::stdio::dup2_stdin(null),
        Err(_) => rustix::stdio::dup2_stdin(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?.0),
    }
}

/// Opens the container's null device. The image may have put a link there, which leads to the host by
/// `/proc/self/fd`, or a FIFO, whose open would wait for a peer.
fn own_null(access: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::open(c"/dev/null", flags, Mode::empty())?;
    let is_null = |stat: &rustix::fs::Stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::CharacterDevice
            && stat.st_rdev == rustix::fs::makedev(1, 3)
    };
    if !is_null(&rustix::fs::fstat(&found)?) {
        return Err(Errno::NXIO);
    }
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let null = rustix::fs::open(c"/dev/null", flags, Mode::empty())?;
    if is_null(&rustix::fs::fstat(&null)?) {
        Ok(null)
    } else {
        Err(Errno::NXIO)
    }
}

/// Sends a descriptor to the parent.
pub(crate) fn send(channel: BorrowedFd<'_>, kind: u8, fd: &OwnedFd) -> Result<(), Errno> {
    let fds = [fd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(
        channel,
        &[IoSlice::new(&[kind])],
        &mut control,
        SendFlags::NOSIGNAL,
    )
    .map(drop)
}

/// Starts a session, so that no signal of the caller's terminal reaches the program and the program cannot fake input
/// to it; makes the console the terminal of the new session.
pub(crate) fn session(registers: &mut Registers<'_>) -> Result<(), Errno> {
    rustix::process::setsid()?;
    take(registers)
}

/// Makes the console, if there is one, the terminal of the session.
pub(crate) fn take(registers: &mut Registers<'_>) -> Result<(), Errno> {
    match registers.terminal.take() {
        Some(terminal) => take_slave(terminal),
        None => Ok(()),
    }
}

/// Makes a terminal that of the session, and its standard descriptors.
pub(crate) fn take_slave(terminal: OwnedFd) -> Result<(), Errno> {
    rustix::process::ioctl_tiocsctty(&terminal)?;
    (0..=2).try_for_each(|number| put(terminal.as_fd(), number))
}

/// Puts descriptors that were sent to the places of the standard ones whose bits are set.
pub(crate) fn put_given(places: u8, fds: [Option<OwnedFd>; 3]) -> Result<(), Errno> {
    let mut next = fds.into_iter().flatten();
    for number in (0..3).filter(|number| places & (1 << number) != 0) {
        put(next.next().ok_or(Errno::PROTO)?.as_fd(), number)?;
    }
    Ok(())
}

/// Opens the null device of this process's root for writing, at the given number.
pub(crate) fn put_null(number: i32) -> Result<(), Errno> {
    put(own_null(OFlags::WRONLY)?.as_fd(), number)
}

/// Calls dup3(2) onto a number, without close-on-exec.
pub(crate) fn put(fd: BorrowedFd<'_>, number: i32) -> Result<(), Errno> {
    use rustix::fd::AsRawFd as _;
    if fd.as_raw_fd() == number {
        return rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty());
    }
    // SAFETY: `number` is that of a standard or a passed-on descriptor, which no value in this process owns.
    match unsafe { libc::syscall(libc::SYS_dup3, fd.as_raw_fd(), number, 0) } {
        -1 => Err(crate::outcome::errno()),
        _ => Ok(()),
    }
}
