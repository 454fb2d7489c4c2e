//! A terminal for a command that is tried in one: it shows what the command writes, and somebody may answer.

use super::scenario::Front;
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::unistd::{read, write};
use std::path::PathBuf;

/// The line that the container prints when it is ready for the answer.
const SAID: &str = "said";

/// A pseudo-terminal whose other end is the command's.
#[derive(Debug)]
pub(super) struct Terminal {
    /// Nothing once it is hung up.
    ours: Option<PtyMaster>,
    /// The bytes that have been written to the terminal.
    pub(super) shown: String,
    /// The user's action once the container has said something; `None` after it.
    answer: Option<Front>,
}

impl Terminal {
    /// Opens a new one, and names the command's end of it; nothing where the command is not tried in one.
    ///
    /// # Errors
    /// There is none to be had.
    pub(super) fn open(front: Front) -> Result<Option<(Self, PathBuf)>> {
        if front == Front::Files {
            return Ok(None);
        }
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let ours = posix_openpt(flags).context("open a terminal")?;
        grantpt(&ours)
            .and_then(|()| unlockpt(&ours))
            .context("unlock a terminal")?;
        let name = ptsname_r(&ours).context("ask for a terminal's name")?;
        let terminal = Self {
            ours: Some(ours),
            shown: String::new(),
            answer: Some(front),
        };
        Ok(Some((terminal, PathBuf::from(name))))
    }

    /// Takes what has been written to it so far, and answers once.
    ///
    /// # Errors
    /// The terminal can be neither read nor written.
    pub(super) fn look(&mut self) -> Result<()> {
        let Some(ours) = &self.ours else {
            return Ok(());
        };
        let mut bytes = [0; 1024];
        loop {
            match read(ours, &mut bytes) {
                Ok(0) => break,
                Ok(count) => self.shown += &String::from_utf8_lossy(&bytes[..count]),
                Err(Errno::EINTR) => {}
                // Nobody has the other end open.
                Err(Errno::EAGAIN | Errno::EIO) => break,
                Err(errno) => return Err(errno).context("read a terminal"),
            }
        }
        if !self.shown.contains(SAID) {
            return Ok(());
        }
        match self.answer.take() {
            Some(Front::Leaves(keys)) => {
                write(ours, keys.as_bytes()).context("type into a terminal")?;
            }
            Some(Front::HangsUp) => self.ours = None,
            Some(Front::Files | Front::Terminal) | None => {}
        }
        Ok(())
    }
}
