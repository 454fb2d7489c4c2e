//! Lookup of pods, and their status.

use super::lock::REMOVING;
use super::{Pod, PodError};
use crate::container::{self, Entry, LifeError, LostRecord, Status};
use crate::{EngineError, Home};
use std::collections::BTreeMap;
use tote_bundle::ContainerId;
use tote_state::StateError;

/// Result for a pod: the errors of its members.
pub type Done = Result<(), Vec<EngineError>>;

/// Status of a pod; podman's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodStatus {
    /// Pod whose members were never started.
    Created,
    /// Pod whose members all run.
    Running,
    /// Pod with some running members, or with members in namespaces of an infra container that has ended.
    Degraded,
    /// Pod whose members are all paused.
    Paused,
    /// Pod whose members have all ended.
    Exited,
    /// Pod without running members, some of which were never started.
    Stopped,
    /// Pod with a member in an invalid state.
    Error,
    /// Pod whose removal has begun.
    Dead,
}

impl PodStatus {
    /// Returns podman's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "Created",
            Self::Running => "Running",
            Self::Degraded => "Degraded",
            Self::Paused => "Paused",
            Self::Exited => "Exited",
            Self::Stopped => "Stopped",
            Self::Error => "Error",
            Self::Dead => "Dead",
        }
    }

    /// Derives the status from the states of the members; podman's rules.
    fn of(members: &[Entry]) -> Self {
        let (mut running, mut paused, mut ended, mut created, mut wrong) = (0, 0, 0, 0, 0);
        for member in members {
            *match member.state.status {
                _ if member.state.paused => &mut paused,
                Status::Running => &mut running,
                Status::Exited | Status::Restarting => &mut ended,
                Status::Created => &mut created,
                Status::Removing | Status::Dead => &mut wrong,
            } += 1;
        }
        let all = members.len();
        match () {
            () if all == 0 => Self::Created,
            () if running == all => Self::Running,
            () if running > 0 => Self::Degraded,
            () if paused == all => Self::Paused,
            () if ended == all => Self::Exited,
            () if ended > 0 => Self::Stopped,
            () if wrong > 0 => Self::Error,
            () if paused > 0 => Self::Degraded,
            () => Self::Created,
        }
    }
}

/// Pod with its members.
#[derive(Clone, Debug)]
pub struct PodEntry {
    /// Record of the pod.
    pub pod: Pod,
    /// Members of the pod: the infra container, then the others, the oldest first.
    pub members: Vec<Entry>,
    /// Status of the pod.
    pub status: PodStatus,
    /// Damage of the record, if only the id of the pod is known.
    pub damaged: Option<DamagedPod>,
}

/// Damage of the record of a pod.
#[derive(Clone, Debug)]
pub struct DamagedPod {
    /// Reason and remedy, in one line.
    pub reason: String,
    /// True for the record of a newer tote.
    pub newer: bool,
    /// True if the record is lost for certain.
    pub lost: bool,
}

impl DamagedPod {
    fn of(error: &EngineError) -> Self {
        match error {
            EngineError::State(StateError::Damaged(damaged)) => Self {
                reason: damaged.told(),
                newer: damaged.why.is_newer(),
                lost: damaged.why.is_lost(),
            },
            error => Self {
                reason: tote_sys::chain(error),
                newer: false,
                lost: false,
            },
        }
    }
}

impl PodEntry {
    fn new(
        home: &Home,
        pod: Pod,
        damaged: Option<DamagedPod>,
        mut members: Vec<Entry>,
    ) -> Result<Self, EngineError> {
        members.sort_by_key(|member| (!member.container.is_infra(), member.container.created));
        let status = if damaged.is_some() || tote_state::record::is_there(&home.pod(&pod.id).join(REMOVING))?
        {
            PodStatus::Dead
        } else {
            PodStatus::of(&members)
        };
        let mut entry = Self {
            pod,
            members,
            status,
            damaged,
        };
        if entry.status == PodStatus::Running && entry.members.iter().any(|member| entry.is_stray(member)) {
            entry.status = PodStatus::Degraded;
        }
        Ok(entry)
    }

    /// True if a member runs in namespaces of an infra container that has ended: members that were
    /// started later are in others.
    #[must_use]
    pub fn is_stray(&self, member: &Entry) -> bool {
        let Some((infra, process)) = self.infra().zip(member.state.process) else {
            return false;
        };
        let mode = format!("container:{}", infra.container.id);
        let joins = |option| member.container.option(option) == Some(mode.as_str());
        let kept = infra.state.process.filter(|_| infra.state.runs());
        // A member cannot have joined an infra container that began later. Start times of processes are independent
        // of the clock, but accurate only to a tick.
        let is_kept = kept.is_some_and(|kept| {
            (kept.start_time, infra.state.started_at) <= (process.start_time, member.state.started_at)
        });
        member.state.runs() && !is_kept && ["network", "ipc", "uts", "pid"].into_iter().any(joins)
    }

    /// Returns the container that keeps the namespaces.
    #[must_use]
    pub fn infra(&self) -> Option<&Entry> {
        self.members.iter().find(|member| member.container.is_infra())
    }

    /// Lists all other members.
    pub fn others(&self) -> impl Iterator<Item = &Entry> {
        self.members.iter().filter(|member| !member.container.is_infra())
    }
}

/// Finds a pod by id, name, or unique prefix of an id; `/NAME` is only taken as a name, as with containers.
///
/// # Errors
/// [`PodError::Missing`] and [`PodError::Ambiguous`].
pub fn find(home: &Home, wanted: &str) -> Result<PodEntry, EngineError> {
    let pod = record(home, wanted)?;
    let members = members(home, &pod.id)?;
    PodEntry::new(home, pod, None, members)
}

/// Finds only the record of a pod.
pub fn record(home: &Home, wanted: &str) -> Result<Pod, EngineError> {
    let id = seek(home, wanted)?;
    Pod::read(home, &id)?.ok_or_else(|| PodError::Missing(wanted.to_owned()).into())
}

/// Finds only the id of a pod, which may have a record that cannot be used.
pub fn seek(home: &Home, wanted: &str) -> Result<ContainerId, EngineError> {
    let missing = || EngineError::from(PodError::Missing(wanted.to_owned()));
    let name = wanted.strip_prefix('/');
    let id = match wanted.parse::<ContainerId>() {
        Ok(id) => Some(id),
        Err(_) => named(home, name.unwrap_or(wanted))?,
    };
    if let Some(id) = id {
        return Ok(id);
    }
    if name.is_some() {
        return Err(missing());
    }
    let mut ids = ids(home)?.into_iter().filter(|id| id.has_prefix(wanted));
    match (ids.next(), ids.next()) {
        (Some(id), None) => Ok(id),
        (Some(_), Some(_)) => Err(PodError::Ambiguous(wanted.to_owned()).into()),
        (None, _) => Err(missing()),
    }
}

/// Finds the pod of a name.
pub fn named(home: &Home, name: &str) -> Result<Option<ContainerId>, EngineError> {
    match container::name::named(home, name)? {
        Some(id) if is_there(home, &id)? => Ok(Some(id)),
        _ => Ok(None),
    }
}

/// Lists the ids of all directories of pods.
///
/// # Errors
/// [`EngineError::State`] if the directory cannot be listed.
pub fn ids(home: &Home) -> Result<Vec<ContainerId>, EngineError> {
    let names = tote_state::record::names_in(&home.pods())?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Asks whether a pod of that id exists, complete or not.
///
/// # Errors
/// [`EngineError::State`] if the directory cannot be examined.
pub fn is_there(home: &Home, id: &ContainerId) -> Result<bool, EngineError> {
    Ok(tote_state::record::is_there(&home.pod(id))?)
}

/// Lists the members of a pod with readable records.
pub fn members(home: &Home, id: &ContainerId) -> Result<Vec<Entry>, EngineError> {
    container::list(home).map(|entries| of_pod(entries, id))
}

/// Lists the members for the question whether one runs: the unreadable record of a container that may run is an error, because it
/// may be a member's.
pub fn members_whole(home: &Home, id: &ContainerId) -> Result<Vec<Entry>, EngineError> {
    let entries = container::list(home)?;
    let may_run = |entry: &&Entry| {
        entry.lost == Some(LostRecord::Container) && container::is_held(home, &entry.container.id)
    };
    match entries.iter().find(may_run) {
        Some(entry) => Err(LifeError::lost(entry).into()),
        None => Ok(of_pod(entries, id)),
    }
}

fn of_pod(mut entries: Vec<Entry>, id: &ContainerId) -> Vec<Entry> {
    entries.retain(|entry| entry.container.pod.as_deref() == Some(id.as_str()));
    entries
}

/// Lists all pods, the newest first. A pod with an unreadable record is dead, and only its id is known.
///
/// # Errors
/// [`EngineError::State`] if the directory cannot be listed.
pub fn list(home: &Home) -> Result<Vec<PodEntry>, EngineError> {
    let mut pods = Vec::new();
    for id in ids(home)? {
        match Pod::read(home, &id) {
            Ok(pod) => pods.extend(pod.map(|pod| (pod, None))),
            Err(error) => pods.push((Pod::unknown(&id), Some(DamagedPod::of(&error)))),
        }
    }
    if pods.is_empty() {
        return Ok(Vec::new());
    }
    pods.sort_by_key(|(pod, _)| std::cmp::Reverse(pod.created));
    let mut members: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for entry in container::list(home)? {
        if let Some(pod) = entry.container.pod.clone() {
            members.entry(pod).or_default().push(entry);
        }
    }
    let entries = pods.into_iter().map(|(pod, damaged)| {
        let members = members.remove(pod.id.as_str()).unwrap_or_default();
        PodEntry::new(home, pod, damaged, members)
    });
    entries.collect()
}

/// Returns the name of the pod of that id; empty if it is missing.
#[must_use]
pub fn name_of(home: &Home, id: &str) -> String {
    // absence: a name for people
    let pod = id.parse().ok().and_then(|id| Pod::read(home, &id).ok()?);
    pod.map(|pod| pod.name).unwrap_or_default()
}

/// Returns the id of the pod of that name; any other text is taken as the prefix of an id.
pub fn id_of(home: &Home, wanted: &str) -> String {
    seek(home, wanted).map_or_else(|_| wanted.to_owned(), |id| id.to_string())
}

/// Lists the names of all pods.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    let ids = ids(home).unwrap_or_default().into_iter();
    // absence: completions of a shell
    let pods = ids.filter_map(|id| Pod::read(home, &id).ok()?);
    pods.map(|pod| pod.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::State;

    fn member(status: Status, paused: bool) -> Entry {
        let text = format!(r#"{{"id":"{}"}}"#, ContainerId::from_bytes([1; 32]));
        Entry {
            container: serde_json::from_str(&text).unwrap(),
            state: State {
                status,
                paused,
                ..State::default()
            },
            kept: true,
            lost: None,
        }
    }

    #[test]
    fn podmans_words() {
        use Status::{Created, Dead, Exited, Running};
        for (members, status) in [
            (&[][..], PodStatus::Created),
            (&[Created, Created], PodStatus::Created),
            (&[Running, Running], PodStatus::Running),
            (&[Running, Exited], PodStatus::Degraded),
            (&[Running, Created], PodStatus::Degraded),
            (&[Exited, Exited], PodStatus::Exited),
            (&[Exited, Created], PodStatus::Stopped),
            (&[Created, Dead], PodStatus::Error),
        ] {
            let members: Vec<Entry> = members.iter().map(|status| member(*status, false)).collect();
            assert_eq!(PodStatus::of(&members), status);
        }
        let paused = [member(Running, true), member(Running, true)];
        assert_eq!(PodStatus::of(&paused), PodStatus::Paused);
        let some = [member(Running, true), member(Running, false)];
        assert_eq!(PodStatus::of(&some), PodStatus::Degraded);
    }
}
