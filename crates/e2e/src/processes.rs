//! Processes in `/proc`: their descent, and the end of a tree of them.

use anyhow::{Context as _, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Process as `/proc` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) name: String,
    /// State letter of proc_pid_status(5): `Z` is a zombie.
    pub(crate) state: char,
    /// Ids from our PID namespace inwards; more than one if the process lives in another namespace.
    pub(crate) ids: Vec<i32>,
}

impl Process {
    /// True for PID 1 of a namespace other than ours.
    fn is_init_of_another(&self) -> bool {
        self.ids.len() > 1 && self.ids.last() == Some(&1)
    }
}

/// Parses the text of `/proc/PID/status`.
fn parse(text: &str) -> Option<Process> {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    Some(Process {
        pid: field("Pid")?.parse().ok()?,
        parent: field("PPid")?.parse().ok()?,
        name: field("Name")?.to_owned(),
        state: field("State")?.chars().next()?,
        ids: field("NSpid")
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|id| id.parse().ok())
            .collect(),
    })
}

/// Lists all visible processes; those that end meanwhile are left out.
pub(crate) fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with(|c: char| c.is_ascii_digit())
        })
        .filter_map(|entry| {
            parse(&String::from_utf8_lossy(
                &fs::read(entry.path().join("status")).ok()?,
            ))
        })
        .collect()
}

/// Lists the living descendants of a process, parents before children.
pub(crate) fn descendants(of: i32) -> Vec<Process> {
    descend(&all(), of)
        .into_iter()
        .filter(|process| process.state != 'Z')
        .collect()
}

fn descend(all: &[Process], of: i32) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut next = vec![of];
    while let Some(parent) = next.pop() {
        for child in all
            .iter()
            .filter(|process| process.parent == parent && process.pid != of)
        {
            next.push(child.pid);
            found.push(child.clone());
        }
    }
    found
}

/// Finds the host's id of the container's PID 1, for the tote process that runs it.
pub(crate) fn container_init(tote: i32) -> Result<i32> {
    let tree = descendants(tote);
    let init = tree.iter().find(|process| process.is_init_of_another());
    Ok(init
        .with_context(|| format!("no PID 1 of a container below process {tote}, only {tree:?}"))?
        .pid)
}

/// Opens a handle on a process that exists now.
pub(crate) fn pidfd(pid: i32) -> Result<OwnedFd> {
    let pid = Pid::from_raw(pid).context("process id 0")?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).with_context(|| format!("open process {pid:?}"))
}

/// Waits until a process has ended.
pub(crate) fn wait_end(pidfd: &OwnedFd, what: &str, limit: Duration) -> Result<()> {
    ensure!(readable(pidfd, limit)?, "{what} is still alive after {limit:?}");
    Ok(())
}

/// Waits until a child of this process has stopped or ended; true if it has stopped.
pub(crate) fn wait_stop(child: i32) -> Result<bool> {
    let child = pidfd(child)?;
    let changes = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let status = rustix::process::waitid(WaitId::PidFd(child.as_fd()), changes)?;
    Ok(status.is_some_and(|status| status.stopped()))
}

/// Waits until a descriptor becomes readable. Returns false after the limit.
pub(crate) fn readable(fd: impl AsFd, limit: Duration) -> Result<bool> {
    Ok(first_readable(&[fd], limit)?.is_some())
}

/// Waits for the first readable descriptor, no longer than the limit, and returns its index.
pub(crate) fn first_readable(fds: &[impl AsFd], limit: Duration) -> Result<Option<usize>> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&timespec(left))) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("poll"),
            Ok(_) => return Ok(polled.iter().position(|fd| !fd.revents().is_empty())),
        }
    }
}

/// Converts a duration for poll(2).
pub(crate) fn timespec(left: Duration) -> Timespec {
    Timespec {
        tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}

/// Returns the peak memory of a running process in KiB.
pub(crate) fn peak_memory(pid: i32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(number.context("no peak in /proc/PID/status")?.parse()?)
}

/// Kills a process, if it still exists.
pub(crate) fn kill(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // The process may have ended meanwhile, which is the wanted result.
        rustix::process::kill_process(pid, signal).ok();
    }
}

/// Does something while a process is stopped.
pub(crate) fn stopped<T>(pid: i32, what: impl FnOnce() -> Result<T>) -> Result<T> {
    kill(pid, Signal::STOP);
    let done = what();
    kill(pid, Signal::CONT);
    done
}

/// Kills everything below a process, which must be a subreaper, until no living process is left or the limit has
/// passed. Returns the processes that it found.
pub(crate) fn kill_descendants(of: i32, limit: Duration) -> Vec<Process> {
    let deadline = Instant::now() + limit;
    let mut killed: Vec<Process> = Vec::new();
    loop {
        let tree = descendants(of);
        if tree.is_empty() || Instant::now() > deadline {
            return killed;
        }
        for process in tree {
            let handle = pidfd(process.pid);
            kill(process.pid, Signal::KILL);
            if let Ok(handle) = handle {
                readable(&handle, deadline.saturating_duration_since(Instant::now())).ok();
            }
            if !killed.iter().any(|seen| seen.pid == process.pid) {
                killed.push(process);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Process, descend, parse};

    fn process(pid: i32, parent: i32) -> Process {
        Process {
            pid,
            parent,
            name: String::new(),
            state: 'S',
            ids: vec![pid],
        }
    }

    #[test]
    fn status_text() {
        let text = "Name:\tsh x\nState:\tZ (zombie)\nPid:\t41\nPPid:\t7\nNSpid:\t41\t1\n";
        let seen = parse(text).unwrap();
        assert_eq!(
            (seen.pid, seen.parent, seen.name.as_str(), seen.state),
            (41, 7, "sh x", 'Z')
        );
        assert!(seen.is_init_of_another());
        assert!(!process(1, 0).is_init_of_another());
        assert_eq!(parse("Name:\tx\n"), None);
    }

    #[test]
    fn a_tree() {
        let all = [
            process(1, 0),
            process(2, 1),
            process(3, 2),
            process(4, 1),
            process(5, 9),
        ];
        let mut pids: Vec<_> = descend(&all, 1).iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [2, 3, 4]);
    }
}
