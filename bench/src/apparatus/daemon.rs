//! A daemon of one run.

use super::succeed;
use crate::interruption;
use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a daemon may take until it answers, and until it has ended.
const LIMIT: Duration = Duration::from_secs(30);

/// One that was started. `setpriv --pdeathsig` ends it even where this program is killed.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    pidfd: OwnedFd,
    log: PathBuf,
}

impl Daemon {
    /// What it says goes to `log`.
    pub(crate) fn start(command: Command, log: &Path) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("make {}", log.display()))?;
        let name = command.get_program().to_owned();
        let mut under = Command::new("setpriv");
        under
            .args(["--pdeathsig", "TERM"])
            .arg(&name)
            .args(command.get_args())
            .env_clear()
            .envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))))
            .process_group(0)
            .stdin(Stdio::null())
            .stderr(output.try_clone().context("duplicate a log")?)
            .stdout(output);
        let child = under
            .spawn()
            .with_context(|| format!("start {}", Path::new(&name).display()))?;
        // Nobody has waited for it yet, so the number is its own.
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).context("open a pidfd")?;
        Ok(Daemon {
            child,
            pidfd,
            log: log.to_owned(),
        })
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Asks until `question` succeeds, and not longer than the daemon lives.
    pub(crate) fn await_answer(&self, question: impl Fn() -> Result<Command>) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let Err(error) = succeed(&mut question()?) else {
                return Ok(());
            };
            interruption::check()?;
            let ended = self.ends_within(Duration::from_millis(100))?;
            if ended || Instant::now() > deadline {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                let said = log.lines().last().unwrap_or("nothing").to_owned();
                return Err(error.context(format!("the daemon does not answer, and said: {said}")));
            }
        }
    }

    /// Asks it to end and waits for that.
    pub(crate) fn stop(mut self) -> Result<()> {
        // One that has ended by itself is not reaped yet.
        pidfd_send_signal(&self.pidfd, Signal::TERM).context("end a daemon")?;
        let ended = self.ends_within(LIMIT)?;
        if !ended {
            pidfd_send_signal(&self.pidfd, Signal::KILL).context("kill a daemon")?;
        }
        self.child.wait().context("reap a daemon")?;
        ensure!(ended, "a daemon had to be killed: {}", self.log.display());
        Ok(())
    }

    fn ends_within(&self, limit: Duration) -> Result<bool> {
        let limit = Timespec::try_from(limit).context("express a time limit")?;
        loop {
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&limit)) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("wait for a daemon"),
            }
        }
    }
}
