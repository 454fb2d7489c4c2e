//! The networks of steps, which a build of a user other than root may have in another process only.

use crate::container::{failure_line, listen_failure};
use crate::network::{apart, enter_network, lacks};
use crate::{EngineError, Home};
use rustix::process::{PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use std::path::Path;
use tote_bundle::{NetworkMode, RunOptions};
use tote_runtime::{Attendance, Stdio, attend};
use tote_sys::best_effort;

/// Name of the file in a workspace by which the process of a step says how it went.
const FILE: &str = "step";
/// First byte of that file.
const DONE: u8 = 0;
const FAILED: u8 = 1;

/// Place of the networks that a build's steps may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepPlace {
    /// They are where the build is.
    Here,
    /// They are in another network namespace. A process that enters it cannot come back, and the build itself asks registries from the
    /// machine's own.
    Apart,
    /// The user cannot have networks.
    Nowhere,
}

impl StepPlace {
    /// Takes the network from a step that cannot have the one of its options. Returns the reason, for people.
    ///
    /// # Errors
    /// [`crate::NetworkFault`] for a network that was asked for.
    pub(crate) fn adapt(self, options: &mut RunOptions) -> Result<Option<String>, EngineError> {
        if self != Self::Nowhere || options.network.attachments().is_empty() {
            return Ok(None);
        }
        let fault = apart();
        if !options.network.is_optional() {
            return Err(fault.into());
        }
        options.network = NetworkMode::None;
        Ok(Some(lacks(&fault)))
    }

    /// Runs a step where its network is; `dir` is for a file of its own meanwhile.
    pub(crate) fn run(
        self,
        (home, dir): (&Home, &Path),
        has_network: bool,
        step: impl FnOnce() -> Result<Ran, EngineError>,
    ) -> Result<Ran, EngineError> {
        if self != Self::Apart || !has_network {
            return step();
        }
        let file = dir.join(FILE);
        let failed = |attempt| move |source| EngineError::Kernel { attempt, source };
        // Signals come to this process, and are for the step.
        let attendance = Attendance::new(Stdio::default())?;
        // process: process of a step
        let forked = tote_sys::fork_worker(|| {
            // Without it the step would go on although its build has ended.
            best_effort(tote_sys::die_with_parent());
            let (letter, text) = match enter_network(home).and_then(|()| step()) {
                Ok(ran) => (DONE, ran.text()),
                Err(error) => (FAILED, failure_line(&error)),
            };
            // Without the file the build fails.
            best_effort(std::fs::write(&file, [&[letter], &*text].concat()));
            0
        });
        let pid = forked.map_err(failed("start the process of the step"))?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(failed("watch the process of the step"))?;
        attend(attendance, &pidfd)?;
        // absence: an empty report is an error of its own below
        let said = std::fs::read(&file).unwrap_or_default();
        best_effort(std::fs::remove_file(&file));
        match said.split_first() {
            Some((&DONE, text)) => Ran::read(text).ok_or_else(|| listen_failure(&[]).into()),
            Some((_, text)) => Err(listen_failure(text).into()),
            None => Err(listen_failure(&[]).into()),
        }
    }
}

/// Result of a step's command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub exit_code: u8,
    /// Reason of that, for people.
    pub reason: Option<String>,
    /// True if the step had no network and asked for none by itself.
    pub(super) offline: bool,
    /// Reason why it had none.
    pub(super) without_network: Option<String>,
    /// Places of the container's mounts.
    pub mounts: Vec<String>,
}

impl Ran {
    /// Returns the text that [`Ran::read`] reads.
    pub(crate) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the text of another process; `None` if it ends too early.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }
}
