//! The command `start`.

use crate::error::of_birth;
use crate::specification::is_before_1_3;
use crate::states::Status;
use crate::status::{self, status};
use crate::store::GATE;
use crate::{ContainerError, Id, OciError, Store, hooks, record, seccomp, state};
use rustix::fd::OwnedFd;
use rustix::process::{Signal, pidfd_send_signal};
use tote_runtime::{Refusal, RuntimeError};
use tote_sys::best_effort;

/// Lets a created container run its program; returns when the program runs.
///
/// A failing `poststart` hook ends the container, as version 1.3 of the specification says. For a bundle of an older version it is a
/// warning: the program goes on.
///
/// # Errors
/// `ContainerError::NotStartable` if the container does not wait for its start, and errors of running the program or a hook.
pub fn start(store: &Store, id: &Id, warn: &mut dyn FnMut(String)) -> Result<(), OciError> {
    let mut place = store.open(id)?;
    place.lock()?;
    let (record, document) = place
        .read()?
        .ok_or(OciError::Container(ContainerError::NotFound))?;
    match status(&place, &record) {
        Status::Created => {}
        Status::Stopped => {
            return Err(OciError::Container(ContainerError::NotStartable(
                "cannot start a container that has stopped",
            )));
        }
        Status::Creating | Status::Running | Status::Paused => {
            return Err(OciError::Container(ContainerError::NotStartable(
                "cannot start an already running container",
            )));
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
            // No agent answers for its system calls. It may have ended by itself.
            best_effort(pidfd_send_signal(&init, Signal::KILL));
        }
        // A process that reports an error ends afterwards; the next command has to find it stopped.
        if let RuntimeError::Refused(_) | RuntimeError::Step(_) = error {
            status::wait_end(&init);
        }
    }
    started.map_err(of_birth)?;
    // Most containers have no hooks: the rest of the record need not be read for them.
    if document.contains("\"poststart\"") {
        let poststart = record::kept(&document)?.hooks.unwrap_or_default().poststart;
        let state = state::for_hooks(id, &record, Status::Running);
        if is_before_1_3(&record.oci_version) {
            hooks::run_all("poststart", &poststart, &state, warn);
        } else if let Err(error) = hooks::run("poststart", &poststart, &state) {
            if let Some(init) = status::init(&record) {
                // A process that cannot be killed is the caller's to see, who is told of the hook.
                best_effort(pidfd_send_signal(&init, Signal::KILL));
                status::wait_end(&init);
            }
            return Err(error);
        }
    }
    Ok(())
}
