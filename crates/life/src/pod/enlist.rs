//! Membership in a pod.

use super::lock::Guard;
use super::{Pod, PodError, PodRequest, create, find};
use crate::vm::VmFault;
use crate::{EngineError, Home, RunRequest};
use tote_bundle::{NetworkMode, OF_POD, POD_NETWORK};

/// Turns a request into one for a member of the named pod, which is made first if the name asks for that: the shared
/// namespaces are the infra container's. The caller holds the guard until the member is recorded, so that the pod is
/// not removed.
///
/// # Errors
/// [`PodError`].
pub fn enlist(home: &Home, request: &mut RunRequest, dry: bool) -> Result<Option<Guard>, EngineError> {
    let wants_network = take_word(request);
    let Some(wanted) = request.options.pod.take_if(|_| !request.options.infra) else {
        return if wants_network {
            Err(PodError::NoPod.into())
        } else {
            Ok(None)
        };
    };
    let pod = match wanted.strip_prefix("new:") {
        Some(_) if dry => return Ok(None),
        Some(name) => create(
            home,
            PodRequest {
                name: Some(name.to_owned()).filter(|name| !name.is_empty()),
                options: taken(request),
                ..PodRequest::default()
            },
            &mut |_| {},
        )?,
        // The error differs from that of pod commands, because `run` cannot continue without the pod.
        None => find::record(home, &wanted).map_err(|error| EngineError::Usage(error.to_string()))?,
    };
    let guard = Guard::shared(home, &pod.id)?;
    in_its_machine(&pod, request)?;
    let shares = |what: &str| pod.share.iter().any(|shared| shared == what);
    if shares("net") && gives(request, "network") {
        return Err(PodError::Network.into());
    }
    if wants_network && !shares("net") {
        return Err(PodError::NoNetwork(pod.name).into());
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

/// Puts a member into the machine of its pod, if that has one.
fn in_its_machine(pod: &Pod, request: &mut RunRequest) -> Result<(), EngineError> {
    let own = request.options.vm.take().is_some();
    let is_isolation = |(name, _): &(String, String)| name == "isolation";
    let says_default = !own && request.given.iter().any(is_isolation);
    match pod.option("isolation").filter(|value| tote_bundle::is_vm(value)) {
        None if own => Err(VmFault::NoPod.into()),
        None => Ok(()),
        Some(_) if says_default => Err(VmFault::Option {
            option: "--isolation default and --pod",
            reason: "the pod is in a virtual machine",
        }
        .into()),
        Some(value) => {
            request.given.retain(|option| !is_isolation(option));
            request.options.set("isolation", value)?;
            request.given.push(("isolation".to_owned(), value.to_owned()));
            Ok(())
        }
    }
}

/// Takes the word for the network of the pod out of a request, which has that network without a word as well. Gives whether it was there.
fn take_word(request: &mut RunRequest) -> bool {
    let is_word = |(name, value): &(String, String)| name == "network" && value == POD_NETWORK;
    let given = request.given.len();
    request.given.retain(|option| !is_word(option));
    let was_there = request.given.len() < given;
    if was_there && !gives(request, "network") {
        request.options.network = NetworkMode::default();
    }
    was_there
}

/// Takes what the containers of a new pod share out of a request, so that it becomes the pod's: the options of the network, and the host
/// name. With a UTS namespace of its own the container keeps that.
fn taken(request: &mut RunRequest) -> Vec<(String, String)> {
    let has_own_name = gives(request, "uts");
    let is_of_all = |(name, _): &(String, String)| {
        OF_POD.contains(&name.as_str()) || name == "isolation" || (name == "hostname" && !has_own_name)
    };
    let (taken, own) = request.given.drain(..).partition(is_of_all);
    request.given = own;
    request.options.leave_to_pod();
    if !has_own_name {
        request.options.host.hostname = None;
    }
    taken
}

fn gives(request: &RunRequest, option: &str) -> bool {
    request.given.iter().any(|(name, _)| name == option)
}
