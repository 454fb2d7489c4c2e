mod errand;

use crate::step::Step;
pub use errand::ErrandError;
use errand::for_clone;
use tote_network::{DeviceError, LinkError};
use tote_sandbox::Plan;
use tote_sys::{Errno, Op, reason};

/// Reason why a plan did not become a process, or the process could not be watched.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The executable could not be sealed, so no process may be born from it: a container could change it.
    #[error("cannot keep this program's own file out of the container's reach")]
    Seal(#[source] Errno),
    /// clone3(2) failed.
    #[error("cannot create the container's process")]
    Clone(#[source] Errno),
    /// An operation of the new process failed.
    #[error("{0}")]
    Step(Step),
    /// The process ended well, but a stream of the caller's failed meanwhile.
    #[error("{0}")]
    Stream(crate::BrokenStream),
    /// The new process was killed before it had become the program.
    #[error("the container's process was killed by signal {0} while it was set up")]
    Killed(i32),
    /// A directory that a container had written could not be removed.
    #[error("cannot remove {path} in a user namespace")]
    RemoveTree {
        /// Directory to remove.
        path: std::path::PathBuf,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// A source of a mount could not be opened.
    #[error("error mounting {path:?}: open it for the container")]
    Tree {
        /// Path of the source.
        path: String,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// The listener of a system call filter has no receiver.
    #[error("linux.seccomp.listenerPath is not supported for a container in the foreground")]
    Listener,
    /// The terminal of the caller could not be used.
    #[error("cannot {attempt}")]
    Terminal {
        /// Attempted action.
        attempt: &'static str,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// A hook in the container's namespaces failed.
    #[error("cannot run {name}: {} ({text})", reason(*errno))]
    Hook {
        /// Name, such as `createContainer hook #0`.
        name: String,
        /// Error; `ECANCELED` if the hook ran and its status was not 0.
        errno: Errno,
        /// Status of the hook and the beginning of its output.
        text: String,
    },
    /// The caller's own work during the birth failed.
    #[error(transparent)]
    Refused(Refusal),
    /// The process ended while it was set up.
    #[error("the container's process ended while it was set up")]
    Ended,
    /// The container does not wait for its start: it runs already, or has ended.
    #[error("the container is not in state `created`")]
    NoGate(#[source] Errno),
    /// A namespace of a running container cannot be joined.
    #[error("cannot join the container's {what} namespace")]
    Join {
        /// Name of the namespace.
        what: &'static str,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// The new process had not become its program when its time was over.
    #[error("the new process did not become its program in time")]
    Late,
    /// A process of the container keeps the new process from going on.
    #[error(
        "the new process was stopped (SIGSTOP or ptrace) by a process of the container before it was its program"
    )]
    Stopped,
    /// The caller got a signal that ends it.
    #[error("interrupted by signal {0} before the new process was its program")]
    Interrupted(i32),
    /// Watching the process failed.
    #[error("cannot wait for the container's process")]
    Wait(#[source] Errno),
    /// The parent could not do its part.
    #[error(transparent)]
    Errand(#[from] ErrandError),
}

/// Makes errors of a part errors of the whole.
macro_rules! parts {
    ($whole:ty { $($source:ty => $part:ident),* $(,)? }) => {
        $(impl From<$source> for $whole {
            fn from(error: $source) -> Self {
                Self::$part(error.into())
            }
        })*
    };
}

parts! {
    RuntimeError {
        DeviceError => Errand,
        LinkError => Errand,
    }
}

/// Reason of the caller not to go on.
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

impl RuntimeError {
    /// Returns advice for the user, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Clone(errno) => for_clone(*errno).map(str::to_owned),
            Self::Step(step) => step.hint().map(str::to_owned),
            Self::Errand(errand) => errand.hint(),
            _ => None,
        }
    }

    /// Returns docker's exit code: 127 for a program that is not there, 126 for one that cannot be executed, 125 for the rest.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Step(step) if step.program.is_some() && step.errno == Errno::NOENT => 127,
            Self::Step(step) if step.program.is_some() => 126,
            _ => 125,
        }
    }

    /// Converts a process's report.
    pub(crate) fn of_step(plan: &Plan, op: usize, errno: Errno, text: String) -> Self {
        match plan.ops.get(op) {
            Some(Op::Hook(hook)) => Self::Hook {
                name: hook.name.clone(),
                errno,
                text,
            },
            _ => Self::Step(Step::new(plan, op, errno, text)),
        }
    }
}

/// Describes what a container has to do without: a keyring of its own or, at a gate where it enters its cgroup, real
/// time.
pub(crate) fn without(plan: &Plan, op: usize, errno: Errno) -> String {
    if let Some(Op::Gate) = plan.ops.get(op) {
        return "the cgroup has no time for real-time processes (cpu.rt_runtime_us): it runs under SCHED_OTHER".to_owned();
    }
    let words = plan.ops.get(op).map(tote_sandbox::describe);
    let words = words.map_or_else(String::new, |words| format!("cannot {words}: "));
    let why = reason(errno);
    if let Some(Op::LowerOomScore(_)) = plan.ops.get(op) {
        return format!("{words}{why}: the container keeps the oom score of this process");
    }
    format!("{words}{why}: the caller's is shared (keyrings(7): /proc/sys/kernel/keys has the limits)")
}
