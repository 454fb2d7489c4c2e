//! Membership in a pod.

use super::lock::Guard;
use super::{PodError, PodRequest, create, find};
use crate::{EngineError, Home, RunRequest};

/// Turns a request into one for a member of the named pod, which is made first if the name asks for that: the shared
/// namespaces are the infra container's. The caller holds the guard until the member is recorded, so that the pod is
/// not removed.
///
/// # Errors
/// [`PodError`].
pub fn enlist(home: &Home, request: &mut RunRequest, dry: bool) -> Result<Option<Guard>, EngineError> {
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
