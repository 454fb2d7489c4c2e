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
    /// Pause of a paused container.
    #[error("container {0} is already paused")]
    AlreadyPaused(String),
    /// Unpause of a container that is not paused.
    #[error("container {0} is not paused")]
    NotPaused(String),
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
