//! What the members of a pod say, use and do.

use super::{PodEntry, PodError, find};
use crate::container::{self, Entry, LogEntry, LogsOptions};
use crate::{EngineError, Home, Processes, Usage};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Entries that one member may be ahead of the others.
const AHEAD: usize = 64;

/// Who takes what members have said, and says whether there may be more. Whose it is where several are asked for.
type Taker<'a> = &'a mut dyn FnMut(Option<&Entry>, &LogEntry<'_>) -> bool;

/// The end of a member's log, or an entry of it.
type Said = (usize, Result<LogEntry<'static>, EngineError>);

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
    let mut errors = Vec::new();
    if let [member] = members.as_slice() {
        let id = member.container.id.as_str();
        errors.extend(container::logs(home, id, options, &mut |entry| take(None, entry)).err());
    } else if options.follow {
        let (sender, said) = sync_channel(AHEAD);
        for (place, member) in members.iter().enumerate() {
            listen(home, place, member, options, sender.clone());
        }
        drop(sender);
        for (place, said) in said {
            match said {
                Ok(entry) if !take(Some(&members[place]), &entry) => break,
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
    } else {
        in_order(home, &members, options, take, &mut errors);
    }
    Ok(errors)
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

/// Reads a member's log in a thread of its own. It ends with the log, or with whoever listens.
fn listen(home: &Home, place: usize, member: &Entry, options: &LogsOptions, sender: SyncSender<Said>) {
    let (home, id, options) = (home.clone(), member.container.id.to_string(), options.clone());
    std::thread::spawn(move || {
        let read = container::logs(&home, &id, &options, &mut |entry| {
            sender.send((place, Ok(entry.clone().into_owned()))).is_ok()
        });
        if let Err(error) = read {
            // Whoever does not listen any more does not want to know.
            tote_sys::best_effort(sender.send((place, Err(error))));
        }
    });
}

/// Gives the entries by their times; those of one moment in the order of the members.
fn in_order(
    home: &Home,
    members: &[Entry],
    options: &LogsOptions,
    take: Taker<'_>,
    errors: &mut Vec<EngineError>,
) {
    let logs: Vec<Receiver<Said>> = members
        .iter()
        .enumerate()
        .map(|(place, member)| {
            let (sender, said) = sync_channel(AHEAD);
            listen(home, place, member, options, sender);
            said
        })
        .collect();
    let mut next = |said: &Receiver<Said>| match said.recv().ok()?.1 {
        Ok(entry) => Some(entry),
        Err(error) => {
            errors.push(error);
            None
        }
    };
    let mut heads: Vec<Option<LogEntry<'static>>> = logs.iter().map(&mut next).collect();
    loop {
        let first = heads
            .iter()
            .enumerate()
            .filter_map(|(place, head)| Some((head.as_ref()?.time, place)));
        let Some((_, place)) = first.min() else {
            return;
        };
        let head = std::mem::replace(&mut heads[place], next(&logs[place]));
        if head.is_some_and(|entry| !take(Some(&members[place]), &entry)) {
            return;
        }
    }
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
