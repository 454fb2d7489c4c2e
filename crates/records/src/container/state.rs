//! State of a container.

use super::ended_by::EndedBy;
use super::live::is_held;
use super::record_lock::Change;
use super::stamp::{Stamp, StampedEnd};
use crate::network::Endpoint;
use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use tote_bundle::ContainerId;

/// Status of a container; docker's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Container that was never started.
    #[default]
    Created,
    /// Container with a first process.
    Running,
    /// Container that has ended, and that its monitor will start again.
    Restarting,
    /// Container in removal; never in a file, see [`super::find()`].
    Removing,
    /// Container that has ended.
    Exited,
    /// Container with an unreadable record; never in a file, see [`super::Entry::lost`].
    Dead,
}

impl Status {
    /// Returns docker's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Restarting => "restarting",
            Self::Removing => "removing",
            Self::Exited => "exited",
            Self::Dead => "dead",
        }
    }
}

/// Unique identity of a process: the number alone could be reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Pid on the host.
    pub pid: u32,
    /// Start time as in field 22 of `/proc/PID/stat`.
    pub start_time: u64,
}

impl ProcessId {
    /// Identifies a present process; `None` if it has just ended.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let start_time = tote_state::process::start_time(pid)?;
        Some(Self { pid, start_time })
    }

    /// True if the process exists, a zombie included.
    #[must_use]
    pub fn exists(self) -> bool {
        tote_state::process::start_time(self.pid) == Some(self.start_time)
    }
}

/// State of a container: `state.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// Status of the container.
    pub status: Status,
    /// True if the container is paused. `pause` sets this without the claim, so the cgroup is authoritative.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// First process of the container, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessId>,
    /// Monitor of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor: Option<ProcessId>,
    /// Boot of `process` and `monitor`, as `/proc/sys/kernel/random/boot_id` names it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot: String,
    /// Path of the cgroup, in the cgroup crate's notation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Release of the kernel of its virtual machine, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Way in which that virtual machine has directories of this one, if it has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<String>,
    /// Name of the template from which that virtual machine goes on, if it does not boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Endpoints in networks, if any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Endpoint>,
    /// Time of the last start: nanoseconds since 1970, 0 for never.
    pub started_at: u64,
    /// Time of the last end: nanoseconds since 1970, 0 for never.
    pub finished_at: u64,
    /// Exit code of docker: the program's own, 128 plus the signal's number, or 125 to 127 after a failed start.
    pub exit_code: i32,
    /// True if the kernel killed one of its processes for lack of memory.
    pub oom_killed: bool,
    /// Reason of its end, unless that was a failed start or no process saw the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
    /// Reason of a failed start, of a failed watch, or of an end by a limit; one line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Number of starts by the restart policy.
    pub restart_count: u32,
    /// Paths of the image of which the container had writable copies, under the split driver.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// User and group that the caller is in its user namespace in place of root, where that is not so: its files on disk have
    /// owners accordingly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_ids: Option<(u32, u32)>,
    /// Health of the container, if it has a health check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
}

/// Health status; docker's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthStatus {
    /// Unknown health.
    #[default]
    Starting,
    /// Healthy: the last check succeeded.
    Healthy,
    /// Unhealthy: the permitted number of checks has failed.
    Unhealthy,
}

impl HealthStatus {
    /// Returns docker's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// Health of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Status from all checks.
    pub status: HealthStatus,
    /// Number of consecutive failures.
    pub failing_streak: u32,
    /// Last five results, the oldest first.
    pub log: Vec<HealthResult>,
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthResult {
    /// Time of its begin: nanoseconds since 1970.
    pub start: u64,
    /// Time of its end: nanoseconds since 1970.
    pub end: u64,
    /// Exit code: 0 is healthy; -1 after a timeout.
    pub exit_code: i32,
    /// First 4096 bytes of the output.
    pub output: String,
}

/// Error text of a container that ended with its monitor.
pub const UNWATCHED: &str = "its monitor was killed";

/// Name of the record in a container's directory.
pub const FILE: &str = "state.json";

impl State {
    /// True if there is a first process: running or paused.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.status == Status::Running
    }

    /// Returns the first process's number while it runs, else 0, as docker does.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.map_or(0, |process| process.pid)
    }

    /// Compares the record with the facts: without a held claim the container is unwatched, and the kernel ends a
    /// container with its monitor. If the disk was full then, the stamp describes the end. Returns true if the state
    /// was corrected.
    pub fn correct(&mut self, held: bool, stamp: Stamp) -> bool {
        if held || !matches!(self.status, Status::Running | Status::Restarting) {
            return false;
        }
        self.status = Status::Exited;
        (self.process, self.monitor, self.paused) = (None, None, false);
        self.networks.clear();
        // The comparison is in seconds, because some file systems store no more; a stamp of an earlier run is older.
        if let Some(end) = stamp.end.filter(|end| end.at / NANOS >= self.started_at / NANOS) {
            (self.exit_code, self.oom_killed) = (end.exit_code.into(), end.oom_killed);
            (self.finished_at, self.error) = (end.at.max(self.started_at), String::new());
            return true;
        }
        // docker shows 255 for a container that ended unseen with the machine.
        let now = boot();
        (self.exit_code, self.error) = if self.boot == now || now.is_empty() {
            (137, UNWATCHED.to_owned())
        } else {
            (255, "the machine was started again".to_owned())
        };
        true
    }

    /// Corrects the record of a watched container by what could not be written into it on a full disk: that the container was paused, or
    /// has ended and waits for its next start.
    fn heed(&mut self, stamp: Stamp) {
        if let Some(paused) = stamp.paused {
            self.paused = paused && self.runs();
        }
        let ended = stamp.end.filter(|end| end.at / NANOS >= self.started_at / NANOS);
        if let Some(end) = ended.filter(|_| self.runs())
            && !self.process.is_some_and(ProcessId::exists)
        {
            self.status = Status::Restarting;
            (self.process, self.paused) = (None, false);
            (self.exit_code, self.oom_killed) = (end.exit_code.into(), end.oom_killed);
            self.finished_at = end.at.max(self.started_at);
        }
    }

    /// Reads the record; a missing one means that the container was never started.
    pub fn read(home: &Home, id: &ContainerId) -> Result<Self, EngineError> {
        let written = tote_state::record::read(&home.container(id).join(FILE))?;
        Ok(written.unwrap_or_default())
    }

    /// Reads the record, and corrects it.
    pub fn truth(home: &Home, id: &ContainerId) -> Result<Self, EngineError> {
        for _ in 0..8 {
            let mut state = Self::read(home, id)?;
            if !matches!(state.status, Status::Running | Status::Restarting) {
                return Ok(state);
            }
            let held = is_held(home, id);
            if held {
                state.heed(Stamp::of(home, id));
                return Ok(state);
            }
            // The container may have ended normally in between: then the file has changed.
            if Self::read(home, id)? == state {
                state.correct(held, Stamp::of(home, id));
                return Ok(state);
            }
        }
        Self::read(home, id)
    }

    /// Records the paths of future cgroups that the id does not imply, so that they are found after the death of this
    /// process. No other process writes the state before there is a process.
    pub fn note_groups(home: &Home, id: &ContainerId, groups: Option<&str>) -> Result<(), EngineError> {
        let Some(groups) = groups else { return Ok(()) };
        let mut state = Self::read(home, id)?;
        state.cgroup = Some(groups.to_owned());
        state.write(home, id)
    }

    /// Records the last state of a container that has ended: on a full disk as a [`Stamp`], for which [`keep_room`]
    /// has made the file. The caller holds the claim.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn write_last(&self, home: &Home, id: &ContainerId) -> Result<(), EngineError> {
        let full = match self.write(home, id) {
            Err(error) if error.is_full() => error,
            written => return written,
        };
        let end = StampedEnd {
            at: self.finished_at,
            exit_code: u8::try_from(self.exit_code & 0xff).unwrap_or(u8::MAX),
            oom_killed: self.oom_killed,
        };
        Stamp::change(home, id, |stamp| stamp.end = Some(end)).map_err(|_| full)
    }

    /// Writes the record. The caller holds the claim.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn write(&self, home: &Home, id: &ContainerId) -> Result<(), EngineError> {
        Ok(tote_state::record::write(&home.container(id).join(FILE), self)?)
    }

    /// Writes the record, which says less than before, also on a full disk.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn write_less(&self, home: &Home, id: &ContainerId) -> Result<(), EngineError> {
        Ok(tote_state::record::write_less(
            &home.container(id).join(FILE),
            self,
        )?)
    }
}

/// Makes the file for the last state of a running container: the disk may be full when it ends. Without the file the
/// exit code is lost then.
pub fn keep_room(home: &Home, id: &ContainerId) {
    Stamp::prepare(home, id);
}

const NANOS: u64 = 1_000_000_000;

/// Returns the id of the present boot; empty if the kernel does not provide it.
pub fn boot() -> String {
    // absence: an empty id is that of no boot
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim_end().to_owned()
}

/// Notes that a container is paused, or goes on: in its state, or on a full disk in its [`Stamp`].
///
/// # Errors
/// [`EngineError::State`].
pub fn note_pause(home: &Home, id: &ContainerId, paused: bool) -> Result<(), EngineError> {
    match change_state(home, id, |state| state.paused = paused && state.runs()) {
        Ok(_) if Stamp::of(home, id).paused.is_none() => Ok(()),
        Ok(_) => Stamp::change(home, id, |stamp| stamp.paused = None),
        Err(full) if full.is_full() => {
            Stamp::change(home, id, |stamp| stamp.paused = Some(paused)).map_err(|_| full)
        }
        Err(error) => Err(error),
    }
}

/// Changes the record of a container's state.
pub fn change_state(
    home: &Home,
    id: &ContainerId,
    change: impl FnOnce(&mut State),
) -> Result<State, EngineError> {
    let _change = Change::begin(home, id)?;
    let mut state = State::read(home, id)?;
    change(&mut state);
    state.write(home, id)?;
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_watches_has_ended() {
        let running = State {
            status: Status::Running,
            process: ProcessId::of(std::process::id()),
            boot: boot(),
            ..State::default()
        };
        let mut state = running.clone();
        assert!(!state.correct(true, Stamp::default()));
        assert_eq!(state, running);
        assert!(state.correct(false, Stamp::default()));
        assert_eq!(
            (state.status, state.exit_code, state.pid()),
            (Status::Exited, 137, 0)
        );
        let mut state = State {
            boot: "another".to_owned(),
            ..running
        };
        assert!(state.correct(false, Stamp::default()));
        assert_eq!(state.exit_code, 255);
        let mut state = State {
            status: Status::Exited,
            exit_code: 3,
            ..State::default()
        };
        assert!(!state.correct(false, Stamp::default()));
        assert_eq!(state.exit_code, 3);
    }

    #[test]
    fn a_stamp_says_how_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = super::super::tests::container(&home, 0x41, "web").id;
        let running = State {
            status: Status::Running,
            boot: boot(),
            started_at: 5 * NANOS + 5,
            ..State::default()
        };
        running.write(&home, &id).unwrap();
        keep_room(&home, &id);
        assert_eq!(State::truth(&home, &id).unwrap().exit_code, 137);
        for (at, exit_code) in [(4 * NANOS, 137), (5 * NANOS, 3)] {
            let end = StampedEnd {
                at,
                exit_code: 3,
                oom_killed: true,
            };
            Stamp::change(&home, &id, |stamp| stamp.end = Some(end)).unwrap();
            let state = State::truth(&home, &id).unwrap();
            assert_eq!((state.status, state.exit_code), (Status::Exited, exit_code));
            assert_eq!(
                (state.oom_killed, state.error.is_empty()),
                (exit_code == 3, exit_code == 3)
            );
        }
        assert_eq!(State::truth(&home, &id).unwrap().finished_at, 5 * NANOS + 5);
    }

    /// On a full disk the record of a container between two lives is that of the last one.
    #[test]
    fn a_stamp_corrects_what_is_watched() {
        let ended = StampedEnd {
            at: 9 * NANOS,
            exit_code: 5,
            oom_killed: false,
        };
        let running = State {
            status: Status::Running,
            process: ProcessId::of(std::process::id()),
            started_at: 8 * NANOS,
            ..State::default()
        };
        let heeding = |state: &State, stamp: Stamp| {
            let mut state = state.clone();
            state.heed(stamp);
            (state.status, state.paused, state.exit_code, state.pid() != 0)
        };
        let (paused, end) = (Some(true), Some(ended));
        let stamp = |paused, end| Stamp {
            paused,
            end,
            ..Stamp::default()
        };
        let gone = State {
            process: running.process.map(|own| ProcessId {
                start_time: own.start_time + 1,
                ..own
            }),
            ..running.clone()
        };
        let later = State {
            started_at: 10 * NANOS,
            ..gone.clone()
        };
        for (state, stamp, expected) in [
            (&running, stamp(None, None), (Status::Running, false, 0, true)),
            (&running, stamp(paused, end), (Status::Running, true, 0, true)),
            (&gone, stamp(None, end), (Status::Restarting, false, 5, false)),
            (&later, stamp(None, end), (Status::Running, false, 0, true)),
        ] {
            assert_eq!(heeding(state, stamp), expected);
        }
    }

    #[test]
    fn processes_are_told_apart_by_when_they_started() {
        let own = ProcessId::of(std::process::id()).unwrap();
        assert!(own.exists());
        let other = ProcessId {
            start_time: own.start_time + 1,
            ..own
        };
        assert!(!other.exists());
    }

    #[test]
    fn what_is_not_there_is_as_if_it_were_new() {
        assert_eq!(serde_json::from_str::<State>("{}").unwrap(), State::default());
    }
}
