//! Processes below this one, and their memory.

use crate::trial::GRACE;
use anyhow::{Context, Result};
use rustix::process::Pid;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time that a process is left alone before its memory counts as that of a resting one.
const REST: Duration = Duration::from_millis(2500);

/// Lists the children. All threads count, because a subreaper's orphans may become children of any thread.
pub fn children() -> Result<Vec<Pid>> {
    Ok(children_of("self")?
        .into_iter()
        .filter_map(Pid::from_raw)
        .collect())
}

fn children_of(process: &str) -> Result<Vec<i32>> {
    let mut pids = Vec::new();
    let tasks = format!("/proc/{process}/task");
    for task in fs::read_dir(&tasks).with_context(|| format!("read {tasks}"))? {
        let path = task
            .with_context(|| format!("read {tasks}"))?
            .path()
            .join("children");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        pids.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Ok(pids)
}

/// Compares the number of processes left behind with `leaves`, daemons not counted; returns the error if they
/// differ. Some runtimes' own processes end a moment after the command, so it waits for a time.
pub fn miscounted(leaves: usize, daemons: &[Pid]) -> Result<Option<String>> {
    if leaves == 0 {
        return Ok(None);
    }
    let deadline = Instant::now() + GRACE;
    loop {
        let left = descendants(daemons)?.len();
        if left == leaves {
            return Ok(None);
        }
        if Instant::now() > deadline {
            return Ok(Some(format!("left {left} processes instead of {leaves}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Name that stands for all programs.
pub const EVERY: &str = "*";

/// Measures the mean PSS in KiB of the processes of `program` that were left, once they have come to rest; the sum of
/// all processes that were left for [`EVERY`]. `None` without any.
pub fn idle_pss(program: &Path, daemons: &[Pid]) -> Result<Option<f64>> {
    std::thread::sleep(REST);
    let file = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    let every = program == Path::new(EVERY);
    let wanted = match every {
        true => None,
        false => Some(file(program).with_context(|| format!("read {}", program.display()))?),
    };
    let mut occupied = Vec::new();
    for pid in descendants(daemons)? {
        // Compare files and not names: tote runs from a mount of its own executable that has no name.
        let exe = file(Path::new(&format!("/proc/{pid}/exe"))).ok();
        if exe.is_some() && (every || exe == wanted) {
            let path = format!("/proc/{pid}/smaps_rollup");
            let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
            occupied.push(pss(&text).with_context(|| format!("find Pss in {path}"))?);
        }
    }
    let sum: u64 = occupied.iter().sum();
    let share = if every { 1 } else { occupied.len() };
    Ok((!occupied.is_empty()).then(|| sum as f64 / share as f64))
}

/// Lists the running processes below this one, except daemons and their descendants. A process that has ended and
/// waits to be reaped is left out.
fn descendants(daemons: &[Pid]) -> Result<Vec<i32>> {
    let mut found = Vec::new();
    let mut processes = children_of("self")?;
    processes.retain(|pid| Pid::from_raw(*pid).is_none_or(|pid| !daemons.contains(&pid)));
    while let Some(pid) = processes.pop() {
        // A process that ended meanwhile has no children any more.
        processes.extend(children_of(&pid.to_string()).unwrap_or_default());
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if runs(&stat) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Reads the state of proc_pid_stat(5): true if the process runs. The command's name may contain blanks and
/// parentheses.
fn runs(stat: &str) -> bool {
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Parses `/proc/PID/smaps_rollup`; returns the PSS in KiB.
fn pss(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_to_be_reaped_does_not_run() {
        let cases = [
            ("7 (sleep) S 1 7", true),
            ("7 (a) Z b) R 1 7", true),
            ("7 (sleep) Z 1 7", false),
            ("7 (sleep) X 1 7", false),
            ("", false),
        ];
        for (stat, expected) in cases {
            assert_eq!(runs(stat), expected, "{stat:?}");
        }
    }

    #[test]
    fn memory_is_what_stands_behind_pss() {
        let text = "00400000-7ffd r--p 00000000 00:00 0    [rollup]\nRss:    2540 kB\nPss:     318 kB\nPss_Dirty:  96 kB\n";
        assert_eq!(pss(text), Some(318));
        assert_eq!(pss("Pss_Dirty:  96 kB\n"), None);
        assert_eq!(pss(""), None);
    }
}
