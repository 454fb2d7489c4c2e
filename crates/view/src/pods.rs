//! Pods in lists, as podman shows them.

use crate::listing::Listing;
use crate::text::{self, joined};
use serde_json::{Value, json};
use tote_engine::container::Entry;
use tote_engine::pod::{self, PodEntry};
use tote_engine::{Home, moment, network_of, status_word};

const HEADINGS: &[(&str, &str)] = &[
    ("ID", "POD ID"),
    ("Id", "POD ID"),
    ("Name", "NAME"),
    ("Status", "STATUS"),
    ("Created", "CREATED"),
    ("InfraID", "INFRA ID"),
    ("InfraId", "INFRA ID"),
    ("NumberOfContainers", "# OF CONTAINERS"),
    ("ContainerIds", "IDS"),
    ("ContainerNames", "NAMES"),
    ("ContainerStatuses", "STATUS"),
    ("Labels", "LABELS"),
    ("Networks", "NETWORKS"),
    ("Restarts", "RESTARTS"),
    ("Namespace", "NAMESPACES"),
    ("Cgroup", "CGROUP"),
    ("Error", "ERROR"),
];

/// Choice of what a table of pods shows.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of podman's")]
pub struct PodColumns {
    /// True if ids are not cut.
    pub whole: bool,
    /// True for a column with the ids of the members.
    pub ids: bool,
    /// True for a column with the names of the members.
    pub names: bool,
    /// True for a column with the states of the members.
    pub status: bool,
    /// True for columns about the namespaces and the cgroup.
    pub namespaces: bool,
}

/// Lists pods with podman's fields.
#[must_use]
pub fn pods(home: &Home, entries: &[PodEntry], wanted: PodColumns) -> Listing {
    let view = View {
        home,
        whole: wanted.whole,
        now: tote_calendar::now().as_secs(),
    };
    Listing {
        headings: HEADINGS,
        columns: columns(wanted),
        rows: entries.iter().map(|entry| view.row(entry)).collect(),
        methods: entries
            .iter()
            .map(|entry| {
                let error = entry.damaged.as_ref().map(|damaged| &damaged.reason);
                json!({ "Label": entry.pod.labels, "Error": error.map_or("", String::as_str) })
            })
            .collect(),
        ..Listing::default()
    }
}

/// Chooses the columns. As with podman, columns about containers replace their number.
fn columns(wanted: PodColumns) -> String {
    let mut columns = vec![
        "{{.ID}}",
        "{{.Name}}",
        "{{.Status}}",
        "{{.Created}}",
        "{{.InfraID}}",
    ];
    let usual = columns.len();
    for (flag, column) in [
        (wanted.ids, "{{.ContainerIds}}"),
        (wanted.names, "{{.ContainerNames}}"),
        (wanted.status, "{{.ContainerStatuses}}"),
    ] {
        if flag {
            columns.push(column);
        }
    }
    let has_containers = columns.len() > usual;
    if wanted.namespaces {
        columns.extend(["{{.Cgroup}}", "{{.Namespace}}"]);
    }
    if !has_containers {
        columns.push("{{.NumberOfContainers}}");
    }
    columns.join("\t")
}

fn networks(entry: &PodEntry) -> Vec<String> {
    let infra = entry.infra();
    infra
        .map(|infra| network_of(&infra.container))
        .into_iter()
        .collect()
}

/// Settings and context for showing rows.
struct View<'a> {
    home: &'a Home,
    whole: bool,
    now: u64,
}

impl View<'_> {
    fn row(&self, entry: &PodEntry) -> Value {
        let pod = &entry.pod;
        let cut = |id: &str| {
            id.chars()
                .take(if self.whole { usize::MAX } else { 12 })
                .collect::<String>()
        };
        let all = |what: &dyn Fn(&Entry) -> String| {
            let members: Vec<String> = entry.members.iter().map(what).collect();
            members.join(",")
        };
        let restarts: u32 = entry
            .members
            .iter()
            .map(|member| member.state.restart_count)
            .sum();
        let infra = cut(pod.infra.as_deref().unwrap_or_default());
        let age = self.now.saturating_sub(pod.created / 1_000_000_000);
        json!({
            "ID": cut(pod.id.as_str()),
            "Id": cut(pod.id.as_str()),
            "Name": pod.name,
            "Status": entry.status.as_str(),
            "Created": match entry.damaged {
                Some(_) => String::new(),
                None => format!("{} ago", text::duration(age)),
            },
            "InfraID": infra,
            "InfraId": infra,
            "NumberOfContainers": entry.members.len(),
            "ContainerIds": all(&|member| cut(member.container.id.as_str())),
            "ContainerNames": all(&|member| member.container.display().to_owned()),
            "ContainerStatuses": all(&|member| status_word(&member.state).to_owned()),
            "Labels": joined(&pod.labels),
            "Networks": networks(entry).join(","),
            "Restarts": restarts.to_string(),
            "Namespace": pod.share.join(","),
            "Cgroup": pod::cgroup_of(self.home, pod),
        })
    }
}

/// Formats a pod with the fields of podman's `--format json`.
#[must_use]
pub fn pod_report(home: &Home, entry: &PodEntry) -> Value {
    let members = entry.members.iter().map(|member| {
        json!({
            "Id": member.container.id.as_str(),
            "Names": member.container.display(),
            "Status": status_word(&member.state),
            "RestartCount": member.state.restart_count,
        })
    });
    json!({
        "Cgroup": pod::cgroup_of(home, &entry.pod),
        "Containers": members.collect::<Vec<_>>(),
        "Created": moment(entry.pod.created),
        "Id": entry.pod.id.as_str(),
        "InfraId": entry.pod.infra.clone().unwrap_or_default(),
        "Name": entry.pod.name,
        "Namespace": "",
        "Networks": networks(entry),
        "Status": entry.status.as_str(),
        "Labels": entry.pod.labels,
    })
}
