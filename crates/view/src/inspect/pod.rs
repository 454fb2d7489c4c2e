//! A pod as podman's `pod inspect` shows it.

use super::host_config::bindings;
use serde_json::{Map, Value, json};
use tote_engine::pod::{self, Pod, PodEntry};
use tote_engine::{Home, moment, networks_of, status_word};

/// Describes a pod with podman's fields.
#[must_use]
pub fn pod_details(home: &Home, entry: &PodEntry) -> Value {
    let pod = &entry.pod;
    let members = entry.members.iter().map(|member| {
        let mut shown = json!({
            "Id": member.container.id.as_str(),
            "Name": member.container.display(),
            "State": status_word(&member.state),
        });
        if entry.is_stray(member) {
            shown["Stray"] = Value::Bool(true);
        }
        shown
    });
    let mut shown = json!({
        "Id": pod.id.as_str(),
        "Name": pod.name,
        "Created": moment(pod.created),
        "CreateCommand": pod.create_command,
        "ExitPolicy": if pod.stops { "stop" } else { "continue" },
        "State": entry.status.as_str(),
        "Hostname": pod.hostname,
        "Labels": pod.labels,
        "CreateCgroup": !pod.limits.is_empty(),
        "CgroupParent": pod.cgroup_parent().unwrap_or_default(),
        "CgroupPath": pod::cgroup_of(home, pod),
        "CreateInfra": pod.infra.is_some(),
        "InfraContainerID": pod.infra.clone().unwrap_or_default(),
        "InfraConfig": infra(entry),
        "SharedNamespaces": pod.share,
        "NumContainers": entry.members.len(),
        "Containers": members.collect::<Vec<_>>(),
    });
    if let Some(shown) = shown.as_object_mut() {
        if pod.infra.is_none() {
            shown.remove("InfraConfig");
        }
        limits(pod, shown);
    }
    shown
}

/// Adds the common limits of the members, under podman's names.
fn limits(pod: &Pod, shown: &mut Map<String, Value>) {
    let Some(options) = pod.limit_options() else {
        return;
    };
    let mut put = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    if options.nano_cpus != 0 {
        put("cpu_period", json!(100_000));
        put("cpu_quota", json!(options.nano_cpus / 10_000));
    }
    if options.cpu_shares != 0 {
        put("cpu_shares", json!(options.cpu_shares));
    }
    for (name, list) in [
        ("cpuset_cpus", options.cpuset_cpus),
        ("cpuset_mems", options.cpuset_mems),
    ] {
        list.map(|list| put(name, json!(list)));
    }
    if options.memory != 0 {
        put("memory_limit", json!(options.memory));
    }
    match options.memory_swap {
        tote_bundle::Swap::Unlimited => drop(put("memory_swap", json!(-1))),
        tote_bundle::Swap::Total(total) => drop(put("memory_swap", json!(total))),
        tote_bundle::Swap::AsMemory => {}
    }
}

/// The options of the infra container, which are those of the pod.
fn infra(entry: &PodEntry) -> Value {
    let all = |name: &str| {
        let given = entry.pod.options.iter().filter(|(option, _)| option == name);
        given.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let networks = entry
        .infra()
        .map_or_else(|| vec!["none".to_owned()], |infra| networks_of(&infra.container));
    let options = entry.infra().and_then(|infra| infra.container.run_options().ok());
    let options = options.unwrap_or_default();
    let attachments = options.first_addresses.within(options.network.attachments());
    let first = attachments
        .unwrap_or_default()
        .into_iter()
        .next()
        .unwrap_or_default();
    let ip = first.ip.map(|ip| ip.to_string());
    let mac = first
        .mac
        .map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":"));
    json!({
        "PortBindings": bindings(&options),
        "HostNetwork": networks == ["host"],
        "StaticIP": ip.unwrap_or_default(),
        "StaticMAC": mac.unwrap_or_default(),
        "NoManageResolvConf": false,
        "DNSServer": all("dns"),
        "DNSSearch": all("dns-search"),
        "DNSOption": all("dns-option"),
        "NoManageHosts": options.host.no_hosts,
        "HostAdd": all("add-host"),
        "Networks": networks,
        "NetworkOptions": null,
        "pid_ns": entry.pod.option("pid").unwrap_or("private"),
        "userns": entry.pod.option("userns").unwrap_or("host"),
        "uts_ns": entry.pod.option("uts").unwrap_or("private"),
    })
}
