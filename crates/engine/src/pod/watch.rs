//! Output, usage and processes of a pod's members.

use super::{PodEntry, PodError, find};
use crate::container::{self, Entry, LogEntry, LogsOptions};
use crate::{EngineError, Home, Processes, Usage};

/// Receiver of log entries, with the member if several are requested. Returns false to stop.
type Taker<'a> = &'a mut dyn FnMut(Option<&Entry>, &LogEntry<'_>) -> bool;

/// Sends the output of a pod's members, or of the named ones, to `take`: ordered by time, and while following as it
/// comes. The infra container has no output. Returns the errors of unreadable logs; the others are shown.
///
/// # Errors
/// Fails if the pod is missing, or a named container is not in it.
pub fn logs(
    home: &Home,
    wanted: &str,
    named: &[String],
    options: &LogsOptions,
    take: Taker<'_>,
) -> Result<Vec<EngineError>, EngineError> {
    let found = find(home, wanted)?;
    let members = chosen(&found, named)?;
    if let [member] = members.as_slice() {
        let id = member.container.id.as_str();
        let read = container::logs(home, id, options, &mut |entry| take(None, entry));
        return Ok(read.err().into_iter().collect());
    }
    Ok(container::logs_of(
        home,
        &members,
        options,
        &mut |member, entry| take(Some(member), entry),
    ))
}

/// Lists the named members, by default all but the infra container.
fn chosen(found: &PodEntry, named: &[String]) -> Result<Vec<Entry>, EngineError> {
    if named.is_empty() {
        return Ok(found.others().cloned().collect());
    }
    let member = |name: &String| {
        let id = |member: &&Entry| member.container.id.has_prefix(name);
        let mut members = found.members.iter();
        let member = members.find(|member| member.container.display() == name);
        let member = member.or_else(|| found.members.iter().find(id));
        member.cloned().ok_or_else(|| {
            EngineError::from(PodError::NoMember {
                container: name.clone(),
                pod: found.pod.name.clone(),
            })
        })
    };
    named.iter().map(member).collect()
}

/// Measures the running members of the named pods, by default of all. Returns each with the pod's id.
///
/// # Errors
/// Fails if a pod is missing.
pub fn usage(home: &Home, wanted: &[String]) -> Result<Vec<(String, Usage)>, EngineError> {
    let pods = if wanted.is_empty() {
        super::list(home)?
    } else {
        let found = wanted.iter().map(|wanted| find(home, wanted));
        found.collect::<Result<Vec<_>, _>>()?
    };
    let of = |found: PodEntry| {
        let used = crate::stats::usage_of(&found.members);
        used.into_iter()
            .map(move |usage| (found.pod.id.to_string(), usage))
    };
    Ok(pods.into_iter().flat_map(of).collect())
}

/// Lists the processes of all running members; `words` are those of [`crate::top()`].
///
/// # Errors
/// Fails if the pod is missing, none of its containers runs, or the words are invalid.
pub fn top(home: &Home, wanted: &str, words: &[String]) -> Result<Processes, EngineError> {
    let found = find(home, wanted)?;
    if !found.members.iter().any(|member| member.state.runs()) {
        return Err(PodError::NotRunning(found.pod.name).into());
    }
    crate::top::top_of(&found.members, words)
}
