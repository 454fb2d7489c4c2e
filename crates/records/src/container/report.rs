//! Reports of a monitor to the command that started it.

use super::error::{LifeError, StartError};
use super::failure::{failure_line, listen_failure};
use crate::EngineError;
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io::{Read as _, Write as _};
use tote_monitor::Streams;
use tote_sys::best_effort;

/// Connection that the monitor inherits, with its streams: no output is lost between the start and an attachment
/// then.
pub type Companion = (OwnedFd, Streams);

/// Reports from the monitor to the command: a letter, the length of the text, and the text. `S` started; `W` warning;
/// `E` error: docker's exit code, the line, and behind a zero the hint.
#[derive(Debug)]
pub struct Report(Option<File>);

impl Report {
    /// Reports through this end of a pipe; [`listen`] has the other.
    pub fn new(pipe: OwnedFd) -> Self {
        Self(Some(File::from(pipe)))
    }

    /// Passes a warning on.
    pub fn warn(&mut self, text: &str) {
        self.say(b'W', text.as_bytes());
    }

    /// Says that the program runs.
    pub fn started(&mut self) {
        self.say(b'S', &[]);
        self.0 = None;
    }

    /// Says why the start failed.
    pub fn failed(&mut self, error: &EngineError) {
        self.say(b'E', &failure_line(error));
        self.0 = None;
    }

    /// Sends a report; a command that is gone gets none.
    fn say(&mut self, letter: u8, text: &[u8]) {
        let length = u32::try_from(text.len()).unwrap_or(0).to_ne_bytes();
        if let Some(pipe) = &mut self.0 {
            best_effort(pipe.write_all(&[&[letter][..], &length, text].concat()));
        }
    }
}

/// Receives the monitor's reports, up to the start.
///
/// # Errors
/// [`StartError::Launch`] and [`StartError::Unborn`].
pub fn listen(pipe: &mut File, warn: &mut dyn FnMut(String)) -> Result<(), EngineError> {
    loop {
        let mut head = [0; 5];
        if pipe.read_exact(&mut head).is_err() {
            return Err(LifeError::Start(StartError::Unborn).into());
        }
        let [letter, length @ ..] = head;
        let mut text = vec![0; u32::from_ne_bytes(length) as usize];
        if pipe.read_exact(&mut text).is_err() {
            return Err(LifeError::Start(StartError::Unborn).into());
        }
        match letter {
            b'S' => return Ok(()),
            b'E' => return Err(listen_failure(&text).into()),
            _ => warn(String::from_utf8_lossy(&text).into_owned()),
        }
    }
}
