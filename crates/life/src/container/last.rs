//! End of a watched container, as its record, its report and its events tell it.

use super::limits::Limits;
use super::{Container, EndedBy, State};
use crate::end_report::{EndReport, LastFacts, refused};
use crate::finished::over;
use crate::network::Endpoint;
use crate::{EngineError, Home};
use tote_bundle::{ContainerId, RunOptions};
use tote_cgroup::Cgroup;
use tote_monitor::{Ended, Exit, MonitorError};
use tote_runtime::Outcome;
use tote_state::events::{Event, append};

/// Facts of an end.
pub(super) struct Last<'a> {
    outcome: Result<Outcome, &'a MonitorError>,
    ooms: u64,
    options: &'a RunOptions,
    report: Option<EndReport>,
    refused: Option<usize>,
}

impl<'a> Last<'a> {
    /// Collects them, as long as the container's cgroup and its networks are there.
    pub(super) fn look(
        home: &Home,
        container: &Container,
        options: &'a RunOptions,
        cgroup: Option<&Cgroup>,
        mut report: Option<EndReport>,
    ) -> Self {
        report.iter_mut().for_each(|report| report.look(cgroup));
        Self {
            outcome: Ok(Outcome::Exited(0)),
            ooms: cgroup.map_or(0, Cgroup::oom_kills),
            options,
            refused: report.as_ref().and_then(|_| refused(home, container, options)),
            report,
        }
    }

    /// Takes what the monitor has seen, unless a limit of time was over before.
    pub(super) fn seen(mut self, ended: &'a Result<Ended, MonitorError>, limits: &Limits) -> Self {
        self.outcome = ended
            .as_ref()
            .map(|ended| limits.over().unwrap_or_else(|| outcome_of(ended)));
        self
    }

    /// Writes them into a container's state.
    pub(super) fn note(&self, state: &mut State) {
        match self.outcome {
            Ok(outcome) => {
                state.exit_code = i32::from(outcome.exit_code());
                state.ended_by = Some(EndedBy::of(outcome, self.ooms));
                state.error = over(outcome, self.options).unwrap_or_default();
            }
            Err(error) => (state.exit_code, state.error) = (255, error.to_string()),
        }
        state.oom_killed = self.ooms > 0;
    }

    /// Writes the report, where one was asked for.
    ///
    /// # Errors
    /// [`EngineError`] of a file that cannot be written.
    pub(super) fn hand_in(self, container: &Container, state: &State) -> Result<(), EngineError> {
        let (Some(report), Ok(outcome)) = (self.report, self.outcome) else {
            return Ok(());
        };
        let last = LastFacts {
            outcome,
            refused: self.refused,
        };
        report.write(container, state, &last)
    }
}

/// The way in which a watched container ended.
fn outcome_of(ended: &Ended) -> Outcome {
    match ended.exit {
        _ if ended.output_over => Outcome::OutputOver,
        Exit::Code(code) => Outcome::Exited(code),
        Exit::Signal(signal) => Outcome::Signaled(signal),
    }
}

/// Appends the events of the start of a container.
pub(super) fn announce_start(home: &Home, container: &Container, state: &State) {
    let mut events = links_of(&container.id, &state.networks, "connect");
    events.push(container.event("start"));
    append(home, &events);
}

/// Appends the events of the end of a container, which had these endpoints.
pub(super) fn announce_end(home: &Home, container: &Container, state: &State, networks: &[Endpoint]) {
    let mut events = Vec::new();
    if state.oom_killed {
        events.push(container.event_by_name(home, "oom"));
    }
    let died = container
        .event_by_name(home, "die")
        .with("exitCode", state.exit_code);
    events.push(match state.ended_by {
        Some(by) => died.with("endedBy", by.as_str()),
        None => died,
    });
    events.extend(links_of(&container.id, networks, "disconnect"));
    append(home, &events);
}

/// docker's events of a container's links.
fn links_of(id: &ContainerId, networks: &[Endpoint], action: &str) -> Vec<Event> {
    networks
        .iter()
        .map(|endpoint| endpoint.event(action, id))
        .collect()
}
