//! Commands of the engine, as a user gives them.

use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// After so many seconds a command hangs.
const LIMIT: u64 = 90;

/// A way to give commands: which engine, on which state root, in which boot.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    tote: PathBuf,
    root: PathBuf,
    /// A file with the id of the boot that commands see, if it is not this one.
    boot: Option<PathBuf>,
}

/// What came of a command.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) line: String,
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
    /// Whether timeout(1) had to end it.
    pub(super) hung: bool,
    /// Where it waited shortly before that; empty for a command that took less time.
    waits: String,
}

impl Outcome {
    /// For a report: what was given, and what came back.
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

    /// The same after the machine was started again.
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
        command.args(words).stdin(Stdio::null());
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

    /// The same for a command that has to succeed. Gives its output.
    pub(super) fn done(&self, words: &[&str]) -> Result<String> {
        let outcome = self.give(words)?;
        anyhow::ensure!(outcome.code == 0, "{}", outcome.told());
        Ok(outcome.out)
    }
}

const OTHER_BOOT: &str = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
