//! Standard output and standard error that go to a file.

use crate::EngineError;
use rustix::fs::{Mode, OFlags};
use std::path::Path;

/// Sends everything that goes to standard output from here on to a file, also what containers write; with `errors` standard error
/// as well. A file that is made is its owner's alone, whatever the umask is: what a build says may be secret.
///
/// # Errors
/// `RequestError::File` where the file cannot be opened or made.
pub fn send_output(path: &Path, errors: bool) -> Result<(), EngineError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    let sent = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)).and_then(|file| {
        rustix::stdio::dup2_stdout(&file)?;
        if errors {
            rustix::stdio::dup2_stderr(&file)?;
        }
        Ok(())
    });
    sent.map_err(EngineError::file("write to", path))
}
