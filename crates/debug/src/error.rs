//! Errors of `debug`.

use std::path::PathBuf;
use tote_sys::Errno;

/// Error of `debug`.
#[derive(Debug, thiserror::Error)]
pub enum DebugError {
    /// Unknown word before the colon of a target.
    #[error("cannot debug {0:?}: no container engine is called {1:?}")]
    Engine(String, String),
    /// Layer of the tools that cannot be kept or added to.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// Invalid value of `--view`.
    #[error("invalid value {0:?} for --view or --root: behind debug it is tools or target")]
    View(String),
    /// Use of `--effective-user` with `--user`.
    #[error("--effective-user cannot be given together with --user")]
    TwoUsers,
    /// User for `--effective-user` that cannot be had.
    #[error("cannot make files as {user:?} of this machine: {reason}")]
    Effective {
        /// Wanted user.
        user: String,
        /// Reason of the failure.
        reason: String,
    },
    /// Use of what the container has made in a session that has rights which the container lacks.
    #[error("{option} cannot be given together with {rights}: the container would have these rights by {by}")]
    MoreRights {
        /// Option that brings it into the session.
        option: &'static str,
        /// Options that give the rights.
        rights: String,
        /// Things of the container that the session would run, or be led by.
        by: &'static str,
    },
    /// Use of `--command` with a command.
    #[error("--command cannot be given together with a command")]
    TwoCommands,
    /// Invalid value of `--forward` or `--port-forward`.
    #[error("cannot forward {wanted:?}: {reason}")]
    Forward {
        /// Value.
        wanted: String,
        /// Fault of the value.
        reason: String,
    },
    /// Socket or address that cannot be used.
    #[error("cannot forward {what}")]
    Listen {
        /// Path or address here.
        what: String,
        /// Reason of the failure.
        #[source]
        source: std::io::Error,
    },
    /// Pod that does not run.
    #[error("pod {0} does not run")]
    Pod(String),
    /// Invalid pid.
    #[error("cannot debug pid:{0}: this is not the number of a process")]
    Pid(String),
    /// Container that another engine does not run.
    #[error("{engine} runs no container called {name:?}")]
    Missing {
        /// Name of the engine, as the prefix has it.
        engine: &'static str,
        /// Wanted name.
        name: String,
    },
    /// Text that no command contains.
    #[error("no process has {0:?} in its command")]
    NoCommand(String),
    /// Unreadable state of another engine.
    #[error("cannot read the state of {engine}: cannot read {path}")]
    State {
        /// Name of the engine, as the prefix has it.
        engine: &'static str,
        /// File or directory.
        path: PathBuf,
        /// Reason of the failure.
        #[source]
        source: std::io::Error,
    },
    /// Name that several containers have.
    #[error("{name:?} is the name of several containers: {}", engines.join(", "))]
    Ambiguous {
        /// Wanted name.
        name: String,
        /// Unambiguous names.
        engines: Vec<String>,
    },
    /// Number of a process that another process has now.
    #[error(
        "container {name} of {engine} has ended: process {pid}, which {path} names, is a later one with the same number"
    )]
    Reused {
        /// Name of the engine, as the prefix has it.
        engine: &'static str,
        /// Wanted name.
        name: String,
        /// Process.
        pid: u32,
        /// File of the engine.
        path: PathBuf,
    },
    /// Process that has ended.
    #[error("process {pid} of {target} has ended")]
    Ended {
        /// Process.
        pid: u32,
        /// Target, as the user named it.
        target: String,
    },
    /// Process of another user.
    #[error("cannot look into process {pid} of {target}")]
    Process {
        /// Process.
        pid: u32,
        /// Target, as the user named it.
        target: String,
        /// Reason of the failure.
        #[source]
        source: std::io::Error,
    },
    /// Process that has rights which this one lacks.
    #[error("cannot look into process {pid} of {target}: tote lacks the capability SYS_PTRACE")]
    MayNotTrace {
        /// Process.
        pid: u32,
        /// Target, as the user named it.
        target: String,
    },
    /// Groups of a process that cannot be found.
    #[error("cannot find the cgroup of {target}")]
    Cgroup {
        /// Target, as the user named it.
        target: String,
        /// Reason of the failure.
        #[source]
        source: tote_cgroup::Error,
    },
}

/// Reason why what a session writes among its tools cannot be kept, or why it has no place for packages.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// Packages in a session whose root is the container's.
    #[error("--install cannot be given with --view target: packages would be installed in the container")]
    PackagesInTarget,
    /// Kept layer that another session uses.
    #[error("cannot keep what is written among the tools of {0}: another session has it")]
    Kept(String),
    /// Container that has no directory.
    #[error("cannot keep what is written among the tools of {0}: it is no container that stays")]
    NotKept(String),
    /// Container of another engine without layers.
    #[error("no session has kept anything among the tools of {0}")]
    NoneKept(String),
    /// Kept layer above files that may change.
    #[error("cannot keep what is written among these tools: they are neither this machine's nor an image's")]
    DirectoryKept,
}

tote_records::part!(DebugError, KeepError);
impl tote_records::PartError for DebugError {
    fn hint(&self) -> Option<String> {
        let denied = |source: &std::io::Error| {
            Errno::from_io_error(source).is_some_and(|errno| matches!(errno, Errno::ACCESS | Errno::PERM))
        };
        match self {
            Self::Pod(name) => Some(format!("start it: tote pod start {name}")),
            Self::Engine(..) => Some(format!("the engines are {}", super::engines::names())),
            Self::View(value) if value.contains('/') => Some(format!(
                "a directory for containers stands before the command: tote --root {value} debug"
            )),
            Self::MoreRights { option, .. } => Some(match *option {
                "--view target" => "without it the container's tree is in /target".to_owned(),
                _ => "give the variables that the command needs with -e".to_owned(),
            }),
            Self::Keep(KeepError::Kept(_)) => {
                Some("leave out --keep for a second session at the same time".to_owned())
            }
            Self::Reused { pid, .. } => Some(format!(
                "if the process is the container's all the same, give its number: pid:{pid}"
            )),
            Self::Missing { .. } => Some("give the pid of one of its processes instead: pid:N".to_owned()),
            Self::MayNotTrace { .. } => Some(
                "run tote outside of this container, or give the container --privileged or --cap-add SYS_PTRACE,SYS_ADMIN"
                    .to_owned(),
            ),
            Self::Process { source, .. } if denied(source) && rustix::process::geteuid().is_root() => {
                Some("this machine keeps even root away from the process, maybe by a security module".to_owned())
            }
            Self::State { source, .. } | Self::Process { source, .. } if denied(source) => {
                Some("the container belongs to another user: run tote as root or as that user".to_owned())
            }
            _ => None,
        }
    }

    /// Returns docker's exit code: 1 for a container that is not there or does not run.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Pod(_)
            | Self::NoCommand(_)
            | Self::Missing { .. }
            | Self::Reused { .. }
            | Self::Ended { .. }
            | Self::Ambiguous { .. } => 1,
            Self::View(_)
            | Self::TwoUsers
            | Self::MoreRights { .. }
            | Self::Effective { .. }
            | Self::Keep(_)
            | Self::TwoCommands
            | Self::Forward { .. }
            | Self::Listen { .. }
            | Self::Engine(..)
            | Self::Pid(_) => 125,
            Self::State { .. } | Self::Process { .. } | Self::MayNotTrace { .. } | Self::Cgroup { .. } => 126,
        }
    }
}
