//! Lists of pods, and details of one.

use super::{Pod, PodEntry, PodError, group, list};
use crate::container::Entry;
use crate::look::label::{has_label, label};
use crate::look::{Pattern, network_of, status_word};
use crate::{EngineError, Home};

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
            Self::MemberStatus(word) => any(&|member| status_word(&member.state) == *word),
            Self::Members(count) => entry.members.len() == *count,
            Self::Network(network) => entry
                .infra()
                .is_some_and(|infra| network_of(&infra.container) == *network),
            Self::Until(time) => i128::from(entry.pod.created) < *time,
        }
    }
}

/// Returns the directory of the pod's cgroup in the first hierarchy that has it; empty without a cgroup.
#[must_use]
pub fn cgroup_of(home: &Home, pod: &Pod) -> String {
    let group = group::group_of(home, pod.id.as_str()).ok().flatten();
    let path = group.as_ref().and_then(|group| group.paths().next());
    path.map(|(_, path)| path.display().to_string())
        .unwrap_or_default()
}
