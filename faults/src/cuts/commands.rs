//! Commands of the engine, given as a user gives them.

use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Number of seconds after which a command counts as hung.
const LIMIT: u64 = 90;

/// Engine, state root and boot of the commands.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    tote: PathBuf,
    root: PathBuf,
    /// File with the boot id that commands see; `None` for the real one.
    boot: Option<PathBuf>,
}

/// Result of a command.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) line: String,
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
    /// True if timeout(1) had to end the command.
    pub(super) hung: bool,
    /// Places where the command waited shortly before its end; empty for a command that took less time.
    waits: String,
}

impl Outcome {
    /// Formats the command and its output for a report.
    pub(super) fn told(&self) -> String {
        let said = self.err.lines().chain(self.out.lines()).take(6);
        let said: Vec<&str> = said.collect();
        let told = format!("`tote {}`: {}: {}", self.line, self.code, said.join(" / "));
        [&told, &self.waits]
            .map(String::as_str)
            .join("\n")
            .trim_end()
            .to_owned()
    }
}

impl Commands {
    pub(super) fn new(tote: &Path, root: &Path) -> Self {
        Self {
            tote: tote.to_owned(),
            root: root.to_owned(),
            boot: None,
        }
    }

    /// Returns the same commands as of another boot of the machine.
    pub(super) fn after_boot(&self, boot: &Path) -> Self {
        Self {
            boot: Some(boot.to_owned()),
            ..self.clone()
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn give(&self, words: &[&str]) -> Result<Outcome> {
        let mut command = match &self.boot {
            None => Command::new("timeout"),
            Some(boot) => {
                let mut command = Command::new("unshare");
                command
                    .args(["--mount", "sh", "-c", OTHER_BOOT])
                    .arg(boot)
                    .arg("timeout");
                command
            }
        };
        let began = Instant::now();
        command
            .args(["-k", "5", &LIMIT.to_string()])
            .arg(&self.tote)
            .arg("--root")
            .arg(&self.root);
        command.args(words).envs(crate::NO_NETWORK).stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().context("execute timeout")?;
        let pid = child.id();
        let (end, ended) = mpsc::channel::<()>();
        let watch = std::thread::spawn(move || match ended.recv_timeout(Duration::from_secs(LIMIT - 5)) {
            Err(RecvTimeoutError::Timeout) => crate::waits::below(pid),
            _ => String::new(),
        });
        let output = child.wait_with_output().context("wait for timeout")?;
        drop(end);
        let waits = watch.join().unwrap_or_default();
        Ok(Outcome {
            waits,
            line: words.join(" "),
            code: output.status.code().unwrap_or(137),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            hung: began.elapsed() >= Duration::from_secs(LIMIT),
        })
    }

    /// Runs a command that has to succeed, and returns its output.
    pub(super) fn done(&self, words: &[&str]) -> Result<String> {
        let outcome = self.give(words)?;
        anyhow::ensure!(outcome.code == 0, "{}", outcome.told());
        Ok(outcome.out)
    }
}

const OTHER_BOOT: &str = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
