//! A daemon of a run.

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

/// Time limit for a daemon to answer, and for it to end.
const LIMIT: Duration = Duration::from_secs(30);

/// A started daemon. `setpriv --pdeathsig` ends it even if this program is killed.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    pidfd: OwnedFd,
    log: PathBuf,
}

impl Daemon {
    /// Starts a daemon whose output goes to `log`.
    pub fn start(command: Command, log: &Path) -> Result<Self> {
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
        // The daemon is not reaped yet, so the number is still its own.
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).context("open a pidfd")?;
        Ok(Daemon {
            child,
            pidfd,
            log: log.to_owned(),
        })
    }

    /// Returns the process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until `question` succeeds; fails if the daemon ends before.
    pub fn await_answer(&self, question: impl Fn() -> Result<Command>) -> Result<()> {
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

    /// Asks the daemon to end, and waits for its end.
    pub fn stop(mut self) -> Result<()> {
        // A daemon that has ended by itself is not reaped yet, so the signal does no harm.
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
