//! Ending a container's processes, all of them, without hitting anybody else's.

use crate::cgroup::Cgroup;
use crate::controllers::Controllers;
use crate::error::Error;
use crate::{file, tree};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rounds against a container that forks while it is killed; each round kills all that were there.
const ROUNDS: usize = 1000;
/// Far below the usual limit of 1024 descriptors.
const OPEN_AT_ONCE: usize = 256;
/// From a process's end to its leaving the group.
const SETTLE: Duration = Duration::from_micros(50);

impl Cgroup {
    /// Kills every process of the group and of the groups below it, as one step where the kernel can
    /// (`cgroup.kill`, Linux 5.14), else suspended first so that none can fork meanwhile.
    ///
    /// The processes may still be dying when this returns: [`Cgroup::wait_empty`].
    ///
    /// # Errors
    /// A process may not be killed, or new ones keep appearing.
    pub fn kill_all(&self) -> Result<(), Error> {
        if let Some(dir) = self.v2() {
            match file::write_at(dir.fd.as_fd(), "cgroup.kill", b"1") {
                Ok(()) => return Ok(()),
                Err(Errno::NOENT | Errno::OPNOTSUPP) => {}
                Err(source) => {
                    let path = dir.path.join("cgroup.kill");
                    return Err(Error::Write {
                        path,
                        value: "1".to_owned(),
                        source,
                    });
                }
            }
        }
        let Some(path) = self.members_dir() else {
            return Ok(());
        };
        let freezer = self.v1(Controllers::FREEZER).is_some() || self.v2().is_some();
        if freezer && self.freeze().is_ok() {
            let killed = self.signal_frozen(Signal::KILL);
            return killed.and(self.thaw());
        }
        let mut killed = BTreeSet::new();
        for _ in 0..ROUNDS {
            // What is killed cannot fork any more, so once nobody new is listed nobody new can come.
            let new = signal_running(path, Signal::KILL)?
                .into_iter()
                .filter(|pid| killed.insert(*pid))
                .count();
            if new == 0 {
                return Ok(());
            }
        }
        Err(Error::Kill {
            path: path.to_path_buf(),
        })
    }

    /// Sends a signal to every process that is in the group now or in a group below it.
    ///
    /// # Errors
    /// A process may not be signalled.
    pub fn signal_all(&self, signal: Signal) -> Result<(), Error> {
        let Some(path) = self.members_dir() else {
            return Ok(());
        };
        signal_running(path, signal).map(drop)
    }

    /// Waits until no process is left in the group; false if some are after `limit`.
    ///
    /// Waits for the processes and not for `cgroup.events`, which the kernel updates at most every 10 ms.
    ///
    /// # Errors
    /// The members cannot be read, or not be waited for.
    pub fn wait_empty(&self, limit: Duration) -> Result<bool, Error> {
        let Some(path) = self.members_dir() else {
            return Ok(true);
        };
        let deadline = Instant::now() + limit;
        loop {
            let Some(pid) = members(path)?.first().copied() else {
                return Ok(true);
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let fault = |source| Error::Signal {
                pid,
                path: path.to_path_buf(),
                source,
            };
            if let Some((_, pidfd)) = open_all(path, &[pid])?.first() {
                let timeout = Timespec::try_from(left).ok();
                match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], timeout.as_ref()) {
                    Ok(0) => return Ok(false),
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(errno) => return Err(fault(errno)),
                }
            }
            // It has ended, yet is a member until the kernel has put it away.
            if members(path)?.contains(&pid) {
                tree::pause(SETTLE.min(left));
            }
        }
    }

    /// Brings back to the group's own freezer of v1 who is a member in another hierarchy and not there, and lets all go on:
    /// somebody has moved them to another freezer, and what that has suspended cannot die. On v2 a signal that kills is
    /// heard by the suspended, too.
    ///
    /// # Errors
    /// Members cannot be read, or not be moved.
    pub fn take_back(&self) -> Result<(), Error> {
        let Some(freezer) = self.v1(Controllers::FREEZER) else {
            return Ok(());
        };
        let mut known = BTreeSet::new();
        for dir in &self.dirs {
            tree::members(&dir.path, &mut known)?;
        }
        for own in members(&freezer.path)? {
            known.remove(&own);
        }
        for pid in known {
            match freezer.write("cgroup.procs", &pid.to_string()) {
                // It has ended meanwhile.
                Err(Error::Write {
                    source: Errno::SRCH, ..
                })
                | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        self.thaw()
    }

    fn members_dir(&self) -> Option<&Path> {
        // The freezer's own members are those that it has stopped.
        let dir = self
            .v1(Controllers::FREEZER)
            .or_else(|| self.v2())
            .or_else(|| self.dirs.first());
        dir.map(|dir| dir.path.as_path())
    }

    /// A suspended process cannot end, so its number stays its own and a plain kill(2) is safe.
    fn signal_frozen(&self, signal: Signal) -> Result<(), Error> {
        let Some(path) = self.members_dir() else {
            return Ok(());
        };
        for raw in members(path)? {
            let Some(pid) = Pid::from_raw(raw) else { continue };
            match kill_process(pid, signal) {
                // Killed before it was suspended.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(source) => {
                    return Err(Error::Signal {
                        pid: raw,
                        path: path.to_path_buf(),
                        source,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Signals who is in the group; returns who was.
///
/// A number read from `cgroup.procs` can be another process's by the time it is opened, so only those are signalled
/// that the group still lists after the opening: then the descriptor is the member's.
fn signal_running(path: &Path, signal: Signal) -> Result<Vec<i32>, Error> {
    let mut signalled = Vec::new();
    for some in members(path)?.chunks(OPEN_AT_ONCE) {
        let opened = open_all(path, some)?;
        let still = members(path)?;
        for (pid, pidfd) in opened.iter().filter(|(pid, _)| still.binary_search(pid).is_ok()) {
            match pidfd_send_signal(pidfd, signal) {
                Ok(()) | Err(Errno::SRCH) => signalled.push(*pid),
                Err(source) => {
                    return Err(Error::Signal {
                        pid: *pid,
                        path: path.to_path_buf(),
                        source,
                    });
                }
            }
        }
    }
    Ok(signalled)
}

/// In ascending order.
fn members(path: &Path) -> Result<Vec<i32>, Error> {
    let mut pids = BTreeSet::new();
    tree::members(path, &mut pids)?;
    Ok(pids.into_iter().collect())
}

/// Descriptors of those that still exist.
fn open_all(path: &Path, pids: &[i32]) -> Result<Vec<(i32, OwnedFd)>, Error> {
    let mut opened = Vec::with_capacity(pids.len());
    for &raw in pids {
        let Some(pid) = Pid::from_raw(raw) else { continue };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => opened.push((raw, pidfd)),
            Err(Errno::SRCH) => {}
            Err(source) => {
                return Err(Error::Signal {
                    pid: raw,
                    path: path.to_path_buf(),
                    source,
                });
            }
        }
    }
    Ok(opened)
}
