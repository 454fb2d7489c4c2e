//! Running one test, for no longer than its limit.

use super::leftovers;
use super::suite::{Suite, Verdict};
use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Everything about a test but its name.
#[derive(Debug)]
pub(super) struct Conditions<'a> {
    pub(super) suite: Suite,
    pub(super) checkout: &'a Path,
    pub(super) runtime: &'a Path,
    /// For the files of the test.
    pub(super) directory: PathBuf,
    pub(super) limit: Duration,
}

impl Conditions<'_> {
    /// Runs the test with its output in a file.
    ///
    /// # Errors
    /// Where it is not the test that fails.
    pub(super) fn attempt(&self, test: &str, log: &Path) -> Result<Verdict> {
        let output = File::create(log).with_context(|| format!("create {}", log.display()))?;
        let errors = output
            .try_clone()
            .with_context(|| format!("share {}", log.display()))?;
        let mut child = self
            .suite
            .command(self.checkout, test, self.runtime)
            .env("TMPDIR", &self.directory)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("start {test}"))?;
        let input = child.stdin.take();
        let status = wait(&mut child, self.limit)?;
        drop(input);
        let Some(status) = status else {
            leftovers::end_processes()?;
            child.wait().with_context(|| format!("wait for {test}"))?;
            let limit = self.limit.as_secs();
            return Ok(Verdict::Failed(format!("did not end within {limit} s")));
        };
        let output = std::fs::read(log).with_context(|| format!("read {}", log.display()))?;
        Ok(self
            .suite
            .judge(&String::from_utf8_lossy(&output), status.success()))
    }
}

/// `None` where the time is over.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().context("wait for a test")? {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            return Ok(None);
        }
        sleep(Duration::from_millis(10));
    }
}
