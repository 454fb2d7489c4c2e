use rustix::io::Errno;
use std::fmt;
use std::path::PathBuf;
use thiserror::Error;

/// Reason why an operation on a cgroup failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The caller could not be moved into a leaf.
    #[error("cannot move down into the cgroup {path}: {source}")]
    Room {
        /// Path of the leaf.
        path: PathBuf,
        /// Cause.
        source: Errno,
    },
    /// The controller of a limit is unavailable. The wording is runc's, which engines look for.
    #[error("cannot set {limit} limit: container could not join or create cgroup")]
    NoController {
        /// Name of the controller, or the user's name of the limit.
        limit: String,
    },
    /// The directory could not be made.
    #[error("cannot create cgroup {}", path.display())]
    Create {
        /// Path of the directory.
        path: PathBuf,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// A recorded cgroup cannot be opened.
    #[error("cannot open cgroup {}", path.display())]
    Open {
        /// Path of the directory.
        path: PathBuf,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// The kernel refused a value.
    #[error("cannot write {value:?} to {}", path.display())]
    Write {
        /// Path of the control file.
        path: PathBuf,
        /// Value to be written.
        value: String,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// A control file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Path of the control file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// The group uses more memory than the new limit allows.
    #[error("unable to set memory limit to {limit} (current usage: {usage}, peak usage: {peak})")]
    MemoryInUse {
        /// Requested bytes.
        limit: String,
        /// Bytes in use.
        usage: u64,
        /// Highest number of bytes in use so far.
        peak: u64,
    },
    /// A signal could not be sent.
    #[error("cannot signal process {pid} of cgroup {}", path.display())]
    Signal {
        /// Pid of the process.
        pid: i32,
        /// Path of its group.
        path: PathBuf,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// This machine, or the caller's own group, does not have these processors or memory nodes.
    #[error("{limit} {value:?} is not available here")]
    NotHere {
        /// Name of the limit.
        limit: String,
        /// Requested value.
        value: String,
    },
    /// No group has a freezer.
    #[error("cannot freeze cgroup: the container has no freezer")]
    NoFreezer,
    /// Not every process could be stopped in time.
    #[error("cannot freeze cgroup {}: still {state} after {seconds} seconds", path.display())]
    Freeze {
        /// Path of the directory.
        path: PathBuf,
        /// State that the kernel reports.
        state: String,
        /// Time of the attempt, in seconds.
        seconds: u64,
    },
    /// New processes appeared faster than they could be killed.
    #[error("cannot kill the processes of cgroup {}: new ones keep appearing", path.display())]
    Kill {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The directory could not be removed.
    #[error("cannot remove cgroup {}", path.display())]
    Remove {
        /// Path of the directory.
        path: PathBuf,
        /// Cause; EBUSY if processes or groups are left in it.
        #[source]
        source: Errno,
    },
    /// A line was not written by [`crate::Cgroup::record`].
    #[error("cannot read a recorded cgroup: {line:?} is not a record")]
    Record {
        /// Beginning of the line.
        line: String,
    },
    /// The request is invalid on every machine.
    #[error(transparent)]
    Plan(#[from] crate::plan::PlanError),
}

/// A part of a request that is not in force, though the container runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Limits without effect; at most one such warning comes from one call.
    Lost(Vec<Lost>),
    /// A value was moved into the range that the kernel takes.
    Clamped {
        /// User's name of the limit.
        limit: &'static str,
        /// Requested value.
        wanted: String,
        /// Value in force.
        used: String,
    },
}

/// Limit without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// User's name of the limit: `memory`, `pids`.
    pub limit: String,
    /// Reason.
    pub why: Why,
}

/// Reason why a limit has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The kernel has no such controller, or it is not mounted or not enabled.
    NoController,
    /// This version of cgroups has no such limit.
    OtherVersion,
    /// The caller lacks the permission.
    Denied,
    /// The kernel refused the value.
    Refused(Errno),
}

impl Why {
    pub(crate) fn from_errno(errno: Errno) -> Self {
        match errno {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::Denied,
            Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP => Self::NoController,
            other => Self::Refused(other),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoController => f.write_str("not available here"),
            Self::OtherVersion => f.write_str("not in this version of cgroups"),
            Self::Denied => f.write_str("no permission"),
            Self::Refused(errno) => write!(f, "{errno}"),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = match self {
            Self::Clamped { limit, wanted, used } => {
                return write!(f, "{limit} of {wanted} is out of range: {used} is used");
            }
            Self::Lost(lost) => lost,
        };
        f.write_str("these limits have no effect: ")?;
        let mut reasons: Vec<Why> = Vec::new();
        for lost in lost {
            if !reasons.contains(&lost.why) {
                reasons.push(lost.why);
            }
        }
        for (i, why) in reasons.iter().enumerate() {
            let limits: Vec<_> = lost
                .iter()
                .filter(|l| l.why == *why)
                .map(|l| l.limit.as_str())
                .collect();
            write!(
                f,
                "{}{} ({why})",
                if i > 0 { "; " } else { "" },
                limits.join(", ")
            )?;
        }
        Ok(())
    }
}

/// Collector of lost limits, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses(Vec<Lost>);

impl Losses {
    pub(crate) fn push(&mut self, limit: impl Into<String>, why: Why) {
        let limit = limit.into();
        if !self.0.iter().any(|lost| lost.limit == limit) {
            self.0.push(Lost { limit, why });
        }
    }

    pub(crate) fn into_warning(self) -> Option<Warning> {
        (!self.0.is_empty()).then_some(Warning::Lost(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warning_names_every_lost_limit() {
        let mut losses = Losses::default();
        assert_eq!(losses.clone().into_warning(), None);
        losses.push("memory", Why::Denied);
        losses.push("hugetlb", Why::NoController);
        losses.push("pids", Why::Denied);
        losses.push("memory", Why::NoController);
        assert_eq!(
            losses.into_warning().unwrap().to_string(),
            "these limits have no effect: memory, pids (no permission); hugetlb (not available here)"
        );
    }
}
