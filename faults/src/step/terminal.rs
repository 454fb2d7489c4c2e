//! Terminal for a command under test: it records the command's output, and can type an answer.

use super::scenario::Front;
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::unistd::{read, write};
use std::path::PathBuf;

/// Line that the container prints when it is ready for the answer.
const SAID: &str = "said";

/// Pseudo-terminal whose other end belongs to the command.
#[derive(Debug)]
pub(super) struct Terminal {
    /// Master end; `None` after the hang-up.
    ours: Option<PtyMaster>,
    /// Bytes that the command has written to the terminal, as text.
    pub(super) shown: String,
    /// Answer that follows the container's first output; `None` after it.
    answer: Option<Front>,
}

impl Terminal {
    /// Opens a new terminal and returns the path of the command's end; `None` if the command is tried without one.
    ///
    /// # Errors
    /// Fails if no terminal can be opened.
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

    /// Reads the output so far, and answers once.
    ///
    /// # Errors
    /// Fails if the terminal can be neither read nor written.
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
                // No process has the other end open.
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
