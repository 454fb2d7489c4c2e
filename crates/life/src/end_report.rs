//! `--report`: a file that says how a container has ended and what it has used, written by the process that watches it.
//!
//! A program can print whatever it likes, and end with any code. The figures here are the kernel's, and the reason is known to
//! the watching process alone.

use crate::container::{Container, State};
use crate::{EngineError, Home};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use tote_bundle::RunOptions;
use tote_cgroup::{Cgroup, Stats};
use tote_images::WholeFile;
use tote_records::look::moment;
use tote_runtime::{Aside, Outcome};

/// A report that is to be written at the end of a container.
pub(crate) struct EndReport {
    path: PathBuf,
    /// The file is opened before the start, so that a container whose report cannot be written does not begin.
    file: WholeFile,
    used: Option<Stats>,
}

impl std::fmt::Debug for EndReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("EndReport").field(&self.path).finish()
    }
}

/// Facts of an end that the watching process knows beside the record.
#[derive(Debug)]
pub(crate) struct LastFacts {
    /// How it ended.
    pub outcome: Outcome,
    /// The destinations that its egress policy has refused; `None` without one.
    pub refused: Option<usize>,
}

impl EndReport {
    /// Opens the file of a report, where one is asked for.
    ///
    /// # Errors
    /// [`EngineError`] of a file that cannot be made.
    pub(crate) fn of(options: &RunOptions) -> Result<Option<Self>, EngineError> {
        let Some(path) = options.report.as_ref().map(PathBuf::from) else {
            return Ok(None);
        };
        let file = WholeFile::create(&path).map_err(|source| failed(&path, source))?;
        Ok(Some(Self {
            path,
            file,
            used: None,
        }))
    }

    /// Reads what a container has used, as long as its cgroup is there.
    pub(crate) fn look(&mut self, cgroup: Option<&Cgroup>) {
        // A group whose files cannot be read has no figures in the report, which says so by null.
        self.used = cgroup.and_then(|cgroup| cgroup.stats().ok());
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`EngineError`] of a file that cannot be written.
    pub(crate) fn write(
        mut self,
        container: &Container,
        state: &State,
        last: &LastFacts,
    ) -> Result<(), EngineError> {
        let text = format!("{:#}\n", report(container, state, last, self.used.as_ref()));
        let written = self
            .file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.finish());
        written.map_err(|source| failed(&self.path, source))
    }
}

impl Aside for EndReport {
    fn end(&mut self, cgroup: Option<&Cgroup>) {
        self.look(cgroup);
    }
}

fn failed(path: &std::path::Path, source: std::io::Error) -> EngineError {
    EngineError::Request(crate::RequestError::File {
        option: "report",
        attempt: "write",
        path: path.to_owned(),
        source,
    })
}

/// The destinations that a container's egress policy has refused so far.
pub(crate) fn refused(home: &Home, container: &Container, options: &RunOptions) -> Option<usize> {
    let policy = options.egress.as_ref()?;
    Some(crate::network::refused(home, &container.id, policy).len())
}

fn report(container: &Container, state: &State, last: &LastFacts, used: Option<&Stats>) -> Value {
    let signal = match last.outcome {
        Outcome::Signaled(signal) => Some(signal),
        Outcome::Exited(_) => None,
        // The watching process ends it by SIGKILL.
        _ => Some(9),
    };
    json!({
        "Id": container.id.as_str(),
        "Name": container.name,
        "Image": container.image,
        "EndedBy": state.ended_by,
        "Reason": state.error,
        "ExitCode": state.exit_code,
        "Signal": signal,
        "OOMKilled": state.oom_killed,
        "StartedAt": moment(state.started_at),
        "FinishedAt": moment(state.finished_at),
        "WallNanoseconds": state.finished_at.saturating_sub(state.started_at),
        "CPU": used.map(|used| json!({
            "TotalNanoseconds": used.cpu.usage_ns,
            "UserNanoseconds": used.cpu.user_ns,
            "SystemNanoseconds": used.cpu.system_ns,
            "ThrottledPeriods": used.cpu.throttled_periods,
            "ThrottledNanoseconds": used.cpu.throttled_ns,
        })),
        "Memory": used.map(|used| json!({
            "PeakBytes": used.memory.peak,
            "LimitHits": used.memory.failures,
            "OOMKills": used.memory.oom_kills,
        })),
        "Processes": used.map(|used| json!({
            "Peak": used.pids.peak,
            "LimitHits": used.pids.failures,
        })),
        "IO": used.map(|used| json!({
            "ReadBytes": used.io.values().map(|io| io.read_bytes).sum::<u64>(),
            "WrittenBytes": used.io.values().map(|io| io.write_bytes).sum::<u64>(),
        })),
        "RefusedDestinations": last.refused,
    })
}
