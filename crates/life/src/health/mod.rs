//! Health of containers: checks that run inside, and the interpretation of their results.
//!
//! The monitor or a user's command runs a check, and adds the result to the container's state.

mod chore;
mod schedule;

pub use chore::HealthChecks;

use crate::container::change_state;
use crate::container::{Container, Entry, Health, HealthResult, HealthStatus};
use crate::exec::{Captured, ExecError, Target, capture};
use crate::{EngineError, Home};
use schedule::Schedule;
use std::time::Duration;
use tote_image::Healthcheck;
use tote_state::events::append;
use tote_state::record::now;

/// Limit of the kept output of a check, in bytes; docker's.
const LONGEST: usize = 4096;

/// Converts a health check for the container's record.
pub fn record(check: tote_bundle::Healthcheck) -> Healthcheck {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Healthcheck {
        test: check.test,
        interval: number(check.interval),
        timeout: number(check.timeout),
        start_period: number(check.start_period),
        start_interval: number(check.start_interval),
        retries: number(check.retries),
    }
}

/// Checks a running container, records the result, and returns true if it is healthy.
///
/// # Errors
/// Fails if the container is missing, does not run, or has no health check.
pub fn check_now(home: &Home, wanted: &str) -> Result<bool, EngineError> {
    let entry = crate::container::find(home, wanted)?;
    let target = Target::of(home, entry.clone())?;
    let Some(check) = entry.container.health.clone() else {
        return Err(ExecError::NoHealthcheck(entry.container.id.to_string()).into());
    };
    let result = check_target(target, &check);
    let healthy = result.exit_code == 0;
    note(home, &entry.container, entry.state.started_at, result, None)?;
    Ok(healthy)
}

/// Runs one check to its end. A failure to run it is a result as well.
pub fn check(home: &Home, entry: &Entry, check: &Healthcheck) -> HealthResult {
    match Target::of(home, entry.clone()) {
        Ok(target) => check_target(target, check),
        Err(error) => failed(now(), &error),
    }
}

fn check_target(target: Target, check: &Healthcheck) -> HealthResult {
    let (start, timeout) = (now(), Schedule::of(check).timeout);
    match capture(target, argv(&check.test), (timeout, LONGEST), None) {
        Ok(captured) => finished(start, timeout, &captured),
        Err(error) => failed(start, &error),
    }
}

/// Builds the command of `CMD-SHELL` or `CMD`.
fn argv(test: &[String]) -> Vec<String> {
    match test.split_first() {
        Some((kind, line)) if kind == "CMD-SHELL" => {
            let shell = ["/bin/sh", "-c"].map(str::to_owned);
            shell.into_iter().chain(line.iter().cloned()).collect()
        }
        Some((_, words)) => words.to_vec(),
        None => Vec::new(),
    }
}

fn finished(start: u64, timeout: Duration, captured: &Captured) -> HealthResult {
    let mut output = String::from_utf8_lossy(&captured.output).into_owned();
    if captured.truncated {
        output.push_str("...");
    }
    let exit_code = match captured.code {
        Some(code) => i32::from(code),
        None => {
            let said = if output.is_empty() {
                String::new()
            } else {
                format!(": {output}")
            };
            output = format!("Health check exceeded timeout ({timeout:?}){said}");
            -1
        }
    };
    HealthResult {
        start,
        end: now(),
        exit_code,
        output,
    }
}

fn failed(start: u64, error: &EngineError) -> HealthResult {
    HealthResult {
        start,
        end: now(),
        exit_code: -1,
        output: tote_sys::chain(error),
    }
}

/// Adds a result to the container's state. Returns the health with it. `started_at` identifies the checked run: a result
/// after its end is dropped. If there is an `unrecorded` health, it takes the place of the recorded one before.
pub fn note(
    home: &Home,
    container: &Container,
    started_at: u64,
    result: HealthResult,
    unrecorded: Option<&Health>,
) -> Result<Health, EngineError> {
    let Some(check) = &container.health else {
        return Ok(Health::default());
    };
    let age = Duration::from_nanos(result.start.saturating_sub(started_at));
    let mut changed = false;
    let state = change_state(home, &container.id, |state| {
        if state.runs() && state.started_at == started_at {
            let health = state.health.get_or_insert_with(Health::default);
            if let Some(unrecorded) = unrecorded {
                health.clone_from(unrecorded);
            }
            changed = Schedule::of(check).take(health, age, result);
        }
    })?;
    let health = state.health.unwrap_or_default();
    if changed {
        report(home, container, health.status);
    }
    Ok(health)
}

/// Adds an event about a new status.
fn report(home: &Home, container: &Container, status: HealthStatus) {
    let action = format!("health_status: {}", status.as_str());
    append(home, &[container.event_by_name(home, &action)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(code: Option<u8>, output: &str, truncated: bool) -> Captured {
        Captured {
            code,
            output: output.as_bytes().to_vec(),
            truncated,
        }
    }

    #[test]
    fn results_as_docker_has_them() {
        let second = Duration::from_secs(1);
        let result = finished(1, second, &captured(Some(3), "no", true));
        assert_eq!((result.exit_code, result.output.as_str()), (3, "no..."));
        let result = finished(1, second, &captured(None, "", false));
        assert_eq!(
            (result.exit_code, result.output.as_str()),
            (-1, "Health check exceeded timeout (1s)")
        );
        assert!(
            finished(1, second, &captured(None, "hm", false))
                .output
                .ends_with(": hm")
        );
    }

    #[test]
    fn what_is_executed() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            argv(&words(&["CMD-SHELL", "a || b"])),
            ["/bin/sh", "-c", "a || b"]
        );
        assert_eq!(argv(&words(&["CMD", "a", "b"])), ["a", "b"]);
        assert!(argv(&[]).is_empty());
    }
}
