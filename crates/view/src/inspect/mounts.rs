//! `Mounts`: binds, volumes and memory.

use super::host_config::tmpfs;
use serde_json::{Value, json};
use tote_bundle::{MountRequest, MountSource, volumes_of};
use tote_engine::ContainerDetails;

/// Mounts of the options, then volumes of the image. Mounts of `--tmpfs` stand elsewhere, as docker has it.
pub(super) fn mounts(of: &ContainerDetails) -> Vec<Value> {
    let tmpfs = tmpfs(of);
    let is_tmpfs = |request: &&MountRequest| {
        matches!(request.source, MountSource::Tmpfs(_)) && tmpfs.get(&request.destination).is_some()
    };
    let requests = of.options.mounts.iter().filter(|request| !is_tmpfs(request));
    let mut mounts: Vec<Value> = requests.map(|request| mount(of, request)).collect();
    let implied = volumes_of(&of.options, &of.image);
    let asked = |destination: &str| {
        let mut requests = of.options.mounts.iter();
        requests.any(|request| request.destination == destination)
    };
    let implied = implied.into_iter().filter(|(destination, _)| !asked(destination));
    mounts.extend(implied.map(|(destination, _)| volume(of, None, &destination, true)));
    mounts
}

fn mount(of: &ContainerDetails, request: &MountRequest) -> Value {
    let destination = &request.destination;
    match &request.source {
        MountSource::Bind(bind) => json!({
            "Type": "bind",
            "Source": bind.path,
            "Destination": destination,
            "Mode": mode(request.readonly),
            "RW": !request.readonly,
            "Propagation": bind.propagation.as_str(),
        }),
        MountSource::Volume(named) => volume(of, named.name.as_deref(), destination, !request.readonly),
        MountSource::Image(image) => json!({
            "Type": "image",
            "Source": image,
            "Destination": destination,
            "Mode": mode(request.readonly),
            "RW": !request.readonly,
            "Propagation": "",
        }),
        MountSource::Tmpfs(options) => json!({
            "Type": "tmpfs",
            "Source": "",
            "Destination": destination,
            "Mode": options.join(","),
            "RW": !options.iter().any(|option| option == "ro"),
            "Propagation": "",
        }),
    }
}

fn volume(of: &ContainerDetails, name: Option<&str>, destination: &str, writable: bool) -> Value {
    let (name, directory) = of.volume(name, destination);
    json!({
        "Type": "volume",
        "Name": name,
        "Source": directory.display().to_string(),
        "Destination": destination,
        "Driver": "local",
        "Mode": mode(!writable),
        "RW": writable,
        "Propagation": "",
    })
}

/// docker's: what stands behind the second colon of `-v`.
fn mode(readonly: bool) -> &'static str {
    if readonly { "ro" } else { "" }
}
