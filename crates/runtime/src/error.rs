use crate::step::Step;
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
    /// The maps of the user namespace could not be written.
    #[error("cannot write the {file} of the container's user namespace")]
    Map {
        /// `uid_map` or `gid_map`.
        file: &'static str,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// newuidmap(1) or newgidmap(1) refused.
    #[error("{program} refused the ranges of the container's user namespace: {said}")]
    MapProgram {
        /// Name of the program.
        program: &'static str,
        /// Its message.
        said: String,
    },
    /// The network namespace could not be made.
    #[error("cannot make the container's network namespace")]
    Network(#[source] Errno),
    /// The user namespace of an id-mapped mount could not be made.
    #[error("cannot make the user namespace of an id-mapped mount")]
    Idmap(#[source] Errno),
    /// A directory that a container had written could not be removed.
    #[error("cannot remove {path} in a user namespace")]
    RemoveTree {
        /// Directory to remove.
        path: std::path::PathBuf,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// A device node could not be made for a user namespace, in which none can be made.
    #[error("cannot make the device node {path:?} for the container")]
    Node {
        /// Path inside the container.
        path: String,
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
    /// A network device could not be moved.
    #[error(transparent)]
    NetDevice(#[from] DeviceError),
    /// A link of the container's could not be made.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The score by which the kernel chooses processes to kill could not be set.
    #[error("cannot set the oom score of the container's process")]
    OomScore(#[source] std::io::Error),
    /// The listener of a system call filter has no receiver.
    #[error("linux.seccomp.listenerPath is not supported for a container in the foreground")]
    Listener,
    /// The device program could not be loaded or attached.
    #[error("cannot set the device rules of the container's cgroup")]
    DeviceFilter(#[source] Errno),
    /// The cgroup could not be made or entered.
    #[error("cannot set up the container's cgroup")]
    Cgroup(#[source] tote_cgroup::Error),
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
}

/// Reason of the caller not to go on.
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

impl RuntimeError {
    /// Returns advice for the user, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(
            match self {
                Self::Clone(errno) | Self::Network(errno) | Self::Idmap(errno) => return for_clone(*errno),
                Self::Step(step) => return step.hint().map(str::to_owned),
                Self::Map { file, source } if source.kind() == std::io::ErrorKind::NotFound => {
                    let program = if *file == "uid_map" {
                        "newuidmap"
                    } else {
                        "newgidmap"
                    };
                    return Some(format!(
                        "install {program} (package uidmap or shadow-utils), or run as one user without -u"
                    ));
                }
                Self::MapProgram { .. } => "check this user's lines in /etc/subuid and /etc/subgid",
                Self::Cgroup(tote_cgroup::Error::NotHere { .. }) => {
                    "see /sys/devices/system/cpu/online and /sys/devices/system/node/online"
                }
                _ => return None,
            }
            .to_owned(),
        )
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

/// Returns advice for a namespace or a process that the kernel refuses.
fn for_clone(errno: Errno) -> Option<String> {
    let text = match errno {
        Errno::PERM => {
            "user namespaces are not allowed here: see kernel.unprivileged_userns_clone, user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns"
        }
        Errno::NOSPC | Errno::USERS => {
            "a limit of namespaces is reached, often that of user namespaces: raise user.max_user_namespaces and the other limits below /proc/sys/user"
        }
        Errno::AGAIN => "a limit of processes is reached: see ulimit -u and the pids cgroup",
        Errno::NOSYS => "this kernel is too old: tote needs Linux 5.12",
        Errno::INVAL => "this kernel lacks a kind of namespace: see CONFIG_*_NS, and /proc/self/ns",
        _ => return None,
    };
    Some(text.to_owned())
}
