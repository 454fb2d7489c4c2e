//! A container as `docker inspect` shows it.

use super::endpoints::network_settings;
use super::host_config::host_config;
use super::mounts::mounts;
use super::requested::podmans_config;
use serde_json::{Map, Value, json};
use tote_engine::container::{Health, State};
use tote_engine::{ContainerDetails, driver_of, moment, status_word};

/// Describes a container with docker's fields.
#[must_use]
pub fn container_details(of: &ContainerDetails) -> Value {
    let (entry, options) = (&of.entry, &of.options);
    let container = &entry.container;
    let path_and_args = container.path_and_args.split_first();
    let (path, args) = path_and_args.map_or((String::new(), Vec::new()), |(path, args)| {
        (path.clone(), args.to_vec())
    });
    let mut value = json!({
        "Id": container.id.as_str(),
        "Created": moment(container.created),
        "Path": path,
        "Args": args,
        "State": state_of(&entry.state),
        "Image": container.image_id.clone().unwrap_or_else(|| container.image.clone()),
        "ResolvConfPath": "",
        "HostnamePath": "",
        "HostsPath": "",
        "LogPath": of.files.log.as_ref().map(|log| log.display().to_string()).unwrap_or_default(),
        "Name": format!("/{}", container.name),
        "RestartCount": entry.state.restart_count,
        "Driver": driver_of(container),
        "Platform": "linux",
        "MountLabel": "",
        "ProcessLabel": "",
        "AppArmorProfile": options.security.apparmor.clone().unwrap_or_default(),
        "ExecIDs": null,
        "HostConfig": host_config(of),
        "GraphDriver": graph_driver(of),
        "Mounts": mounts(of),
        "Config": of.config,
        "NetworkSettings": network_settings(of),
        "Pod": container.pod.clone().unwrap_or_default(),
    });
    if let (Some(policy), Some(value)) = (&options.egress, value.as_object_mut()) {
        let refused = of.refused.iter().map(|one| {
            json!({
                "Time": moment(one.at),
                "Protocol": one.protocol,
                "Destination": one.destination,
                "Packets": one.count,
                "Process": one.process.clone().unwrap_or_default(),
            })
        });
        let egress = json!({
            "Policy": policy.to_string(),
            "Keep": options.egress_keep.unwrap_or_default().to_string(),
            "Refused": refused.collect::<Vec<_>>(),
        });
        value.insert("Egress".to_owned(), egress);
    }
    if let Some(config) = value["Config"].as_object_mut() {
        config.extend(podmans_config(of));
    }
    if options.vm.is_some()
        && let Some(value) = value.as_object_mut()
    {
        value.insert(
            "VirtualMachine".to_owned(),
            json!({
                "Vmm": "qemu",
                "Kernel": entry.state.kernel,
                "Shares": entry.state.shares,
                "Template": entry.state.template,
                "Memory": of.machine_memory(),
            }),
        );
    }
    if let (Some(size), Some(value)) = (of.size, value.as_object_mut()) {
        value.insert("SizeRw".to_owned(), Value::from(size.written));
        value.insert("SizeRootFs".to_owned(), Value::from(size.written + size.image));
    }
    value
}

/// docker's directories, where the driver has such.
fn graph_driver(of: &ContainerDetails) -> Value {
    let files = &of.files;
    let mut directories = Map::new();
    for (key, path) in [
        ("UpperDir", &files.upper),
        ("WorkDir", &files.work),
        ("MergedDir", &files.tree),
    ] {
        if let Some(path) = path {
            directories.insert(key.to_owned(), Value::from(path.display().to_string()));
        }
    }
    json!({ "Name": driver_of(&of.entry.container), "Data": directories })
}

fn state_of(state: &State) -> Value {
    let word = status_word(state);
    let mut value = json!({
        "Status": word,
        "Running": state.runs(),
        "Paused": state.paused,
        "Restarting": word == "restarting",
        "OOMKilled": state.oom_killed,
        "Dead": word == "dead",
        "Pid": state.pid(),
        "ExitCode": state.exit_code,
        "Error": state.error,
        "EndedBy": state.ended_by.filter(|_| !state.runs()),
        "StartedAt": moment(state.started_at),
        "FinishedAt": moment(state.finished_at),
    });
    if let (Some(health), Some(value)) = (&state.health, value.as_object_mut()) {
        value.insert("Health".to_owned(), health_of(health));
    }
    value
}

fn health_of(health: &Health) -> Value {
    let log = health.log.iter().map(|result| {
        json!({
            "Start": moment(result.start),
            "End": moment(result.end),
            "ExitCode": result.exit_code,
            "Output": result.output,
        })
    });
    json!({
        "Status": health.status,
        "FailingStreak": health.failing_streak,
        "Log": log.collect::<Vec<_>>(),
    })
}
