//! Waiting for what becomes of a container: podman's `wait --condition`.

use super::events::{EventSelection, events};
use crate::container::{self, Status};
use crate::{EngineError, Home};

/// State that a container may have; podman's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Created, and not started yet.
    Created,
    /// Ended.
    Ended,
    /// Running, with a health check that succeeds.
    Healthy,
    /// Paused.
    Paused,
    /// Under removal.
    Removing,
    /// Running, and not paused.
    Running,
    /// Running, with a health check that fails.
    Unhealthy,
}

/// Words of podman's for conditions.
pub const CONDITIONS: [(&str, Condition); 9] = [
    ("configured", Condition::Created),
    ("created", Condition::Created),
    ("exited", Condition::Ended),
    ("healthy", Condition::Healthy),
    ("paused", Condition::Paused),
    ("removing", Condition::Removing),
    ("running", Condition::Running),
    ("stopped", Condition::Ended),
    ("unhealthy", Condition::Unhealthy),
];

/// Seconds after which a container is looked at again in any case: a killed monitor tells of no end.
const AGAIN: f64 = 2.0;

/// Waits until a container meets one of the conditions. Returns its exit code, or -1 while it runs.
///
/// # Errors
/// There is no such container, or it is removed before.
pub fn wait_until(home: &Home, wanted: &str, conditions: &[Condition]) -> Result<i32, EngineError> {
    let id = container::find(home, wanted)?.container.id.to_string();
    loop {
        let now = tote_calendar::now().as_secs_f64();
        let mut found = met(home, &id, conditions);
        if matches!(found, Ok(None)) {
            // What happens after the look is told, so that the container is looked at when something has happened.
            let selection = EventSelection {
                since: Some(format!("{now:.3}")),
                until: Some(format!("{:.3}", now + AGAIN)),
                filters: vec![format!("container={id}")],
            };
            events(home, &selection, &mut |_| {
                found = met(home, &id, conditions);
                matches!(found, Ok(None))
            })?;
        }
        if let Some(code) = found? {
            return Ok(code);
        }
    }
}

/// The exit code of a container that meets a condition.
fn met(home: &Home, id: &str, conditions: &[Condition]) -> Result<Option<i32>, EngineError> {
    let state = container::find(home, id)?.state;
    let health = state.health.as_ref().map(|health| health.status);
    let is_met = |condition: &Condition| match condition {
        Condition::Created => state.status == Status::Created,
        Condition::Ended => matches!(state.status, Status::Exited | Status::Dead),
        Condition::Healthy => state.runs() && health == Some(container::HealthStatus::Healthy),
        Condition::Unhealthy => state.runs() && health == Some(container::HealthStatus::Unhealthy),
        Condition::Paused => state.runs() && state.paused,
        Condition::Removing => state.status == Status::Removing,
        Condition::Running => state.runs() && !state.paused,
    };
    let code = if state.runs() { -1 } else { state.exit_code };
    Ok(conditions.iter().any(is_met).then_some(code))
}
