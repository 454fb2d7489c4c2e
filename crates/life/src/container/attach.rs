//! `attach`: joins the streams of a running container.

use super::StreamError;
use super::attached::Attaching;
use super::foreground::find_monitored;
use super::state::Status;
use crate::{EngineError, Finished, Home, RequestError};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use tote_bundle::ContainerId;
use tote_monitor::{Attachment, Attendant, Connection, DetachKeys, Parting, Streams};
use tote_sys::{Errno, best_effort, send_signal};

/// Attaches to a container, until it ends; `None` if the user types the detach keys before that.
///
/// # Errors
/// [`StreamError`].
pub fn attach(home: &Home, wanted: &str, how: &Attaching) -> Result<Option<Finished>, EngineError> {
    let keys = how.keys()?;
    let entry = find_monitored(home, wanted)?;
    match entry.state.status {
        _ if !entry.kept => return Err(StreamError::Unkept(entry.container.display().to_owned()).into()),
        Status::Restarting => return Err(StreamError::Restarting.into()),
        Status::Running if entry.state.paused => return Err(StreamError::Paused.into()),
        Status::Running => {}
        _ => return Err(StreamError::Stopped.into()),
    }
    let has = |name| entry.container.option(name) == Some("true");
    let streams = Streams {
        stdin: how.streams.stdin && has("interactive"),
        ..how.streams
    };
    let terminal = has("tty");
    if terminal && streams.stdin && !rustix::termios::isatty(rustix::stdio::stdin()) {
        return Err(EngineError::Request(RequestError::NotATerminal));
    }
    let attendant = Attendant::new().map_err(StreamError::from)?;
    let socket = connect(home, &entry.container.id).map_err(|source| match source {
        Errno::NOENT | Errno::CONNREFUSED => StreamError::Stopped,
        source => StreamError::Connect { source },
    })?;
    let how = Attaching {
        streams,
        ..how.clone()
    };
    match stay(
        home,
        &entry.container.id,
        socket,
        &attendant,
        &how,
        keys,
        terminal,
    )? {
        Stay::Detached => Ok(None),
        Stay::Over(finished) => Ok(Some(finished)),
    }
}

/// Connects to a container's monitor.
pub(crate) fn connect(home: &Home, id: &ContainerId) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(home.container(id), flags, Mode::empty())?;
    tote_monitor::connect(dir.as_fd(), super::socket::SOCKET)
}

/// End of an attachment.
pub(crate) enum Stay {
    /// Detached container, which runs on.
    Detached,
    /// Ended container, or a command that was asked to end.
    Over(Finished),
}

/// Stays attached to a container over a connection.
pub(crate) fn stay(
    home: &Home,
    id: &ContainerId,
    socket: OwnedFd,
    attendant: &Attendant,
    how: &Attaching,
    keys: DetachKeys,
    terminal: bool,
) -> Result<Stay, EngineError> {
    let raw = if terminal && how.streams.stdin && rustix::termios::isatty(rustix::stdio::stdin()) {
        Some(tote_runtime::RawMode::enter()?)
    } else {
        None
    };
    let mut pass = |signal| pass_on(home, id, signal);
    let connection = Connection::new(socket).map_err(|source| StreamError::Connect { source })?;
    let attachment = Attachment {
        streams: how.streams,
        terminal,
        detach_keys: &keys,
        proxy: if how.sig_proxy { Some(&mut pass) } else { None },
    };
    let parting = attendant.attend(connection, attachment);
    drop(raw);
    let (code, reason) = match parting.map_err(StreamError::from)? {
        Parting::Detached => return Ok(Stay::Detached),
        Parting::Ended(code, text) => (code, Some(text).filter(|text| !text.is_empty())),
        Parting::Signaled(signal) => (128 + signal, None),
        Parting::Insisted => {
            let words = tote_runtime::Insistence::WORDS;
            (1, Some(format!("{words}; the container runs on")))
        }
        // The exit code is that of a program that writes to a broken pipe.
        Parting::NoReader => (128 + rustix::process::Signal::PIPE.as_raw(), None),
        Parting::Lost => lost(home, id),
    };
    Ok(Stay::Over(Finished {
        exit_code: u8::try_from(code & 0xff).unwrap_or(1),
        reason,
    }))
}

/// Explains a connection that the monitor has closed without a report.
fn lost(home: &Home, id: &ContainerId) -> (i32, Option<String>) {
    let text = |text: &str| Some(text.to_owned());
    let state = match super::open(home, id) {
        Ok(entry) => entry.map(|entry| entry.state),
        Err(error) => return (1, Some(tote_sys::chain(&error))),
    };
    match state {
        Some(state) if matches!(state.status, Status::Running | Status::Restarting) => (
            1,
            text("the container runs on, but this command took its output too slowly, and was cut off"),
        ),
        Some(state) if state.error.is_empty() => (state.exit_code, None),
        Some(state) => (state.exit_code, Some(state.error)),
        None => (137, text("the container is gone")),
    }
}

fn pass_on(home: &Home, id: &ContainerId, signal: i32) {
    // absence: a signal to a container that cannot be found is lost, as one to an ended process
    let entry = super::open(home, id).ok().flatten();
    let process = entry.and_then(|entry| entry.state.process);
    if let Some(pidfd) =
        process.and_then(|process| tote_state::process::open(process.pid, process.start_time))
    {
        // A process that has just ended needs no signal.
        best_effort(send_signal(pidfd.as_fd(), signal));
    }
}
