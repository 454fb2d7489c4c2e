//! What a container is.

use super::claim::Claim;
use super::stamp::{Stamp, StampedEnd};
use crate::network::Endpoint;
use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use tote_bundle::ContainerId;

/// How a container is doing; docker's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It was never started.
    #[default]
    Created,
    /// Its first process is there.
    Running,
    /// It has ended, and its monitor waits before it starts it again.
    Restarting,
    /// It is being removed; never in a file, see [`super::find`].
    Removing,
    /// It has ended.
    Exited,
    /// What is written of it cannot be read; never in a file, see [`super::Entry::lost`].
    Dead,
}

impl Status {
    /// docker's word.
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

/// A process for good: a number alone may be somebody else's by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// As the host counts.
    pub pid: u32,
    /// When it started, as field 22 of `/proc/PID/stat` counts.
    pub start_time: u64,
}

impl ProcessId {
    /// That process now; `None` when it has just ended.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let start_time = tote_state::process::start_time(pid)?;
        Some(Self { pid, start_time })
    }

    /// Whether it is there, a zombie included.
    #[must_use]
    pub fn exists(self) -> bool {
        tote_state::process::start_time(self.pid) == Some(self.start_time)
    }
}

/// What a container is: `state.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// How it is doing.
    pub status: Status,
    /// Whether it is frozen. Not written by the claim's holder alone, so the cgroup is what counts: `pause` sets it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Its first process, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessId>,
    /// Who watches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor: Option<ProcessId>,
    /// The boot that `process` and `monitor` are of, as `/proc/sys/kernel/random/boot_id` names it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot: String,
    /// Where its cgroup is, as the cgroup crate writes it down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Its ends in networks, while it has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Endpoint>,
    /// When it was last started: nanoseconds since 1970, 0 for never.
    pub started_at: u64,
    /// When it last ended: nanoseconds since 1970, 0 for never.
    pub finished_at: u64,
    /// docker's: the program's own, 128 and the signal's number, or 125 to 127 where it could not be started.
    pub exit_code: i32,
    /// Whether the kernel killed one of its processes for want of memory.
    pub oom_killed: bool,
    /// Why it could not be started, or was not watched to its end; one line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// How often its restart policy has started it.
    pub restart_count: u32,
    /// The paths of the image that it had copies of to write to, under the split driver.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// Its health, where it is looked after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
}

/// docker's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthStatus {
    /// Not yet known.
    #[default]
    Starting,
    /// The last check was fine.
    Healthy,
    /// As many checks as were allowed to have failed.
    Unhealthy,
}

impl HealthStatus {
    /// docker's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// The health of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// What the checks say together.
    pub status: HealthStatus,
    /// How many failed one after another.
    pub failing_streak: u32,
    /// The last five, the oldest first.
    pub log: Vec<HealthResult>,
}

/// One check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthResult {
    /// When it began: nanoseconds since 1970.
    pub start: u64,
    /// When it ended: nanoseconds since 1970.
    pub end: u64,
    /// 0 is healthy; -1 where it took too long.
    pub exit_code: i32,
    /// The first 4096 bytes of what it said.
    pub output: String,
}

/// The error of a container that ended with its monitor.
pub(super) const UNWATCHED: &str = "its monitor was killed";

/// The record in a container's directory.
pub(super) const FILE: &str = "state.json";

impl State {
    /// Whether there is a first process: running, paused or not.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.status == Status::Running
    }

    /// The first process's number while it runs, else 0, as docker has it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.map_or(0, |process| process.pid)
    }

    /// Compares what is written with the world: nobody who holds the claim means that nobody watches, and the kernel
    /// ends a container with whoever watches it. Where the disk was full then, the stamp says how it has ended. Gives
    /// whether it had to be corrected.
    pub(super) fn correct(&mut self, held: bool, stamp: Stamp) -> bool {
        if held || !matches!(self.status, Status::Running | Status::Restarting) {
            return false;
        }
        self.status = Status::Exited;
        (self.process, self.monitor, self.paused) = (None, None, false);
        self.networks.clear();
        // In seconds, for some file systems know no more; one of an earlier life is older.
        if let Some(end) = stamp.end.filter(|end| end.at / NANOS >= self.started_at / NANOS) {
            (self.exit_code, self.oom_killed) = (end.exit_code.into(), end.oom_killed);
            (self.finished_at, self.error) = (end.at.max(self.started_at), String::new());
            return true;
        }
        // docker says 255 of what ended unseen with the machine.
        let now = boot();
        (self.exit_code, self.error) = if self.boot == now || now.is_empty() {
            (137, UNWATCHED.to_owned())
        } else {
            (255, "the machine was started again".to_owned())
        };
        true
    }

    /// What is written; that of a container which was never started where nothing is.
    pub(crate) fn read(home: &Home, id: &ContainerId) -> Result<Self, EngineError> {
        let written = tote_state::record::read(&home.container(id).join(FILE))?;
        Ok(written.unwrap_or_default())
    }

    /// What is written, corrected.
    pub(crate) fn truth(home: &Home, id: &ContainerId) -> Result<Self, EngineError> {
        for _ in 0..8 {
            let mut state = Self::read(home, id)?;
            if !matches!(state.status, Status::Running | Status::Restarting) {
                return Ok(state);
            }
            let held = Claim::is_held(home, id);
            if held {
                return Ok(state);
            }
            // It may have ended in good order in between: then the file says so now.
            if Self::read(home, id)? == state {
                state.correct(held, Stamp::of(home, id));
                return Ok(state);
            }
        }
        Self::read(home, id)
    }

    /// Writes down where cgroups will be, where the id does not say so: whoever finds this process dead finds them. Nobody
    /// else writes before there is a process.
    pub(crate) fn note_groups(
        home: &Home,
        id: &ContainerId,
        groups: Option<&str>,
    ) -> Result<(), EngineError> {
        let Some(groups) = groups else { return Ok(()) };
        let mut state = Self::read(home, id)?;
        state.cgroup = Some(groups.to_owned());
        state.write(home, id)
    }

    /// Writes down the last state of a container that has ended: on a full disk as a [`Stamp`], for which [`keep_room`] has
    /// made the file. Whoever calls it holds the claim.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub(crate) fn write_last(&self, home: &Home, id: &ContainerId) -> Result<(), EngineError> {
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

    /// Writes it down. Who calls it holds the claim.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn write(&self, home: &Home, id: &ContainerId) -> Result<(), EngineError> {
        Ok(tote_state::record::write(&home.container(id).join(FILE), self)?)
    }
}

/// Makes the file for the last state of a container that has begun to run: the disk may be full when it ends. Without it
/// the exit code is lost then.
pub(crate) fn keep_room(home: &Home, id: &ContainerId) {
    Stamp::prepare(home, id);
}

const NANOS: u64 = 1_000_000_000;

/// The boot that this is; empty where the kernel does not say.
pub(crate) fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim_end().to_owned()
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
