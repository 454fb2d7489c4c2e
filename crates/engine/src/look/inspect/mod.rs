//! A container as `docker inspect` shows it.

mod asked;
mod mounts;
mod unset;

pub use unset::UNSET_FIELDS;

use super::select::{driver_of, networks_of, status_word};
use super::size;
use super::time::moment;
use crate::container::{self, Entry, Health, State};
use crate::network::Endpoint;
use crate::{EngineError, Home};
use serde_json::{Map, Value, json};
use tote_bundle::{DEFAULT_NETWORK, ImageConfig, RunOptions};

/// A container in docker's words; with `sizes` also what it wrote, for which its files are counted.
///
/// # Errors
/// [`crate::ContainerError`] for an object that is not a container, in docker's words.
pub(crate) fn inspect_container(home: &Home, wanted: &str, sizes: bool) -> Result<Value, EngineError> {
    let entry = container::find(home, wanted)?;
    Ok(describe(home, &entry, sizes))
}

/// The options of a container, as docker's `Config` has them.
pub(crate) fn asked_config(home: &Home, entry: &Entry) -> Value {
    let subject = Subject {
        home,
        entry,
        options: entry.container.run_options().unwrap_or_default(),
        image: image_config(home, entry),
    };
    subject.config()
}

/// Sources of all parts of a description.
struct Subject<'a> {
    home: &'a Home,
    entry: &'a Entry,
    options: RunOptions,
    /// The image's configuration; that of no image where it is gone.
    image: ImageConfig,
}

fn describe(home: &Home, entry: &Entry, sizes: bool) -> Value {
    let container = &entry.container;
    let subject = Subject {
        home,
        entry,
        // What another tote wrote may have options that this one does not know: it shows what it does.
        options: container.run_options().unwrap_or_default(),
        image: image_config(home, entry),
    };
    let dir = home.container(&container.id);
    let path_and_args = container.path_and_args.split_first();
    let (path, args) = path_and_args.map_or((String::new(), Vec::new()), |(path, args)| {
        (path.clone(), args.to_vec())
    });
    let file = |name: &str| {
        let path = dir.join(name);
        if path.try_exists().unwrap_or(true) {
            path.display().to_string()
        } else {
            String::new()
        }
    };
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
        "LogPath": file(container::logging::file(&subject.options.log)),
        "Name": format!("/{}", container.name),
        "RestartCount": entry.state.restart_count,
        "Driver": driver_of(container),
        "Platform": "linux",
        "MountLabel": "",
        "ProcessLabel": "",
        "AppArmorProfile": subject.options.security.apparmor.clone().unwrap_or_default(),
        "ExecIDs": null,
        "HostConfig": subject.host_config(),
        "GraphDriver": subject.graph_driver(),
        "Mounts": subject.mounts(),
        "Config": subject.config(),
        "NetworkSettings": networks(entry, &subject.options),
        "Pod": container.pod.clone().unwrap_or_default(),
    });
    if let (Some(policy), Some(value)) = (&subject.options.egress, value.as_object_mut()) {
        let refused = crate::network::refused(home, &container.id, policy);
        let refused = refused.iter().map(|one| {
            json!({
                "Time": moment(one.at),
                "Protocol": one.protocol,
                "Destination": one.destination,
                "Packets": one.count,
                "Process": one.process.clone().unwrap_or_default(),
            })
        });
        let egress = json!({ "Policy": policy.to_string(), "Refused": refused.collect::<Vec<_>>() });
        value.insert("Egress".to_owned(), egress);
    }
    if subject.options.vm.is_some()
        && let Some(value) = value.as_object_mut()
    {
        value.insert(
            "VirtualMachine".to_owned(),
            json!({ "Vmm": "qemu", "Kernel": entry.state.kernel }),
        );
    }
    if sizes && let Some(value) = value.as_object_mut() {
        let size = size::of_container(home, entry);
        value.insert("SizeRw".to_owned(), Value::from(size.written));
        value.insert("SizeRootFs".to_owned(), Value::from(size.written + size.image));
    }
    value
}

/// The image's settings, if it still exists.
pub(crate) fn image_config(home: &Home, entry: &Entry) -> ImageConfig {
    let Some(id) = &entry.container.image_id else {
        return ImageConfig::bare();
    };
    let open = || {
        let store = crate::open_store(home).ok()?;
        store.image(&id.parse().ok()?).ok()
    };
    let image = open();
    image.map_or_else(ImageConfig::default, |image| {
        tote_images::runtime_config(&image.config.value().config)
    })
}

impl Subject<'_> {
    /// docker's directories, where the driver has such.
    fn graph_driver(&self) -> Value {
        let dir = self.home.container(&self.entry.container.id);
        let mut directories = Map::new();
        for (key, name) in [("UpperDir", "upper"), ("WorkDir", "work"), ("MergedDir", "tree")] {
            let path = dir.join(name);
            if path.try_exists().unwrap_or(true) {
                directories.insert(key.to_owned(), Value::from(path.display().to_string()));
            }
        }
        json!({ "Name": driver_of(&self.entry.container), "Data": directories })
    }
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

fn networks(entry: &Entry, options: &RunOptions) -> Value {
    let pid = entry.state.pid();
    let sandbox = if pid == 0 {
        String::new()
    } else {
        format!("/proc/{pid}/ns/net")
    };
    let mut networks = Map::new();
    for name in networks_of(&entry.container) {
        // docker's: in another's network it has none of its own.
        if !name.starts_with("container:") {
            let own = &entry.state.networks;
            let found = own
                .iter()
                .find(|one| one.network == name || one.network_id.starts_with(&name));
            let key = found.map_or(name, |found| found.network.clone());
            networks.insert(key, endpoint(entry, options, found));
        }
    }
    // docker's: of the default network alone.
    let default = entry
        .state
        .networks
        .iter()
        .find(|one| one.network == DEFAULT_NETWORK);
    let default = endpoint(entry, options, default);
    json!({
        "Bridge": "",
        "HairpinMode": false,
        "LinkLocalIPv6Address": "",
        "LinkLocalIPv6PrefixLen": 0,
        "SecondaryIPAddresses": null,
        "SecondaryIPv6Addresses": null,
        "SandboxID": "",
        "SandboxKey": sandbox,
        "Ports": ports(entry),
        "EndpointID": default["EndpointID"],
        "Gateway": default["Gateway"],
        "IPAddress": default["IPAddress"],
        "IPPrefixLen": default["IPPrefixLen"],
        "IPv6Gateway": default["IPv6Gateway"],
        "GlobalIPv6Address": default["GlobalIPv6Address"],
        "GlobalIPv6PrefixLen": default["GlobalIPv6PrefixLen"],
        "MacAddress": default["MacAddress"],
        "Networks": networks,
    })
}

/// Exposed ports of a container that runs in a network, each with the host's that lead there.
fn ports(entry: &Entry) -> Map<String, Value> {
    let mut ports = Map::new();
    if entry.state.networks.is_empty() {
        return ports;
    }
    let exposed = entry.container.exposed.iter();
    ports.extend(exposed.map(|port| (port.clone(), Value::Null)));
    for port in crate::network::ports_of(&entry.state.networks) {
        let one = json!({ "HostIp": port.host.ip().to_string(), "HostPort": port.host.port().to_string() });
        let all = ports.entry(port.private()).or_insert(Value::Null);
        match all {
            Value::Array(all) => all.push(one),
            none => *none = json!([one]),
        }
    }
    ports
}

/// docker's description of a container's end in a network; of one that does not run it is nearly empty.
fn endpoint(entry: &Entry, options: &RunOptions, found: Option<&Endpoint>) -> Value {
    let text = |of: fn(&Endpoint) -> String| found.map(of).unwrap_or_default();
    let gateway = |one: &Endpoint| one.gateway.map(|address| address.to_string()).unwrap_or_default();
    let ipv6 = found.and_then(|one| one.ipv6);
    let gateway6 = ipv6
        .and_then(|ipv6| ipv6.gateway)
        .map(|address| address.to_string());
    let address6 = ipv6.map(|ipv6| ipv6.address.to_string());
    json!({
        "IPAMConfig": null,
        "Links": null,
        "Aliases": found.filter(|one| !one.aliases.is_empty()).map(|one| &one.aliases),
        "DriverOpts": null,
        "GwPriority": found.map_or(0, |one| one.gw_priority),
        "DNSNames": found.filter(|one| one.network != DEFAULT_NETWORK).map(|one| {
            let (id, name) = (&entry.container.id, &*entry.container.name);
            crate::network::names_of((id, name), options, (None, &one.aliases))
        }),
        "NetworkID": text(|one| one.network_id.clone()),
        "EndpointID": found.map_or("", |_| entry.container.id.as_str()),
        "Gateway": text(gateway),
        "IPAddress": text(|one| one.address.to_string()),
        "IPPrefixLen": found.map_or(0, |one| one.prefix),
        "IPv6Gateway": gateway6.unwrap_or_default(),
        "GlobalIPv6Address": address6.unwrap_or_default(),
        "GlobalIPv6PrefixLen": ipv6.map_or(0, |ipv6| ipv6.prefix),
        "MacAddress": text(|one| one.mac.clone()),
    })
}

#[cfg(test)]
mod tests;
