//! Errors of containers.

mod start;

use super::StreamError;
pub use start::StartError;

/// Error of the work with a container; in docker's words if it has some.
#[derive(Debug, thiserror::Error)]
pub enum LifeError {
    /// Stopped container where a running one is needed.
    #[error("cannot {action} container: {name}: container {id} is not running")]
    NotRunning {
        /// Requested action.
        action: &'static str,
        /// Container as requested.
        name: String,
        /// Short id of the container.
        id: String,
    },
    /// Running container where a stopped one is needed.
    #[error(
        "cannot remove container {0:?}: container is running: stop the container before removing or force remove"
    )]
    Running(String),
    /// Container that another command changes.
    #[error("container {0} is being changed by another command")]
    Busy(String),
    /// Container with an unreadable record.
    #[error("container {id} is dead: {reason}")]
    Lost {
        /// Full id of the container.
        id: String,
        /// Reason of the failure, in one line.
        reason: String,
    },
    /// Container of a newer tote, which is left alone.
    #[error("cannot remove container {id}: {reason}")]
    NewerRecord {
        /// Full id of the container.
        id: String,
        /// Newer part of the record, in one line.
        reason: String,
    },
    /// Claim that another process holds for too long.
    #[error("container {id} is still held by another process after {} s", .after.as_secs())]
    Held {
        /// Full id of the container.
        id: String,
        /// Duration of the wait.
        after: std::time::Duration,
    },
    /// Container whose removal has begun.
    #[error("container {0} is marked for removal and cannot be started")]
    Removing(String),
    /// Start of a paused container.
    #[error("cannot start a paused container, try unpause instead")]
    Paused,
    /// Pause of a paused container, or unpause of one that is not.
    #[error("container {name} is {} paused", if *.is_paused { "already" } else { "not" })]
    Pausing {
        /// Name of the container.
        name: String,
        /// True if it is paused.
        is_paused: bool,
    },
    /// Process that the kernel does not end.
    #[error("cannot {action} container {name}: its process {pid}{} still exists {} s after SIGKILL", .state.text(), .after.as_secs())]
    Undying {
        /// Requested action.
        action: &'static str,
        /// Name of the container.
        name: String,
        /// Process as this machine numbers it.
        pid: u32,
        /// State of the process.
        state: UndyingState,
        /// Duration of the wait.
        after: std::time::Duration,
    },
    /// Action that needs a cgroup, on a container without one.
    #[error("container {0} has no cgroup: {1} needs one")]
    NoCgroup(String, &'static str),
    /// Action on a container of `run --rm` in the foreground, which has no records.
    #[error(
        "cannot {1} container {0}: it was started with --rm and lives as long as the command that runs it"
    )]
    Unkept(String, &'static str),
    /// Renaming to the present name.
    #[error("renaming a container with the same name as its current name")]
    SameName,
    /// Failed action on the container's cgroup.
    #[error("cannot {attempt} container {name}")]
    Cgroup {
        /// Attempted action.
        attempt: &'static str,
        /// Name of the container.
        name: String,
        /// Reason of the failure.
        #[source]
        source: tote_cgroup::Error,
    },
    /// Removal of the container's own name as a link; docker's wording.
    #[error("Conflict, cannot remove the default link name of the container")]
    DefaultLink,
    /// Restart of a container that is removed at its end.
    #[error("cannot restart container {0}: it was started with --rm and is removed when it ends")]
    RestartOfRm(String),
    /// Invalid limits for `update`.
    #[error(transparent)]
    Limits(#[from] tote_bundle::SpecError),
    /// A start that failed, or cannot be begun.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A container's streams or its log.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A container that is not running.
    #[error("container {0:?} is not running")]
    NoContainer(String),
}
crate::parts! {
    LifeError {
        tote_monitor::MonitorError => Start,
    }
}

/// Reason why a killed process still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndyingState {
    /// Call that waits for a disk, a server or a freezer, and that no signal ends (state D).
    Uninterruptible,
    /// Another state.
    Other,
}

impl UndyingState {
    /// Returns the reason for a process, by what the kernel says about it.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        // absence: the process has ended meanwhile
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        match stat.rsplit_once(") ") {
            Some((_, rest)) if rest.starts_with('D') => Self::Uninterruptible,
            _ => Self::Other,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Uninterruptible => ", which is in a call that no signal ends (state D),",
            Self::Other => "",
        }
    }

    fn hint(self, pid: u32) -> String {
        match self {
            Self::Uninterruptible => format!(
                "it ends when that call does: look for a file system whose server does not answer, or for another freezer; \
                 'cat /proc/{pid}/stack' shows the call"
            ),
            Self::Other => {
                format!("'cat /proc/{pid}/status' shows what keeps it: a tracer, or a frozen cgroup")
            }
        }
    }
}

/// Suggested remedy for a container without records.
const UNKEPT: &str = "start it with -d beside --rm and attach to it, with -it beside --rm, where it can be left and attached to, or without --rm: then it has a monitor, a log and records";

impl LifeError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Start(error) => error.exit_code(),
            Self::NoContainer(_) => 125,
            _ => 1,
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Start(error) => error.hint(),
            Self::Lost { id, .. } => Some(format!(
                "make the record readable again; 'tote rm -f {id}' removes the container and all that it wrote"
            )),
            Self::NewerRecord { .. } => {
                Some("use the tote that wrote it, or add -f to remove the container all the same".to_owned())
            }
            Self::Unkept(..) | Self::Stream(StreamError::Unkept(_)) => Some(UNKEPT.to_owned()),
            Self::Undying { pid, state, .. } => Some(state.hint(*pid)),
            Self::RestartOfRm(_) => Some("run it again, or start it without --rm".to_owned()),
            Self::Cgroup {
                source: tote_cgroup::Error::NoFreezer,
                ..
            } => Some(
                "with cgroup v1 a container of 'run --rm' in the foreground has none: start it with -d beside --rm and attach to \
                 it, or without --rm"
                    .to_owned(),
            ),
            Self::NoCgroup(..) => {
                Some("root has cgroups; others need a subtree of cgroup v2 of their own".to_owned())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_without_a_freezer_is_told_how_to_have_one() {
        let error = LifeError::Cgroup {
            attempt: "pause",
            name: "c".to_owned(),
            source: tote_cgroup::Error::NoFreezer,
        };
        let hint = error.hint().unwrap_or_default();
        // A container of `run -it --rm` has none either.
        assert!(hint.contains("-d beside --rm") && !hint.contains("-it"), "{hint}");
    }
}
