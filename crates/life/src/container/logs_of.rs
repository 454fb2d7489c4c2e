//! Logs of several containers.

use super::{Entry, LogsOptions, logs};
use crate::changes::ContainerError;
use crate::{EngineError, Home};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tote_monitor::Entry as LogEntry;

/// Limit of entries that one container may be ahead of the others.
const AHEAD: usize = 64;

/// Receiver of a container's log entries, which returns whether it wants more.
type Taker<'a> = &'a mut dyn FnMut(&Entry, &LogEntry<'_>) -> bool;

/// Log entry with the position of its container, or the error at the end of that log.
type Said = (usize, Result<LogEntry<'static>, EngineError>);

/// Sends the logs of containers to `take`: ordered by time, and while following as they come. Returns the errors of
/// unreadable logs; the others go on.
pub fn logs_of(home: &Home, of: &[Entry], options: &LogsOptions, take: Taker<'_>) -> Vec<EngineError> {
    let mut errors = Vec::new();
    if !options.follow {
        in_order(home, of, options, take, &mut errors);
        return errors;
    }
    let (sender, said) = sync_channel(AHEAD);
    for (place, entry) in of.iter().enumerate() {
        errors.extend(listen(home, place, entry, options, sender.clone()).err());
    }
    drop(sender);
    for (place, said) in said {
        match said {
            Ok(entry) if !take(&of[place], &entry) => break,
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    errors
}

/// Reads a container's log in a thread of its own, which ends with the log or with the receiver.
fn listen(
    home: &Home,
    place: usize,
    of: &Entry,
    options: &LogsOptions,
    sender: SyncSender<Said>,
) -> Result<(), EngineError> {
    let (home, id, options) = (home.clone(), of.container.id.to_string(), options.clone());
    let listening = std::thread::Builder::new().spawn(move || {
        let read = logs(&home, &id, &options, &mut |entry| {
            sender.send((place, Ok(entry.clone().into_owned()))).is_ok()
        });
        if let Err(error) = read {
            // A receiver that is gone does not need the error.
            tote_sys::best_effort(sender.send((place, Err(error))));
        }
    });
    listening
        .map(drop)
        .map_err(|error| ContainerError::Thread(error).into())
}

/// Sends the entries ordered by time; entries of equal time in the order of the containers.
fn in_order(
    home: &Home,
    of: &[Entry],
    options: &LogsOptions,
    take: Taker<'_>,
    errors: &mut Vec<EngineError>,
) {
    let logs: Vec<Receiver<Said>> = of
        .iter()
        .enumerate()
        .map(|(place, entry)| {
            let (sender, said) = sync_channel(AHEAD);
            errors.extend(listen(home, place, entry, options, sender).err());
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
        if head.is_some_and(|entry| !take(&of[place], &entry)) {
            return;
        }
    }
}
