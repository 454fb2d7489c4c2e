//! Creation of pods.

use super::lock::Guard;
use super::{Pod, PodError, group, remove};
use crate::container::{self, fault, name};
use crate::{EngineError, Home, RequestError, RunRequest, network, remains};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use tote_bundle::{ContainerId, Image, Name, OptionError, POD_NETWORK, RunOptions, ValueError};
use tote_state::config::NetworkUser;
use tote_state::events::append;
use tote_state::new_id;
use tote_state::record::now;
use tote_sys::best_effort;

/// Request to create a pod.
#[derive(Clone, Debug, Default)]
pub struct PodRequest {
    /// Name of the pod; by default one is generated.
    pub name: Option<String>,
    /// Shared namespaces: podman's words between commas, with a `+` in front as additions to the default; `None` for
    /// the default.
    pub share: Option<String>,
    /// True for an infra container; `None` if it follows from the rest.
    pub infra: Option<bool>,
    /// Name of the infra container.
    pub infra_name: Option<String>,
    /// Options of the infra container, by their long names: those of the shared namespaces.
    pub options: Vec<(String, String)>,
    /// Common limits of the members: options by their long names, and `cgroup-parent`.
    pub limits: Vec<(String, String)>,
    /// Behaviour at the end of the last member: `continue` or `stop`.
    pub exit_policy: Option<String>,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// File to which the id is written.
    pub id_file: Option<PathBuf>,
    /// Command line, shown by `pod inspect`.
    pub command: Vec<String>,
}

/// Default shared namespaces.
const USUAL: [&str; 3] = ["ipc", "net", "uts"];

/// Creates a pod: its directory, its name, its cgroup, its infra container, its record, in this order.
///
/// # Errors
/// [`EngineError`]; no part of the pod is left then.
pub fn create(home: &Home, request: PodRequest, warn: &mut dyn FnMut(String)) -> Result<Pod, EngineError> {
    remove::sweep(home);
    let stops = match request.exit_policy.as_deref() {
        None | Some("" | "continue") => false,
        Some("stop") => true,
        Some(word) => return Err(PodError::ExitPolicy(word.to_owned()).into()),
    };
    group::options(&request.limits)?;
    let given = request.name.as_deref().map(parse_name).transpose()?;
    let share = shared(&request)?;
    // process: infra container of a pod
    let wants_infra = match request.infra {
        Some(infra) => infra,
        None => !share.is_empty(),
    };
    if !wants_infra {
        check_no_infra(&request)?;
    }
    let is_pods = |(option, value): &(String, String)| option == "network" && value == POD_NETWORK;
    if request.options.iter().any(is_pods) {
        return Err(PodError::NoPod.into());
    }
    check_machine(&request, (&share, wants_infra))?;
    let (id, guard) = begin(home)?;
    let shape = Shape {
        share,
        stops,
        wants_infra,
    };
    let made = finish(home, &id, given, request, shape, warn);
    if made.is_err() {
        remove::discard(home, &id);
    }
    drop(guard);
    made
}

fn parse_name(name: &str) -> Result<Name, EngineError> {
    name.parse().map_err(|source| {
        EngineError::from(OptionError::Value {
            option: "name".to_owned(),
            value: name.to_owned(),
            source: ValueError::Name(source),
        })
    })
}

/// Parses the shared namespaces.
fn shared(request: &PodRequest) -> Result<Vec<String>, EngineError> {
    let usual = || USUAL.map(str::to_owned).to_vec();
    let Some(text) = &request.share else {
        return Ok(if request.infra == Some(false) {
            Vec::new()
        } else {
            usual()
        });
    };
    let (mut share, words) = match text.strip_prefix('+') {
        Some(words) => (usual(), words),
        None => (Vec::new(), text.as_str()),
    };
    for word in words.split(',').filter(|word| !matches!(*word, "" | "none")) {
        if !matches!(word, "ipc" | "net" | "pid" | "uts") {
            return Err(PodError::Share(word.to_owned()).into());
        }
        if share.iter().all(|known| known != word) {
            share.push(word.to_owned());
        }
    }
    if request.infra == Some(false) && !share.is_empty() {
        return Err(PodError::ShareWithoutInfra(text.clone()).into());
    }
    Ok(share)
}

fn check_no_infra(request: &PodRequest) -> Result<(), EngineError> {
    if request.infra_name.is_some() {
        return Err(PodError::NoInfra("infra-name".to_owned()).into());
    }
    // Members come and go; only the infra container can represent the limits permanently.
    let mut options = request.options.iter().chain(&request.limits);
    match options.find(|(option, _)| option != "hostname") {
        Some((option, _)) => Err(PodError::NoInfra(option.clone()).into()),
        None => Ok(()),
    }
}

/// Checks that a pod in a virtual machine has what its machine needs, and nothing that would be another machine's.
fn check_machine(request: &PodRequest, (share, infra): (&[String], bool)) -> Result<(), PodError> {
    let mut options = request.options.iter();
    if !options.any(|(option, value)| option == "isolation" && tote_bundle::is_vm(value)) {
        return Ok(());
    }
    let has = |wanted: &str| share.iter().any(|shared| shared == wanted);
    let limits = |wanted: &str| request.limits.iter().any(|(limit, _)| limit == wanted);
    let faults = [
        (
            !infra || !has("net"),
            "a network for each container",
            "the machine has one network; leave out --share, or give net among its words",
        ),
        (
            has("pid"),
            "--share pid",
            "the processes of a container in a machine end with its first one",
        ),
        (
            limits("memory"),
            "--memory",
            "give the machine its memory by --isolation vm=memory=SIZE",
        ),
    ];
    let fault = faults.into_iter().find(|(is, ..)| *is);
    fault.map_or(Ok(()), |(_, what, why)| Err(PodError::InMachine(what, why)))
}

/// Makes an id and its directory, and locks it.
fn begin(home: &Home) -> Result<(ContainerId, Guard), EngineError> {
    loop {
        let id = new_id()?;
        for path in [home.pods(), home.pod(&id)] {
            tote_state::closed::directory(&path).map_err(EngineError::file("make", path))?;
        }
        // A sweep may have removed the directory as a leftover before the lock was held.
        if let Some(guard) = Guard::exclusive(home, &id)? {
            fault::point("pod-claimed");
            return Ok((id, guard));
        }
    }
}

/// Settings that follow from a request.
struct Shape {
    share: Vec<String>,
    stops: bool,
    wants_infra: bool,
}

fn finish(
    home: &Home,
    id: &ContainerId,
    given: Option<Name>,
    request: PodRequest,
    shape: Shape,
    warn: &mut dyn FnMut(String),
) -> Result<Pod, EngineError> {
    let name = match given {
        Some(name) => name::take(home, &name, id, remains::sweep).map(|()| name)?,
        None => name::take_any(home, id)?,
    };
    fault::point("pod-named");
    let asked = |option: &str| {
        let mut last = request.options.iter().rev();
        last.find(|(name, _)| name == option)
            .map(|(_, value)| value.clone())
    };
    let hostname = asked("hostname").unwrap_or_else(|| name.to_string());
    let mut pod = Pod {
        id: id.clone(),
        name: name.to_string(),
        created: now(),
        hostname,
        labels: request.labels,
        share: shape.share,
        infra: None,
        options: request.options,
        limits: request.limits,
        stops: shape.stops,
        create_command: request.command,
    };
    group::make(home, &pod, warn)?;
    if shape.wants_infra {
        let infra = infra(home, &pod, request.infra_name)?;
        pod.infra = Some(infra.to_string());
        fault::point("pod-infra");
    }
    if let Some(path) = request.id_file {
        note_id(path, id)?;
    }
    pod.write(home)?;
    append(home, &[pod.event("create")]);
    fault::point("pod-recorded");
    Ok(pod)
}

/// Creates the container that keeps the namespaces. It needs no rights, no log and no writable files.
fn infra(home: &Home, pod: &Pod, name: Option<String>) -> Result<ContainerId, EngineError> {
    let fixed = [
        ("infra", "true"),
        ("ipc", "shareable"),
        ("read-only", "true"),
        ("cap-drop", "ALL"),
        ("security-opt", "no-new-privileges"),
        ("log-driver", "none"),
    ];
    let mut given: Vec<(String, String)> = fixed
        .map(|(option, value)| (option.to_owned(), value.to_owned()))
        .to_vec();
    given.extend(pod.options.iter().cloned());
    if pod.option("hostname").is_none() && pod.option("uts") != Some("host") {
        given.push(("hostname".to_owned(), pod.hostname.clone()));
    }
    if pod.option("network").is_none() && pod.share.iter().any(|shared| shared == "net") {
        // Its image is the host's own, but it has the network of containers with other images.
        let needs_one = ["publish", "publish-all", "egress"].map(|option| pod.option(option));
        let needs_one = needs_one.into_iter().flatten().any(|value| value != "false");
        let network = network::default_of(NetworkUser::Container, needs_one)?;
        given.push(("network".to_owned(), network));
    }
    let mut options = RunOptions::default();
    for (option, value) in &given {
        options.set(option, value)?;
    }
    options.command = vec![format!("/{}", super::PAUSE)];
    options.name = Some(parse_name(
        &name.unwrap_or_else(|| format!("{}-infra", pod.id.short())),
    )?);
    options.pod = Some(pod.id.to_string());
    let request = RunRequest {
        image: Image::Host,
        options,
        given,
        kept: true,
        init: crate::HostInit::default(),
    };
    Ok(container::create(home, request)?.id)
}

/// Writes the file of `--pod-id-file`; an existing one belongs to another pod.
fn note_id(path: PathBuf, id: &ContainerId) -> Result<(), EngineError> {
    let written = std::fs::File::create_new(&path).and_then(|mut file| {
        let written = file.write_all(id.as_str().as_bytes());
        if written.is_err() {
            best_effort(std::fs::remove_file(&path));
        }
        written
    });
    written.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => PodError::IdFile(path.display().to_string()).into(),
        _ => EngineError::Request(RequestError::File {
            option: "pod-id-file",
            attempt: "write",
            path,
            source,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(share: Option<&str>, infra: Option<bool>) -> PodRequest {
        PodRequest {
            share: share.map(str::to_owned),
            infra,
            ..PodRequest::default()
        }
    }

    #[test]
    fn what_is_shared() {
        for (share, infra, expected) in [
            (None, None, &["ipc", "net", "uts"][..]),
            (None, Some(false), &[]),
            (Some("none"), None, &[]),
            (Some(""), None, &[]),
            (Some("net,pid,net"), Some(true), &["net", "pid"]),
            (Some("+pid"), None, &["ipc", "net", "uts", "pid"]),
        ] {
            assert_eq!(shared(&request(share, infra)).unwrap(), expected, "{share:?}");
        }
        for (share, infra, words) in [
            ("net,mnt", None, "invalid kernel namespace to share: mnt"),
            ("net", Some(false), "cannot set share(net) namespaces"),
        ] {
            let error = shared(&request(Some(share), infra)).unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
