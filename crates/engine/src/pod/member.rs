//! Membership in a pod.

use super::lock::Guard;
use super::{Pod, PodError, PodRequest, create, find, group};
use crate::container::{self, Entry, LifeError};
use crate::{EngineError, Home, RunRequest};
use std::time::{Duration, Instant};
use tote_bundle::ContainerId;
use tote_state::process;

/// Limit of the time from the end of an infra container until it can be started again.
const MOMENT: Duration = Duration::from_secs(2);

/// Turns a request into one for a member of the named pod, which is made first if the name asks for that: the shared
/// namespaces are the infra container's. The caller holds the guard until the member is recorded, so that the pod is
/// not removed.
///
/// # Errors
/// [`PodError`].
pub(crate) fn enlist(home: &Home, request: &mut RunRequest, dry: bool) -> Result<Option<Guard>, EngineError> {
    let Some(wanted) = request.options.pod.take_if(|_| !request.options.infra) else {
        return Ok(None);
    };
    let pod = match wanted.strip_prefix("new:") {
        Some(_) if dry => return Ok(None),
        Some(name) => create(
            home,
            PodRequest {
                name: Some(name.to_owned()).filter(|name| !name.is_empty()),
                options: hostname_of_all(request),
                ..PodRequest::default()
            },
            &mut |_| {},
        )?,
        // The error differs from that of pod commands, because `run` cannot continue without the pod.
        None => find::record(home, &wanted).map_err(|error| EngineError::Usage(error.to_string()))?,
    };
    let guard = Guard::shared(home, &pod.id)?;
    let shares = |what: &str| pod.share.iter().any(|shared| shared == what);
    if shares("net") && gives(request, "network") {
        return Err(PodError::Network.into());
    }
    if shares("uts") && !gives(request, "uts") && request.options.host.hostname.is_some() {
        return Err(PodError::Hostname.into());
    }
    if let Some(infra) = &pod.infra {
        for (what, option) in [("net", "network"), ("ipc", "ipc"), ("uts", "uts"), ("pid", "pid")] {
            // An explicit option for another namespace takes precedence.
            if shares(what) && !gives(request, option) {
                let mode = format!("container:{infra}");
                request.options.set(option, &mode)?;
                request.given.push((option.to_owned(), mode));
            }
        }
    }
    request.options.pod = Some(pod.id.to_string());
    Ok(Some(guard))
}

/// Takes the host name out of a request for a new pod: the pod's containers share one, so it becomes the pod's. With
/// a UTS namespace of its own the container keeps it.
fn hostname_of_all(request: &mut RunRequest) -> Vec<(String, String)> {
    if gives(request, "uts") {
        return Vec::new();
    }
    let hostname = request.options.host.hostname.take();
    request.given.retain(|(name, _)| name != "hostname");
    hostname
        .map(|hostname| ("hostname".to_owned(), hostname))
        .into_iter()
        .collect()
}

fn gives(request: &RunRequest, option: &str) -> bool {
    request.given.iter().any(|(name, _)| name == option)
}

/// Starts the infra container of a pod if it does not run, because members need its namespaces.
///
/// # Errors
/// [`EngineError`].
pub(crate) fn ensure(home: &Home, pod: &str) -> Result<(), EngineError> {
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
        let started = container::start_alone(home, infra.as_str());
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
