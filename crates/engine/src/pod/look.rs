//! Lists of pods, and details of one.

use super::{Pod, PodEntry, PodError, group, list};
use crate::container::{Entry, Status};
use crate::look::label::{has_label, label};
use crate::look::{Pattern, moment, network_of};
use crate::{EngineError, Home};
use serde_json::{Map, Value, json};

/// Selection of pods to list.
#[derive(Clone, Debug, Default)]
pub struct PodSelection {
    /// Filters `KEY=VALUE`: values of one key are alternatives, except labels; every key must apply.
    pub filters: Vec<String>,
}

/// Lists the selected pods, the newest first.
///
/// # Errors
/// [`PodError::Filter`].
pub fn select(home: &Home, selection: &PodSelection) -> Result<Vec<PodEntry>, EngineError> {
    let mut filters = Vec::new();
    for text in &selection.filters {
        let parsed = text.split_once('=').and_then(|(key, value)| parse(key, value));
        filters.push(parsed.ok_or_else(|| PodError::Filter(text.clone()))?);
    }
    let fits = |entry: &PodEntry| {
        filters.iter().all(|(key, filter)| match filter {
            Filter::Label(..) => filter.fits(entry),
            _ => filters
                .iter()
                .any(|(other, filter)| other == key && filter.fits(entry)),
        })
    };
    let mut pods = list(home)?;
    pods.retain(fits);
    Ok(pods)
}

enum Filter {
    Id(Pattern),
    Name(Pattern),
    Label(String, Option<String>, bool),
    Status(String),
    MemberId(Pattern),
    MemberName(Pattern),
    MemberStatus(String),
    Members(usize),
    Network(String),
    Until(i128),
}

fn parse(key: &str, value: &str) -> Option<(&'static str, Filter)> {
    Some(match key {
        "id" => ("id", Filter::Id(Pattern::parse(&format!("^{value}"))?)),
        "name" => ("name", Filter::Name(Pattern::parse(value)?)),
        "label" | "label!" => {
            let (name, value) = label(value);
            ("label", Filter::Label(name, value, key == "label"))
        }
        "status" => {
            let word = value.to_lowercase();
            let known = [
                "created", "running", "degraded", "paused", "exited", "stopped", "error", "dead",
            ];
            known
                .contains(&word.as_str())
                .then_some(("status", Filter::Status(word)))?
        }
        "ctr-ids" => ("ctr-ids", Filter::MemberId(Pattern::parse(&format!("^{value}"))?)),
        "ctr-names" => ("ctr-names", Filter::MemberName(Pattern::parse(value)?)),
        "ctr-status" => ("ctr-status", Filter::MemberStatus(value.to_lowercase())),
        "ctr-number" => ("ctr-number", Filter::Members(value.parse().ok()?)),
        "network" => ("network", Filter::Network(value.to_owned())),
        "until" => {
            let time = tote_calendar::Time::parse(value, tote_calendar::Time::now(), 0);
            ("until", Filter::Until(time.ok()?.0))
        }
        _ => return None,
    })
}

impl Filter {
    fn fits(&self, entry: &PodEntry) -> bool {
        let any = |fits: &dyn Fn(&Entry) -> bool| entry.members.iter().any(fits);
        match self {
            Self::Id(pattern) => pattern.is_in(entry.pod.id.as_str()),
            Self::Name(pattern) => pattern.is_in(&entry.pod.name),
            Self::Label(name, value, has) => has_label(&entry.pod.labels, name, value.as_deref()) == *has,
            Self::Status(word) => entry.status.as_str().eq_ignore_ascii_case(word),
            Self::MemberId(pattern) => any(&|member| pattern.is_in(member.container.id.as_str())),
            Self::MemberName(pattern) => any(&|member| pattern.is_in(&member.container.name)),
            Self::MemberStatus(word) => any(&|member| member_status(member) == *word),
            Self::Members(count) => entry.members.len() == *count,
            Self::Network(network) => entry
                .infra()
                .is_some_and(|infra| network_of(&infra.container) == *network),
            Self::Until(time) => i128::from(entry.pod.created) < *time,
        }
    }
}

/// Returns podman's word for a member's state.
pub(super) fn member_status(member: &Entry) -> &'static str {
    match member.state.status {
        Status::Running if member.state.paused => "paused",
        status => status.as_str(),
    }
}

/// Formats a pod as podman's `pod inspect` shows it.
#[must_use]
pub fn inspect(home: &Home, entry: &PodEntry) -> Value {
    let pod = &entry.pod;
    let path = cgroup_of(home, pod);
    let members = entry.members.iter().map(|member| {
        let mut shown = json!({
            "Id": member.container.id.as_str(),
            "Name": member.container.display(),
            "State": member_status(member),
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
        "CgroupParent": pod.limit(group::PARENT).unwrap_or_default(),
        "CgroupPath": path,
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

/// Returns the directory of the pod's cgroup in the first hierarchy that has it; empty without a cgroup.
#[must_use]
pub fn cgroup_of(home: &Home, pod: &Pod) -> String {
    let group = group::group_of(home, pod.id.as_str()).ok().flatten();
    let path = group.as_ref().and_then(|group| group.paths().next());
    path.map(|(_, path)| path.display().to_string())
        .unwrap_or_default()
}

/// Adds the common limits of the members, under podman's names.
fn limits(pod: &Pod, shown: &mut Map<String, Value>) {
    let Ok(options) = group::options(&pod.limits) else {
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

fn infra(entry: &PodEntry) -> Value {
    let all = |name: &str| {
        let given = entry.pod.options.iter().filter(|(option, _)| option == name);
        given.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let network = entry
        .infra()
        .map_or_else(|| "none".to_owned(), |infra| network_of(&infra.container));
    json!({
        "PortBindings": Map::new(),
        "HostNetwork": network == "host",
        "StaticIP": "",
        "StaticMAC": "",
        "NoManageResolvConf": false,
        "DNSServer": all("dns"),
        "DNSSearch": null,
        "DNSOption": null,
        "NoManageHosts": false,
        "HostAdd": all("add-host"),
        "Networks": [network],
        "NetworkOptions": null,
        "pid_ns": entry.pod.option("pid").unwrap_or("private"),
        "userns": entry.pod.option("userns").unwrap_or("host"),
        "uts_ns": entry.pod.option("uts").unwrap_or("private"),
    })
}
