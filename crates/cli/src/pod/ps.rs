//! `tote pod ps`.

use crate::home::home;
use crate::listing::{Listing, only_ids};
use crate::look::joined;
use crate::tell::{failure, print};
use crate::text;
use crate::words::values;
use serde_json::{Value, json};
use std::process::ExitCode;
use tote_engine::container::Entry;
use tote_engine::pod::{self, PodEntry, PodSelection};
use tote_engine::{EngineError, Home};
use tote_engine::{moment, network_of, status_word};
use tote_options::Parsed;

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
];

pub(crate) fn ps(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let selection = PodSelection {
        filters: values(parsed, "filter"),
    };
    let home = home(parsed)?;
    let mut entries = pod::select(&home, &selection)?;
    if parsed.flag("latest") {
        entries.truncate(1);
    }
    if let Some(sort) = parsed.value("sort") {
        match sort.to_str() {
            Some("created") => {}
            Some("id") => entries.sort_by(|a, b| a.pod.id.cmp(&b.pod.id)),
            Some("name") => entries.sort_by(|a, b| a.pod.name.cmp(&b.pod.name)),
            Some("number") => entries.sort_by_key(|entry| entry.members.len()),
            Some("status") => entries.sort_by_key(|entry| entry.status.as_str()),
            _ => {
                let text = "invalid option for --sort, options are: created, id, name, number, or status";
                return Ok(failure(text, None, 125));
            }
        }
    }
    if only_ids(parsed) {
        let ids = entries.iter().map(|entry| format!("{}\n", entry.pod.id));
        return Ok(print(&ids.collect::<String>()));
    }
    let format = parsed.setting("format");
    if format.is_some_and(|format| *format == *"json") {
        let reports: Vec<Value> = entries.iter().map(|entry| report(&home, entry)).collect();
        let text = serde_json::to_string_pretty(&reports).unwrap_or_default();
        return Ok(print(&format!("{text}\n")));
    }
    let view = View {
        home: &home,
        whole: parsed.flag("no-trunc"),
        now: tote_calendar::now().as_secs(),
    };
    let listing = Listing {
        headings: HEADINGS,
        columns: columns(parsed),
        rows: entries.iter().map(|entry| view.row(entry)).collect(),
        methods: entries
            .iter()
            .map(|entry| json!({ "Label": entry.pod.labels }))
            .collect(),
        ..Listing::default()
    };
    let text = match listing.text(parsed) {
        Ok(text) => text,
        Err(code) => return Ok(code),
    };
    let is_table = parsed
        .value("format")
        .is_none_or(|format| format.to_string_lossy().starts_with("table"));
    let without = text.split_once('\n').map_or("", |(_, rest)| rest);
    Ok(print(if is_table && parsed.flag("noheading") {
        without
    } else {
        &text
    }))
}

/// Chooses the columns. As with podman, columns about containers replace their number.
fn columns(parsed: &Parsed) -> String {
    let mut columns = vec![
        "{{.ID}}",
        "{{.Name}}",
        "{{.Status}}",
        "{{.Created}}",
        "{{.InfraID}}",
    ];
    let usual = columns.len();
    for (flag, column) in [
        ("ctr-ids", "{{.ContainerIds}}"),
        ("ctr-names", "{{.ContainerNames}}"),
        ("ctr-status", "{{.ContainerStatuses}}"),
    ] {
        if parsed.flag(flag) {
            columns.push(column);
        }
    }
    let has_containers = columns.len() > usual;
    if parsed.flag("ns") {
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
            "Created": format!("{} ago", text::duration(age)),
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
fn report(home: &Home, entry: &PodEntry) -> Value {
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
