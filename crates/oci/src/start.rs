//! `start`.

use crate::error::of_birth;
use crate::status::{self, Status, status};
use crate::store::GATE;
use crate::{Id, OciError, Store, hooks, record, state};
use rustix::process::{Signal, pidfd_send_signal};
use tote_runtime::RuntimeError;
use tote_sys::best_effort;

/// Lets a container that was created run its program; returns when it does.
///
/// # Errors
/// [`OciError::NotStartable`] where it does not wait for that, and whatever kept the program from running.
pub fn start(store: &Store, id: &Id) -> Result<(), OciError> {
    let mut place = store.open(id)?;
    place.lock()?;
    let (record, document) = place.read()?.ok_or(OciError::NotFound)?;
    match status(&place, &record) {
        Status::Created => {}
        Status::Stopped => {
            return Err(OciError::NotStartable(
                "cannot start a container that has stopped",
            ));
        }
        Status::Creating | Status::Running | Status::Paused => {
            return Err(OciError::NotStartable(
                "cannot start an already running container",
            ));
        }
    }
    tote_runtime::start(place.dir(), GATE, &record.program).map_err(|error| {
        // It reports first and ends then; whoever asks next is to hear that it is over.
        if let RuntimeError::Step(_) = error
            && let Some(init) = status::init(&record)
        {
            status::wait_end(&init);
        }
        of_birth(error)
    })?;
    // Most have no hooks: the rest of the record need not be read for that.
    if !document.contains("\"poststart\"") {
        return Ok(());
    }
    let poststart = record::kept(&document)?.hooks.unwrap_or_default().poststart;
    hooks::run(
        "poststart",
        &poststart,
        &state::for_hooks(id, &record, Status::Running),
    )
    .inspect_err(|_| {
        if let Some(init) = status::init(&record) {
            // It may have ended by itself.
            best_effort(pidfd_send_signal(init, Signal::KILL));
        }
    })
}
