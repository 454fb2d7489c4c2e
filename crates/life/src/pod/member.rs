//! The infra container that the members of a pod need.

use super::lock::Guard;
use super::{Pod, PodError, group};
use crate::container::{self, Entry, LifeError};
use crate::{EngineError, Home};
use std::time::{Duration, Instant};
use tote_bundle::ContainerId;
use tote_state::process;

/// Limit of the time from the end of an infra container until it can be started again.
const MOMENT: Duration = Duration::from_secs(2);

/// Starts the infra container of a pod by `start` if it does not run, because members need its namespaces.
///
/// # Errors
/// [`EngineError`].
pub fn ensure(
    home: &Home,
    pod: &str,
    start: fn(&Home, &str) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let missing = || EngineError::from(PodError::Missing(pod.to_owned()));
    let id: ContainerId = pod.parse().map_err(|_| missing())?;
    let pod = Pod::read(home, &id)?.ok_or_else(missing)?;
    let Some(infra) = pod.infra_id() else {
        return Ok(());
    };
    // The infra container ends with its monitor.
    let is_dying = |entry: &Entry| {
        let monitor = entry.state.monitor;
        monitor.is_some_and(|monitor| process::is_ending(monitor.pid, monitor.start_time))
    };
    // absence: a start of the infra container, which its claim refuses if it runs
    let opened = || container::open(home, &infra).ok().flatten();
    let entry = || opened().filter(|entry| entry.state.runs());
    let runs = || entry().is_some_and(|entry| !is_dying(&entry));
    if runs() {
        return Ok(());
    }
    let _one_at_a_time = Guard::of_container(home, &infra)?;
    group::ensure(home, &pod)?;
    let until = Instant::now() + MOMENT;
    while !runs() {
        let started = start(home, infra.as_str());
        match started {
            // The monitor is about to release its claim.
            Ok(()) | Err(EngineError::Life(LifeError::Busy(_))) if !runs() && Instant::now() < until => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a monitor that lets go has nothing that could be waited for but its claim, which a new one takes"
                )]
                std::thread::sleep(Duration::from_millis(1));
            }
            started => return started,
        }
    }
    Ok(())
}
