//! The terminal that a worker has for standard input, as `tote run -it` has its user's: by it the worker learns of sizes.

use rustix::fd::OwnedFd;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tote_sys::{Errno, best_effort};

/// The agent's hold of a terminal, beside the descriptor by which it writes.
#[derive(Debug)]
pub(crate) struct Terminal(OwnedFd);

impl Terminal {
    /// Sets the size.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        // A size that a terminal cannot have is not worth the process.
        best_effort(set_size(&self.0, rows, columns));
    }
}

fn set_size(terminal: &OwnedFd, rows: u16, columns: u16) -> Result<(), Errno> {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size)
}

/// Makes a terminal of this size that passes on every byte; returns the worker's end of it, and the end to write to.
pub(crate) fn pair((rows, columns): (u16, u16)) -> Result<(Terminal, (OwnedFd, OwnedFd)), Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    let mut modes = tcgetattr(&slave)?;
    modes.make_raw();
    tcsetattr(&slave, OptionalActions::Now, &modes)?;
    set_size(&master, rows, columns)?;
    let again = rustix::io::fcntl_dupfd_cloexec(&master, 3)?;
    Ok((Terminal(again), (slave, master)))
}
