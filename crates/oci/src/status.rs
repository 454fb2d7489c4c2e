//! What a container is at this moment, asked of the kernel.

use crate::OciError;
use crate::record::Record;
use crate::store::{GATE, Place};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;
use tote_cgroup::Cgroup;
use tote_sys::Errno;

/// The time that it usually takes at most.
const USUAL: Duration = Duration::from_millis(500);

/// How long a process that is about to end may take: it can be in the middle of writing to a slow disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// The specification's states, and `paused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// A command is at it.
    Creating,
    /// It waits for its start.
    Created,
    /// Its program runs.
    Running,
    /// Its program is suspended.
    Paused,
    /// Its program, or whoever created it, has ended.
    Stopped,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Creating => "creating",
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        })
    }
}

/// What the container of this record is.
pub(crate) fn status(place: &Place, record: &Record) -> Status {
    if record.pid.is_none() {
        return if place.is_busy() {
            Status::Creating
        } else {
            Status::Stopped
        };
    }
    if !is_alive(record) {
        return Status::Stopped;
    }
    // A gate that cannot be asked is no gate that anybody could open.
    if record.has_gate && tote_sys::waits_for_start(place.dir(), GATE).unwrap_or(false) {
        return Status::Created;
    }
    if is_frozen(record) {
        Status::Paused
    } else {
        Status::Running
    }
}

/// Whether the first process has not ended. One that cannot be looked at counts as alive: what has ended may be removed.
pub(crate) fn is_alive(record: &Record) -> bool {
    let (Some(pid), Some(started)) = (record.pid, record.start_time) else {
        return false;
    };
    match look(pid) {
        Ok(found) => found
            .is_some_and(|(state, start_time)| start_time == started && !matches!(state, 'Z' | 'X' | 'x')),
        Err(_) => true,
    }
}

/// A descriptor of the first process; `None` when it has ended.
pub(crate) fn init(record: &Record) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(record.pid?).ok()?)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // Asked after the pidfd is open: from here on the number cannot change hands unnoticed.
    is_alive(record).then_some(pidfd)
}

/// Waits for the end of a process that was killed, or that has told why it gives up.
pub(crate) fn wait_end(init: &OwnedFd) {
    wait(init, PATIENCE);
}

/// Waits as long as the end of a process that was killed usually takes; whether it has ended.
pub(crate) fn ends_soon(init: &OwnedFd) -> bool {
    wait(init, USUAL)
}

fn wait(init: &OwnedFd, limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).ok();
    loop {
        match poll(&mut [PollFd::new(init, PollFlags::IN)], limit.as_ref()) {
            Err(Errno::INTR) => {}
            polled => return polled == Ok(1),
        }
    }
}

/// Only the hierarchy that can tell is opened: there are nine of them.
fn is_frozen(record: &Record) -> bool {
    let tells = |line: &&str| {
        let mut fields = line.split(' ');
        let (version, list) = (fields.next(), fields.nth(1));
        version == Some("v2") || list.is_some_and(|list| list.split(',').any(|name| name == "freezer"))
    };
    let lines: String = record
        .cgroup
        .lines()
        .filter(tells)
        .flat_map(|line| [line, "\n"])
        .collect();
    Cgroup::open(&lines).is_ok_and(|cgroup| cgroup.is_frozen().unwrap_or(false))
}

/// State and start time of a process; nothing where there is none of that number.
///
/// # Errors
/// Why nobody can say whether there is one.
fn look(pid: u32) -> std::io::Result<Option<(char, u64)>> {
    match std::fs::read_to_string(stat_of(pid)) {
        Ok(stat) => Ok(parse(&stat)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // It has ended while it was looked at.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// When a process started, in clock ticks since boot: with the id it names a process for good.
///
/// # Errors
/// The start time cannot be read: without it no later command could tell whether the process is there.
pub(crate) fn start_time(pid: u32) -> Result<Option<u64>, OciError> {
    let found = look(pid).map_err(OciError::file("read", &stat_of(pid)))?;
    Ok(found.map(|(_, start_time)| start_time))
}

fn stat_of(pid: u32) -> String {
    format!("/proc/{pid}/stat")
}

/// The third and the 22nd field of `/proc/PID/stat`. The second is a name in parentheses that may contain anything.
fn parse(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        let stat = "12 (a) b) (c) S 1 1 1 0 -1 4 0 0 0 0 1 2 3 4 20 0 1 0 98765 1 2";
        assert_eq!(parse(stat), Some(('S', 98765)));
        for bad in [
            "",
            "1 (x)",
            "1 (x) S",
            "1 (x) S 1 1 1 0 -1 4 0 0 0 0 1 2 3 4 20 0 1 0 x",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_number_that_is_somebody_elses_by_now_is_dead() {
        let pid = std::process::id();
        let mut record = Record {
            pid: Some(pid),
            start_time: start_time(pid).unwrap(),
            ..Record::default()
        };
        assert!(is_alive(&record) && init(&record).is_some());
        record.start_time = record.start_time.map(|ticks| ticks + 1);
        assert!(!is_alive(&record) && init(&record).is_none());
        record.start_time = None;
        assert!(!is_alive(&record));
    }
}
