//! What the members of a pod say, use and do.

use super::{PodEntry, PodError, find};
use crate::container::{self, Entry, LogEntry, LogsOptions};
use crate::{EngineError, Home, Processes, Usage};

/// Who takes what members have said, and says whether there may be more. Whose it is where several are asked for.
type Taker<'a> = &'a mut dyn FnMut(Option<&Entry>, &LogEntry<'_>) -> bool;

/// Gives what the members of a pod have written to `take`, or what those of them have that are named: by their times,
/// and while it is followed as it comes. The infra container says nothing. Gives what came of each log that could not be
/// read; the others go on.
///
/// # Errors
/// There is no such pod, or a container that is named is not in it.
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

/// Those that are named, or all but the infra container.
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

/// What the members of pods use that run: of those that are named, of all where none is. Each with the pod's id.
///
/// # Errors
/// There is no such pod.
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

/// The processes of all members that run; `words` are as those of [`crate::top`].
///
/// # Errors
/// There is no such pod, none of its containers runs, or the words mean nothing.
pub fn top(home: &Home, wanted: &str, words: &[String]) -> Result<Processes, EngineError> {
    let found = find(home, wanted)?;
    if !found.members.iter().any(|member| member.state.runs()) {
        return Err(PodError::NotRunning(found.pod.name).into());
    }
    crate::top::top_of(&found.members, words)
}
