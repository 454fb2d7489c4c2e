//! Work that only a process in the user namespace of an image's owners can do.
//!
//! Files of a user's images belong to ids of the user's ranges. To make them, or to look behind a directory that its owner
//! has closed, one must be root among these ids, and a process that has become that cannot go back. So another process does it.

use crate::container::{LifeError, StartError, failure_line, listen_failure};
use crate::{EngineError, Home};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, kill_process};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;
use tote_images::{enter_ids, has_ids};
use tote_rootfs::ReadError;
use tote_sys::{Endless, Errno, Wait, best_effort};

/// First byte of the answer of that process.
const DONE: u8 = 0;
const FAILED: u8 = 1;

/// The most of a passwd or group file that is read, in bytes.
const LIMIT: usize = 1 << 20;

/// Returns the result of `read`, which gets the limit of bytes to read of a file below a root: through directories, too,
/// that their owner, another of the caller's ids, has closed. What is wrong otherwise says `failed`.
pub fn read_among_owners(
    home: &Home,
    read: impl Fn(usize) -> Result<Option<Vec<u8>>, ReadError>,
    failed: impl Fn(ReadError) -> EngineError,
) -> Result<Option<Vec<u8>>, EngineError> {
    match read(LIMIT) {
        Err(error) if error.is_denied() && !has_ids(home) => {
            let answer = among_owners(home, || {
                let content = read(LIMIT).map_err(&failed)?;
                Ok(content.map_or_else(Vec::new, |content| [vec![DONE], content].concat()))
            })?;
            Ok(answer.split_first().map(|(_, content)| content.to_vec()))
        }
        read => read.map_err(&failed),
    }
}

/// Does something as root of the caller's ids, in a process of its own, and gives what it gave. This process must have
/// one thread.
///
/// # Errors
/// Those of the work, and of [`enter_ids`]; [`EngineError::Kernel`].
pub fn among_owners(
    home: &Home,
    work: impl FnOnce() -> Result<Vec<u8>, EngineError>,
) -> Result<Vec<u8>, EngineError> {
    apart(|| enter_ids(home).map_err(EngineError::from), work)
}

/// Does something in a process of its own, which `enter` moves to the namespaces where it can be done, and gives what it gave.
/// This process must have one thread.
///
/// # Errors
/// Those of both; [`EngineError::Kernel`].
pub fn apart(
    enter: impl FnOnce() -> Result<(), EngineError>,
    work: impl FnOnce() -> Result<Vec<u8>, EngineError>,
) -> Result<Vec<u8>, EngineError> {
    apart_by(None, enter, work)
}

/// Does something as [`apart`] does, where a file system of a container could let it wait without end: after `limit` the process
/// is killed.
///
/// # Errors
/// As of [`apart`]; [`EngineError::Kernel`] with `ETIMEDOUT`.
pub fn apart_within(
    limit: Duration,
    enter: impl FnOnce() -> Result<(), EngineError>,
    work: impl FnOnce() -> Result<Vec<u8>, EngineError>,
) -> Result<Vec<u8>, EngineError> {
    apart_by(Some(limit), enter, work)
}

fn apart_by(
    limit: Option<Duration>,
    enter: impl FnOnce() -> Result<(), EngineError>,
    work: impl FnOnce() -> Result<Vec<u8>, EngineError>,
) -> Result<Vec<u8>, EngineError> {
    let failed = |attempt| move |source| EngineError::Kernel { attempt, source };
    let (reader, writer) =
        pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe to a process of the image's owners"))?;
    let mut pipe = Some((File::from(reader), File::from(writer)));
    // process: process of an image's owners
    let forked = tote_sys::fork_worker(|| {
        let Some((_, mut writer)) = pipe.take() else {
            return 0;
        };
        let (letter, text) = match enter().and_then(|()| work()) {
            Ok(text) => (DONE, text),
            Err(error) => (FAILED, failure_line(&error)),
        };
        // A process that is gone needs no answer.
        best_effort(writer.write_all(&[letter]).and_then(|()| writer.write_all(&text)));
        0
    });
    let pid = forked.map_err(failed("make a process of the image's owners"))?;
    let answer = match pipe.take() {
        Some((reader, writer)) => {
            drop(writer);
            hear(reader, limit)
        }
        None => Ok(Vec::new()),
    };
    let end = match answer {
        Ok(_) => Wait::endless(Endless::Worker),
        Err(_) => {
            best_effort(kill_process(pid, Signal::KILL));
            Wait::ending()
        }
    };
    // A process that ignores SIGCHLD has no child to wait for.
    best_effort(end.reap_child(pid));
    let answer = answer.map_err(failed("wait for a process among files of others"))?;
    match answer.split_first() {
        Some((&DONE, text)) => Ok(text.to_vec()),
        Some((&FAILED, text)) => Err(listen_failure(text).into()),
        _ => Err(LifeError::Start(StartError::Unanswered).into()),
    }
}

/// Reads the answer of a process, which comes once its work is done.
fn hear(mut reader: File, limit: Option<Duration>) -> Result<Vec<u8>, Errno> {
    if let Some(limit) = limit
        && !Wait::within(limit).readable(reader.as_fd())?
    {
        return Err(Errno::TIMEDOUT);
    }
    let mut answer = Vec::new();
    // A text that ends too early cannot be an answer.
    best_effort(reader.read_to_end(&mut answer));
    Ok(answer)
}
