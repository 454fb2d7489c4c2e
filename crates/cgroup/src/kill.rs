//! End of a container's processes: all of them are killed, and no others.

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

/// Rounds against a container that forks while it is killed; each round kills all existing processes.
const ROUNDS: usize = 1000;
/// Pidfds open at once, far below the usual limit of 1024 descriptors.
const OPEN_AT_ONCE: usize = 256;
/// Time from a process's end to its leaving the group.
const SETTLE: Duration = Duration::from_micros(50);

impl Cgroup {
    /// Kills every process of the group and of the groups below it. The kernel does it in one step (`cgroup.kill`,
    /// Linux 5.14); without that, the group is suspended first so that no process can fork meanwhile.
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
            // A killed process cannot fork any more, so once no new process is listed none can come.
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

    /// Sends a signal to every process that is in the group or in a group below it at this moment.
    ///
    /// # Errors
    /// A process may not be signalled.
    pub fn signal_all(&self, signal: Signal) -> Result<(), Error> {
        let Some(path) = self.members_dir() else {
            return Ok(());
        };
        signal_running(path, signal).map(drop)
    }

    /// Waits until no process is left in the group; false if some are left after `limit`.
    ///
    /// It waits for the processes and not for `cgroup.events`, which the kernel updates at most every 10 ms.
    ///
    /// # Errors
    /// The members cannot be read, or cannot be waited for.
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
                #[expect(
                    clippy::disallowed_methods,
                    reason = "it has a limit, and this crate does not know `sys`"
                )]
                let ended = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], timeout.as_ref());
                match ended {
                    Ok(0) => return Ok(false),
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(errno) => return Err(fault(errno)),
                }
            }
            // The process has ended, but is a member until the kernel has removed it.
            if members(path)?.contains(&pid) {
                tree::pause(SETTLE.min(left));
            }
        }
    }

    /// Moves members of other hierarchies that have left the group's own v1 freezer back to it, and resumes all of
    /// them: they may be suspended in another freezer, where they cannot die. On v2 a suspended process dies of
    /// SIGKILL, too.
    ///
    /// # Errors
    /// Members cannot be read, or cannot be moved.
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
                // The process has ended meanwhile.
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
        // Members of the freezer's group are the processes that it has stopped.
        let dir = self
            .v1(Controllers::FREEZER)
            .or_else(|| self.v2())
            .or_else(|| self.dirs.first());
        dir.map(|dir| dir.path.as_path())
    }

    /// Signals suspended processes. They cannot end, so their pids stay theirs and a plain kill(2) is safe.
    fn signal_frozen(&self, signal: Signal) -> Result<(), Error> {
        let Some(path) = self.members_dir() else {
            return Ok(());
        };
        for raw in members(path)? {
            let Some(pid) = Pid::from_raw(raw) else { continue };
            match kill_process(pid, signal) {
                // The process was killed before it was suspended.
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

/// Sends the signal to every process in the group; returns their pids.
///
/// A pid read from `cgroup.procs` can be another process's by the time it is opened, so a process is signalled only
/// if the group still lists it after the opening: then the descriptor is the member's.
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

/// Returns the members in ascending order.
fn members(path: &Path) -> Result<Vec<i32>, Error> {
    let mut pids = BTreeSet::new();
    tree::members(path, &mut pids)?;
    Ok(pids.into_iter().collect())
}

/// Opens the processes that still exist.
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
