//! A container under a monitor with the command attached to it from its first moment.

use super::error::LifeError;
use super::launch::{launch, prepare_start};
use crate::prepare::Prepared;
use crate::{EngineError, Finished, Home};
use rustix::fd::AsFd as _;
use tote_bundle::ContainerId;
use tote_monitor::{Attachment, Attendant, Connection, DetachKeys, Parting, Streams, pair};
use tote_sys::{best_effort, send_signal};

/// How a command attaches to what it starts.
#[derive(Clone, Debug)]
pub struct Attaching {
    /// Which streams.
    pub streams: Streams,
    /// The keys that leave the container alone; docker's where they are not given.
    pub detach_keys: Option<String>,
    /// Whether the command's signals go to the container.
    pub sig_proxy: bool,
}

/// Starts a prepared container and stays with it to its end.
///
/// # Errors
/// [`EngineError`].
pub fn run_attached(
    home: &Home,
    prepared: Prepared,
    how: &Attaching,
    warn: &mut dyn FnMut(String),
) -> Result<Finished, EngineError> {
    let failed = |attempt| move |source| LifeError::Monitor { attempt, source };
    let keys: DetachKeys = match &how.detach_keys {
        Some(text) => DetachKeys::parse(text).map_err(LifeError::Keys)?,
        None => DetachKeys::default(),
    };
    let (id, terminal) = (prepared.entry.container.id.clone(), prepared.options.tty);
    let (ours, theirs) = pair().map_err(failed("make a connection to"))?;
    let attendant = Attendant::new().map_err(LifeError::from)?;
    launch(home, prepared, Some((theirs, how.streams)), warn)?;
    let raw = if terminal && how.streams.stdin && rustix::termios::isatty(rustix::stdio::stdin()) {
        Some(tote_runtime::RawMode::enter()?)
    } else {
        None
    };
    let mut pass = |signal| pass_on(home, &id, signal);
    let connection = Connection::new(ours).map_err(failed("use the connection to"))?;
    let parting = attendant.attend(
        connection,
        Attachment {
            streams: how.streams,
            terminal,
            detach_keys: &keys,
            proxy: if how.sig_proxy { Some(&mut pass) } else { None },
        },
    );
    drop(raw);
    let (code, reason) = match parting.map_err(LifeError::from)? {
        Parting::Ended(code, text) => (code, Some(text).filter(|text| !text.is_empty())),
        Parting::Detached => (0, None),
        Parting::Signaled(signal) => (128 + signal, None),
        // As a program that writes to such a pipe.
        Parting::NoReader => (128 + 13, None),
        Parting::Lost => {
            let entry = super::open(home, &id);
            let code = entry.map_or(137, |entry| entry.state.exit_code);
            (code, Some("the container's monitor is gone".to_owned()))
        }
    };
    Ok(Finished {
        exit_code: u8::try_from(code & 0xff).unwrap_or(1),
        reason,
    })
}

/// Starts a container that was created before, and stays with it. One that runs already is not attached to in here.
///
/// # Errors
/// [`EngineError`].
pub fn start_attached(
    home: &Home,
    wanted: &str,
    how: &Attaching,
    warn: &mut dyn FnMut(String),
) -> Result<Finished, EngineError> {
    match prepare_start(home, wanted)? {
        Some(prepared) => {
            let how = Attaching {
                streams: Streams {
                    stdin: how.streams.stdin && prepared.options.interactive,
                    ..how.streams
                },
                ..how.clone()
            };
            run_attached(home, prepared, &how, warn)
        }
        None => Err(LifeError::Runs(wanted.to_owned()).into()),
    }
}

fn pass_on(home: &Home, id: &ContainerId, signal: i32) {
    let process = super::open(home, id).and_then(|entry| entry.state.process);
    if let Some(pidfd) = process.and_then(|process| crate::process::open(process.pid, process.start_time)) {
        // One that has just ended needs no signal.
        best_effort(send_signal(pidfd.as_fd(), signal));
    }
}
