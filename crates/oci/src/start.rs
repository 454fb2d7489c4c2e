//! `start`.

use crate::error::of_birth;
use crate::status::{self, Status, status};
use crate::store::GATE;
use crate::{Id, OciError, Store, hooks, record, seccomp, state};
use rustix::fd::OwnedFd;
use rustix::process::{Signal, pidfd_send_signal};
use tote_runtime::{Refusal, RuntimeError};
use tote_sys::best_effort;

/// Lets a container that was created run its program; returns when it does.
///
/// A hook of `poststart` that fails is a warning: the program runs already, and the specification has it go on.
///
/// # Errors
/// [`OciError::NotStartable`] where it does not wait for that, and whatever kept the program from running.
pub fn start(store: &Store, id: &Id, warn: &mut dyn FnMut(String)) -> Result<(), OciError> {
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
    let mut listener = |fd: OwnedFd| -> Result<(), Refusal> {
        let profile = record::kept(&document)?.linux.and_then(|linux| linux.seccomp);
        let about = (id, &record, Status::Created);
        Ok(seccomp::hand_over(
            &fd,
            profile.as_ref(),
            record.pid.unwrap_or(0),
            about,
        )?)
    };
    let started = tote_runtime::start(place.dir(), GATE, &record.program, &mut listener);
    if let (Err(error), Some(init)) = (&started, status::init(&record)) {
        if let RuntimeError::Refused(_) = error {
            // Nobody answers for its system calls. It may have ended by itself.
            best_effort(pidfd_send_signal(&init, Signal::KILL));
        }
        // One that reports does so first and ends then; whoever asks next is to hear that it is over.
        if let RuntimeError::Refused(_) | RuntimeError::Step(_) = error {
            status::wait_end(&init);
        }
    }
    started.map_err(of_birth)?;
    // Most have no hooks: the rest of the record need not be read for that.
    if document.contains("\"poststart\"") {
        let poststart = record::kept(&document)?.hooks.unwrap_or_default().poststart;
        let state = state::for_hooks(id, &record, Status::Running);
        hooks::run_all("poststart", &poststart, &state, warn);
    }
    Ok(())
}
