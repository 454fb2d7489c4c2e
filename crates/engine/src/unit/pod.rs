//! Units of a pod: one that keeps its namespaces, and those of its members, which begin and end with it.

use super::UnitError;
use super::generate::{GenerateOptions, STOP_SECONDS, of_container, tote};
use crate::pod::{Pod, PodEntry};
use crate::{EngineError, Home};
use tote_unit::{Service, exact};

pub(super) fn of_pod(
    home: &Home,
    entry: &PodEntry,
    options: &GenerateOptions,
) -> Result<Vec<Service>, EngineError> {
    if options.template {
        return Err(UnitError::Options("--template is for containers, not for pods").into());
    }
    let pod = &entry.pod;
    let Some(infra) = entry.infra() else {
        return Err(UnitError::Options(
            "a pod without an infra container has nothing that a unit could watch",
        )
        .into());
    };
    let called = if options.name { &*pod.name } else { pod.id.as_str() };
    let name = format!("{}{}{called}", options.pod_prefix, options.separator);
    let mut members = Vec::new();
    for member in entry
        .members
        .iter()
        .filter(|member| !member.container.is_infra() && member.kept)
    {
        let mut service = of_container(home, &member.container, options)?;
        service.bound_to.push(name.clone());
        members.push(service);
    }
    let stop_seconds = options.stop_seconds.unwrap_or(STOP_SECONDS);
    let seconds = stop_seconds.to_string();
    let tote = tote(home);
    let with = |words: &[&str]| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        tote.iter().cloned().chain(words).collect()
    };
    let commands = if options.new {
        let infra = format!("{}-infra", pod.name);
        let mut create = with(&[
            "pod",
            "create",
            "--name",
            &pod.name,
            "--replace",
            "--infra-name",
            &infra,
        ]);
        create.extend(asked_for(pod));
        [
            create,
            with(&["start", "--sdnotify=conmon", &exact(&infra)]),
            with(&["pod", "stop", "--ignore", "-t", &seconds, &exact(&pod.name)]),
            with(&["pod", "rm", "--force", "--ignore", &exact(&pod.name)]),
        ]
    } else {
        let exact = if options.name {
            exact(called)
        } else {
            called.to_owned()
        };
        let stop = with(&["pod", "stop", "-t", &seconds, &exact]);
        let start = with(&["start", "--sdnotify=conmon", infra.container.id.as_str()]);
        [Vec::new(), start, stop.clone(), stop]
    };
    let own = Service {
        name,
        mounts_for: home.root().display().to_string(),
        leads: members.iter().map(|member| member.name.clone()).collect(),
        commands,
        stop_seconds,
        ..Service::default()
    };
    Ok([vec![own], members].concat())
}

/// Lists the options of `pod create`.
fn asked_for(pod: &Pod) -> Vec<String> {
    let share = if pod.share.is_empty() {
        "none".to_owned()
    } else {
        pod.share.join(",")
    };
    let mut words = vec![format!("--share={share}")];
    words.extend(
        pod.labels
            .iter()
            .map(|(key, value)| format!("--label={key}={value}")),
    );
    words.extend(
        pod.options
            .iter()
            .map(|(option, value)| format!("--{option}={value}")),
    );
    words
}
