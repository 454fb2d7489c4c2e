//! Reason of a container's end, as its record and reports say it: the watching process knows it, and nothing that the program
//! writes can say otherwise.

use serde::{Deserialize, Serialize};
use tote_runtime::Outcome;

/// Reason of a container's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    /// Its first process, by exit(2).
    Exit,
    /// A signal to its first process.
    Signal,
    /// The kernel, which killed its first process for want of memory.
    OutOfMemory,
    /// The limit of `--timeout`.
    Timeout,
    /// The limit of `--cpu-time`.
    CpuTime,
    /// The limit of `--output-limit`.
    OutputLimit,
}

impl EndedBy {
    /// Says what an outcome means; `ooms` is the number of processes that the kernel killed for want of memory.
    #[must_use]
    pub fn of(outcome: Outcome, ooms: u64) -> Self {
        match outcome {
            Outcome::Exited(_) => Self::Exit,
            // SIGKILL is all that the kernel sends then.
            Outcome::Signaled(9) if ooms > 0 => Self::OutOfMemory,
            Outcome::Signaled(_) | Outcome::Insisted => Self::Signal,
            Outcome::TimedOut => Self::Timeout,
            Outcome::CpuTimeOver => Self::CpuTime,
            Outcome::OutputOver => Self::OutputLimit,
        }
    }

    /// Returns the word of records, reports and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::OutOfMemory => "out-of-memory",
            Self::Timeout => "timeout",
            Self::CpuTime => "cpu-time",
            Self::OutputLimit => "output-limit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_killed_first_process_was_ended_by_want_of_memory() {
        assert_eq!(EndedBy::of(Outcome::Signaled(9), 1), EndedBy::OutOfMemory);
        assert_eq!(EndedBy::of(Outcome::Signaled(9), 0), EndedBy::Signal);
        assert_eq!(EndedBy::of(Outcome::Exited(137), 3), EndedBy::Exit);
    }

    #[test]
    fn the_record_has_the_same_words() {
        use EndedBy::{CpuTime, Exit, OutOfMemory, OutputLimit, Signal, Timeout};
        for one in [Exit, Signal, OutOfMemory, Timeout, CpuTime, OutputLimit] {
            assert_eq!(serde_json::to_value(one).unwrap(), one.as_str());
        }
    }
}
