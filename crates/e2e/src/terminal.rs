//! Outer terminal of a test: a pseudo-terminal whose both ends the test holds.

use anyhow::{Context as _, Error, Result, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// First argument that makes this program the leader of a session, which then becomes another program.
pub(crate) const LEAD_SESSION: &str = "--lead-session";

/// Makes this process the leader of a session whose terminal is on standard input, and executes the program that the
/// words name. Returns only on failure.
pub(crate) fn lead_session(words: impl Iterator<Item = String>) -> Error {
    let words: Vec<String> = words.collect();
    let Some((program, args)) = words.split_first() else {
        return Error::msg("no program to lead a session");
    };
    let led = rustix::process::setsid().and_then(|_| rustix::process::ioctl_tiocsctty(std::io::stdin()));
    match led {
        Ok(()) => Error::new(Command::new(program).args(args).exec()).context(format!("execute {program}")),
        Err(error) => Error::new(error).context("make standard input the session's terminal"),
    }
}

/// Pseudo-terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Terminal {
    /// Opens a new terminal of this size.
    pub(crate) fn open(rows: u16, columns: u16) -> Result<Self> {
        let ours =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).context("open a pty")?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs =
            rustix::fs::open(&name, flags, Mode::empty()).with_context(|| format!("open {name:?}"))?;
        let terminal = Self { ours, theirs };
        terminal.resize(rows, columns)?;
        Ok(terminal)
    }

    /// Changes the size, as a user who drags a window does.
    pub(crate) fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.ours, size).context("resize the terminal")
    }

    /// Formats the modes as text to compare.
    pub(crate) fn modes(&self) -> Result<String> {
        let modes: Termios = tcgetattr(&self.theirs).context("read the terminal's modes")?;
        Ok(format!("{modes:?}"))
    }

    /// Fails unless the terminal is raw, which means that the program in front passes keys on as they are typed.
    pub(crate) fn is_raw(&self) -> Result<()> {
        let modes = tcgetattr(&self.theirs).context("read the terminal's modes")?;
        let cooked = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        ensure!(
            !modes.local_modes.intersects(cooked),
            "the terminal is not raw: {:?}",
            modes.local_modes
        );
        Ok(())
    }

    /// Duplicates the end that shows typed and printed text.
    pub(crate) fn our_end(&self) -> Result<OwnedFd> {
        Ok(self.ours.try_clone()?)
    }

    /// Duplicates the end that programs hold.
    pub(crate) fn other_end(&self) -> Result<OwnedFd> {
        Ok(self.theirs.try_clone()?)
    }
}
