//! Why something cannot be done with a container.

use tote_sys::Errno;

/// Why something cannot be done with a container; docker's words where it has some.
#[derive(Debug, thiserror::Error)]
pub enum LifeError {
    /// It is needed running.
    #[error("cannot {action} container: {name}: container {id} is not running")]
    NotRunning {
        /// What was to be done.
        action: &'static str,
        /// As asked for.
        name: String,
        /// Its id, short.
        id: String,
    },
    /// It is needed ended.
    #[error(
        "cannot remove container {0:?}: container is running: stop the container before removing or force remove"
    )]
    Running(String),
    /// Another command changes it.
    #[error("container {0} is being changed by another command")]
    Busy(String),
    /// Its record is there, and cannot be read.
    #[error("container {id} is dead: {reason}")]
    Lost {
        /// Its whole id.
        id: String,
        /// Why its record cannot be read, one line.
        reason: String,
    },
    /// A newer tote's container is left alone.
    #[error("cannot remove container {id}: {reason}")]
    NewerRecord {
        /// Its whole id.
        id: String,
        /// What is newer, one line.
        reason: String,
    },
    /// Somebody has the claim for longer than anybody waits.
    #[error("container {id} is still held by another process after {} s", .after.as_secs())]
    Held {
        /// Its whole id.
        id: String,
        /// How long it was waited for.
        after: std::time::Duration,
    },
    /// Its removal has begun.
    #[error("container {0} is marked for removal and cannot be started")]
    Removing(String),
    /// It is frozen.
    #[error("cannot start a paused container, try unpause instead")]
    Paused,
    /// It is frozen already.
    #[error("container {0} is already paused")]
    AlreadyPaused(String),
    /// It is not frozen.
    #[error("container {0} is not paused")]
    NotPaused(String),
    /// Without a cgroup nothing can be frozen or limited.
    #[error("container {0} has no cgroup: {1} needs one")]
    NoCgroup(String, &'static str),
    /// One of `run --rm` in the foreground has no records.
    #[error(
        "cannot {1} container {0}: it was started with --rm and lives as long as the command that runs it"
    )]
    Unkept(String, &'static str),
    /// The new name is the old one.
    #[error("renaming a container with the same name as its current name")]
    SameName,
    /// It could not be born; the text is the monitor's.
    #[error("{text}")]
    Launch {
        /// One line.
        text: String,
        /// What to do about it.
        hint: Option<String>,
        /// docker's exit code.
        code: u8,
    },
    /// The monitor died before the program ran.
    #[error("the container's monitor was killed before the program ran")]
    Unborn,
    /// The process that does what only the owners of an image's files can.
    #[error("the process that prepares the image's files was killed")]
    Unanswered,
    /// The process that watches it.
    #[error("cannot {attempt} the container's monitor")]
    Monitor {
        /// What was tried.
        attempt: &'static str,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// The same, from inside.
    #[error(transparent)]
    Watch(#[from] tote_monitor::MonitorError),
    /// Its cgroup.
    #[error("cannot {attempt} container {name}")]
    Cgroup {
        /// What was tried.
        attempt: &'static str,
        /// Its name.
        name: String,
        /// Why not.
        #[source]
        source: tote_cgroup::Error,
    },
    /// What is to be passed on is not there.
    #[error(
        "file descriptor {missing} is not open: LISTEN_FDS and --preserve-fds pass on {count}, from 3 on"
    )]
    Descriptor {
        /// How many there should be from 3 on.
        count: u32,
        /// The first that is not.
        missing: u32,
    },
    /// Nobody says when it is healthy; podman's words.
    #[error("sdnotify policy \"healthy\" requires a healthcheck to be set")]
    Unchecked,
    /// `--log-opt tag`.
    #[error("log opt tag={tag}")]
    Tag {
        /// As given.
        tag: String,
        /// Why not.
        #[source]
        source: tote_template::TemplateError,
    },
    /// Its own name; docker's wording.
    #[error("Conflict, cannot remove the default link name of the container")]
    DefaultLink,
    /// Two options.
    #[error("conflicting options: --restart and --rm")]
    RestartAndRm,
    /// One that goes with its end cannot be started again.
    #[error("cannot restart container {0}: it was started with --rm and is removed when it ends")]
    RestartOfRm(String),
    /// Limits that cannot be as they were given to `update`.
    #[error(transparent)]
    Limits(#[from] tote_bundle::SpecError),
}

/// What to do where a container has no records.
pub(crate) const UNKEPT: &str = "start it with -d beside --rm and attach to it, with -it beside --rm, where it can be left and attached to, or without --rm: then it has a monitor, a log and records";

impl LifeError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Launch { code, .. } => *code,
            Self::RestartAndRm
            | Self::Unborn
            | Self::Unanswered
            | Self::Unchecked
            | Self::Descriptor { .. } => 125,
            _ => 1,
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Launch { hint, .. } => hint.clone(),
            Self::Lost { id, .. } => Some(format!(
                "make the record readable again; 'tote rm -f {id}' removes the container and all that it wrote"
            )),
            Self::NewerRecord { .. } => {
                Some("use the tote that wrote it, or add -f to remove the container all the same".to_owned())
            }
            Self::Unkept(..) => Some(UNKEPT.to_owned()),
            Self::RestartOfRm(_) => Some("run it again, or start it without --rm".to_owned()),
            Self::Cgroup {
                source: tote_cgroup::Error::NoFreezer,
                ..
            } => Some(format!(
                "one of 'run --rm' in the foreground may have none: {UNKEPT}"
            )),
            Self::NoCgroup(..) => {
                Some("root has cgroups; others need a subtree of cgroup v2 of their own".to_owned())
            }
            _ => None,
        }
    }
}
