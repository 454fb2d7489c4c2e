//! Expectations of programs that call this one by the name of podman.

use serde_json::{Value, json};
use std::path::Path;
use tote_engine::container::{Entry, mounts};
use tote_engine::{Home, networks_of, published, status_word};

/// Version of podman whose command line this one follows, for programs that ask before they use something.
pub(crate) const VERSION: &str = "4.9.4";

/// True if this program was called by the name of podman.
pub(crate) fn is_called_so() -> bool {
    let program = tote_engine::arguments().into_iter().next().unwrap_or_default();
    Path::new(&program).file_name() == Some("podman".as_ref())
}

/// Describes containers as podman's `ps --format json` does.
pub(crate) fn containers(home: &Home, entries: &[Entry]) -> Value {
    let now = tote_calendar::now().as_secs();
    entries.iter().map(|entry| container(home, entry, now)).collect()
}

fn container(home: &Home, entry: &Entry, now: u64) -> Value {
    let (container, state) = (&entry.container, &entry.state);
    let seconds = |nanoseconds: u64| nanoseconds / 1_000_000_000;
    let pod = container.pod.as_deref().unwrap_or_default();
    let ports = published(entry).map(|port| {
        json!({
            "container_port": port.container,
            "host_ip": port.host.ip().to_string(),
            "host_port": port.host.port(),
            "protocol": port.protocol,
            "range": 1,
        })
    });
    json!({
        "AutoRemove": container.rm,
        "Command": container.path_and_args,
        "Created": seconds(container.created),
        "CreatedAt": tote_view::moment(&tote_engine::moment(container.created)),
        "ExitCode": state.exit_code,
        "Exited": status_word(state) == "exited",
        "ExitedAt": seconds(state.finished_at),
        "Id": container.id.as_str(),
        "Image": container.image,
        "ImageID": container.image_id.as_deref().map(|id| id.trim_start_matches("sha256:")),
        "IsInfra": container.is_infra(),
        "Labels": container.labels,
        "Mounts": mounts(container).map(|mount| mount.destination.clone()).collect::<Vec<_>>(),
        "Names": [container.display()],
        "Networks": networks_of(container),
        "Pid": state.pid(),
        "Pod": pod,
        "PodName": if pod.is_empty() { String::new() } else { tote_engine::pod::name_of(home, pod) },
        "Ports": ports.collect::<Vec<_>>(),
        "Restarts": state.restart_count,
        "StartedAt": seconds(state.started_at),
        "State": status_word(state),
        "Status": tote_view::status(state, now),
    })
}
