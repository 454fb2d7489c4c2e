//! Running a test with a time limit.

use super::suite::{Suite, Verdict};
use crate::program::program;
use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Everything that running a test needs except its name.
#[derive(Debug)]
pub(super) struct Conditions<'a> {
    pub(super) suite: Suite,
    pub(super) checkout: &'a Path,
    pub(super) runtime: &'a Path,
    /// Directory for the test's files.
    pub(super) directory: PathBuf,
    pub(super) limit: Duration,
}

impl Conditions<'_> {
    /// Runs the test with its output in a file. Processes that the test did not end are left running.
    ///
    /// # Errors
    /// A failure outside of the test.
    pub(super) fn attempt(&self, test: &str, log: &Path) -> Result<Verdict> {
        let output = File::create_new(log).with_context(|| format!("create {}", log.display()))?;
        let errors = output
            .try_clone()
            .with_context(|| format!("share {}", log.display()))?;
        let limit = self.limit.as_secs().to_string();
        let mut command = program("timeout");
        command.args(["--kill-after", "5", &limit]);
        self.suite
            .complete(&mut command, self.checkout, test, self.runtime);
        let start = Instant::now();
        let mut child = command
            .env("TMPDIR", &self.directory)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("start {test}"))?;
        // `wait` of the standard library would close the pipe first, and with it the terminal that script(1) made.
        let input = child.stdin.take();
        let status = child.wait().with_context(|| format!("wait for {test}"))?;
        drop(input);
        if start.elapsed() >= self.limit {
            return Ok(Verdict::Failed(format!("did not end within {limit} s")));
        }
        let output = std::fs::read(log).with_context(|| format!("read {}", log.display()))?;
        Ok(self
            .suite
            .judge(&String::from_utf8_lossy(&output), status.success()))
    }
}
