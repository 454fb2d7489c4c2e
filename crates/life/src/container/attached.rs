//! Container under a monitor, with the command attached to it from the start.

use super::StreamError;
use super::attach::{Stay, attach, stay};
use super::error::{LifeError, StartError};
use super::launch::{launch, mend_all, prepare_start, revive};
use crate::prepared::Prepared;
use crate::{EngineError, Finished, Home, HostInit};
use tote_monitor::{Attendant, DetachKeys, Streams, pair};
use tote_state::process::set_title;

/// Options of an attachment.
#[derive(Clone, Debug)]
pub struct Attaching {
    /// Attached streams.
    pub streams: Streams,
    /// Detach keys; docker's by default.
    pub detach_keys: Option<String>,
    /// True if the command's signals go to the container.
    pub sig_proxy: bool,
}

impl Attaching {
    /// Checks the options before anything is made.
    ///
    /// # Errors
    /// [`StreamError::Keys`].
    pub fn check(&self) -> Result<(), EngineError> {
        self.keys()?;
        Ok(())
    }

    /// Parses the keys that detach.
    pub fn keys(&self) -> Result<DetachKeys, StreamError> {
        let keys = self.detach_keys.as_deref().map(DetachKeys::parse);
        Ok(keys.transpose().map_err(StreamError::Keys)?.unwrap_or_default())
    }
}

/// Starts a prepared container and stays attached to its end.
///
/// # Errors
/// [`EngineError`].
pub fn run_attached(
    home: &Home,
    prepared: Prepared,
    how: &Attaching,
    warn: &mut dyn FnMut(String),
) -> Result<Finished, EngineError> {
    let failed = |attempt| move |source| LifeError::Start(StartError::Monitor { attempt, source });
    let keys = how.keys()?;
    let (id, terminal) = (prepared.entry.container.id.clone(), prepared.options.tty);
    let (ours, theirs) = pair().map_err(failed("make a connection to"))?;
    let attendant = Attendant::new().map_err(LifeError::from)?;
    let title = format!("tote run {}", prepared.entry.container.display());
    launch(home, prepared, Some((theirs, how.streams)), warn)?;
    // process: command
    set_title(&title);
    // The monitor has the container; what others have left is this command's.
    revive(home, &mend_all(home));
    Ok(match stay(home, &id, ours, &attendant, how, keys, terminal)? {
        Stay::Over(finished) => finished,
        Stay::Detached => Finished {
            exit_code: 0,
            reason: None,
        },
    })
}

/// Starts a created container, and stays attached. A running one is only attached to.
///
/// # Errors
/// [`EngineError`].
pub fn start_attached(
    home: &Home,
    wanted: &str,
    how: &Attaching,
    init: &HostInit,
    warn: &mut dyn FnMut(String),
) -> Result<Finished, EngineError> {
    match prepare_start(home, wanted, init)? {
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
        // docker's code for those who leave a container that runs on.
        None => Ok(attach(home, wanted, how)?.unwrap_or(Finished {
            exit_code: 0,
            reason: None,
        })),
    }
}
