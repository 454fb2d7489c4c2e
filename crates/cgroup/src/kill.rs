//! Ending a container's processes, all of them, without hitting anybody else's.

use crate::cgroup::Cgroup;
use crate::controllers::Controllers;
use crate::error::Error;
use crate::freeze::wait_for_event;
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
        for _ in 0..ROUNDS {
            if signal_running(path, Signal::KILL)? == 0 {
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
    /// # Errors
    /// The members cannot be read, or not be waited for.
    pub fn wait_empty(&self, limit: Duration) -> Result<bool, Error> {
        if let Some(dir) = self.v2() {
            let events = file::open_for_read(dir.fd.as_fd(), "cgroup.events");
            let waited = events.and_then(|events| wait_for_event(events.as_fd(), "populated 0", limit));
            match waited {
                Err(Errno::NOENT | Errno::NODEV) => return Ok(true),
                waited => {
                    let fault = |source| Error::Read {
                        path: dir.path.join("cgroup.events"),
                        source,
                    };
                    return waited.map_err(fault);
                }
            }
        }
        let Some(path) = self.members_dir() else {
            return Ok(true);
        };
        let deadline = Instant::now() + limit;
        loop {
            let members = open_members(path)?;
            let Some((pid, pidfd)) = members.first() else {
                return Ok(true);
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
            match poll(&mut fds, timeout.as_ref()) {
                Ok(0) => return Ok(false),
                // Readable, yet still a member until the kernel has put it away.
                Ok(_) => tree::pause(Duration::from_micros(50).min(left)),
                Err(Errno::INTR) => {}
                Err(source) => {
                    return Err(Error::Signal {
                        pid: *pid,
                        path: path.to_path_buf(),
                        source,
                    });
                }
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
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
        let mut pids = BTreeSet::new();
        tree::members(path, &mut pids)?;
        for raw in pids {
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

/// Signals who is in the group; returns how many were.
fn signal_running(path: &Path, signal: Signal) -> Result<usize, Error> {
    let members = open_members(path)?;
    for (pid, pidfd) in &members {
        match pidfd_send_signal(pidfd, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(source) => {
                return Err(Error::Signal {
                    pid: *pid,
                    path: path.to_path_buf(),
                    source,
                });
            }
        }
    }
    Ok(members.len())
}

/// Members as descriptors. A number read from `cgroup.procs` can be another process's by the time it is opened, so
/// only those count that the group still lists afterwards: then the descriptor is the member's.
fn open_members(path: &Path) -> Result<Vec<(i32, OwnedFd)>, Error> {
    let mut before = BTreeSet::new();
    tree::members(path, &mut before)?;
    let open = |raw: i32| Some((raw, pidfd_open(Pid::from_raw(raw)?, PidfdFlags::empty()).ok()?));
    let mut members: Vec<_> = before.into_iter().filter_map(open).collect();
    let mut after = BTreeSet::new();
    tree::members(path, &mut after)?;
    members.retain(|(pid, _)| after.contains(pid));
    Ok(members)
}
