//! State of a container at this moment, as the kernel knows it.

use crate::OciError;
use crate::record::Record;
use crate::states::Status;
use crate::store::{GATE, Place};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::ErrorKind;
use std::time::Duration;
use tote_cgroup::{Cgroup, Controllers, GroupPlace};
use tote_sys::{Errno, Wait};

/// Time that the end of a killed process usually takes at most.
const USUAL: Duration = Duration::from_millis(500);

/// Time that a process may take to end: it can be in the middle of writing to a slow disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the state of the container with this record.
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
    // A gate that cannot be asked cannot be opened either.
    if record.has_gate && tote_sys::waits_for_start(place.dir(), GATE).unwrap_or(false) {
        return Status::Created;
    }
    if is_frozen(record) {
        Status::Paused
    } else {
        Status::Running
    }
}

/// True if the first process has not ended. If it cannot be looked at, it counts as alive: an ended container may be
/// removed.
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

/// Opens a pidfd of the first process; `None` when it has ended.
pub(crate) fn init(record: &Record) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(record.pid?).ok()?)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // The check comes after the pidfd is open: from here on the pid cannot change hands unnoticed.
    is_alive(record).then_some(pidfd)
}

/// Waits for the end of a process that was killed, or that has reported why it gives up.
pub(crate) fn wait_end(init: &OwnedFd) {
    wait(init, PATIENCE);
}

/// Waits as long as the end of a killed process usually takes; true if it has ended.
pub(crate) fn ends_soon(init: &OwnedFd) -> bool {
    wait(init, USUAL)
}

fn wait(init: &OwnedFd, limit: Duration) -> bool {
    Wait::within(limit).readable(init.as_fd()) == Ok(true)
}

/// Asks the one hierarchy that can tell: opening all of them means up to nine.
fn is_frozen(record: &Record) -> bool {
    let tells = |place: &GroupPlace| place.is_v2 || place.controllers.contains(Controllers::FREEZER);
    let places = GroupPlace::readable(&record.cgroup).filter(tells);
    // absence: a status for people; what acts on a suspended group looks itself
    Cgroup::open(&GroupPlace::record(places)).is_ok_and(|cgroup| cgroup.is_frozen().unwrap_or(false))
}

/// Returns state and start time of a process; `None` if no process has this pid.
///
/// # Errors
/// Errors for which it is unknown whether the process exists.
fn look(pid: u32) -> std::io::Result<Option<(char, u64)>> {
    match std::fs::read_to_string(stat_of(pid)) {
        Ok(stat) => {
            let found = parse(&stat).map(|(state, shown)| Ok((state, tote_sys::machine_ticks(shown)?)));
            found.transpose()
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // The process has ended meanwhile.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns when a process started, in clock ticks since boot: pid and start time identify a process for good.
///
/// # Errors
/// The start time cannot be read: without it later commands could not tell whether the process is the same.
pub(crate) fn start_time(pid: u32) -> Result<Option<u64>, OciError> {
    let found = look(pid).map_err(OciError::file("read", &stat_of(pid)))?;
    Ok(found.map(|(_, start_time)| start_time))
}

fn stat_of(pid: u32) -> String {
    format!("/proc/{pid}/stat")
}

/// Parses the third and the 22nd field of `/proc/PID/stat`. The second is a name in parentheses that may contain
/// anything.
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
