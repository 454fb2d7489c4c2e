//! Report of a container's end.

use std::time::Duration;
use tote_bundle::RunOptions;
use tote_runtime::{BrokenStream, Ended, Insistence, Outcome};

/// How a container in the foreground ended, and what to tell about it.
#[derive(Debug)]
pub struct Finished {
    /// docker's exit code.
    pub exit_code: u8,
    /// A line for the user, where the exit code alone would leave them guessing.
    pub reason: Option<String>,
}

impl Finished {
    /// The end of a container with these options.
    pub fn of(ended: Ended, options: &RunOptions) -> Self {
        finished(ended.outcome, ended.ooms, options).with_broken(ended.broken)
    }

    /// Says which of the caller's streams failed. A container that knows nothing of it has ended well, but what it wrote
    /// is not whole, so the command has not succeeded.
    pub fn with_broken(self, broken: Option<BrokenStream>) -> Self {
        let Some(broken) = broken else { return self };
        let reasons: Vec<String> = self.reason.into_iter().chain([broken.to_string()]).collect();
        Self {
            exit_code: if self.exit_code == 0 { 125 } else { self.exit_code },
            reason: Some(reasons.join("; ")),
        }
    }
}

/// Says how the end of a container with these options is to be reported.
pub fn finished(outcome: Outcome, ooms: u64, options: &RunOptions) -> Finished {
    let oom = (ooms > 0).then(|| {
        let limit = if options.memory > 0 {
            format!(" (limit {} bytes)", options.memory)
        } else {
            String::new()
        };
        format!("out of memory{limit}: the kernel killed {ooms} of the container's processes")
    });
    Finished {
        exit_code: outcome.exit_code(),
        reason: match outcome {
            Outcome::Exited(_) | Outcome::Signaled(_) => oom,
            Outcome::Insisted => Some(Insistence::WORDS.to_owned()),
            Outcome::TimedOut | Outcome::CpuTimeOver | Outcome::OutputOver => over(outcome, options),
        },
    }
}

/// Says which limit of these options an outcome is the end of.
pub fn over(outcome: Outcome, options: &RunOptions) -> Option<String> {
    let seconds = |limit: Option<Duration>| limit.map(|limit| limit.as_secs_f64());
    match outcome {
        Outcome::TimedOut => {
            seconds(options.timeout).map(|limit| format!("the time limit of {limit} s is over"))
        }
        Outcome::CpuTimeOver => {
            seconds(options.cpu_time).map(|limit| format!("the processor time of {limit} s is used up"))
        }
        Outcome::OutputOver => options.output_limit.map(|limit| {
            format!("the container has written more than {limit} bytes, the limit of its output")
        }),
        Outcome::Exited(_) | Outcome::Signaled(_) | Outcome::Insisted => None,
    }
}
