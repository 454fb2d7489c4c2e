//! Becoming a member of a pod.

use super::lock::Guard;
use super::{Pod, PodError, PodRequest, create, find, group};
use crate::container::{self, Entry, LifeError};
use crate::{EngineError, Home, RunRequest};
use std::time::{Duration, Instant};
use tote_bundle::ContainerId;
use tote_state::process;

/// How long an infra container may take from its end to where it can be started again.
const MOMENT: Duration = Duration::from_secs(2);

/// Makes a request one for a member of the pod that it names, which is made where the name says so: what the pod shares
/// is the infra container's. Nobody removes the pod while the guard is held, which is until the member is recorded.
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
        // Not what a command says of a pod that it is about: there is nothing to run.
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
            // Who asks for another namespace has it.
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

/// The host name that is asked for with a new pod: the name is the pod's, whose containers share one, and so it is taken
/// from the container. With a UTS namespace of its own the container keeps it.
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

/// Starts the infra container of a pod, where it has one that does not run: its members need it.
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
    // With its monitor it ends.
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
            // Its monitor is about to let go.
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
