//! Resource usage of containers.

use crate::container::{self, Entry, ProcessId, Status as Life};
use crate::exec::ExecError;
use crate::proc::{Stat, field, members, read};
use crate::{EngineError, Home};
use rustix::param::{clock_ticks_per_second, page_size};
use std::time::Instant;
use tote_cgroup::{Cgroup, Controllers, Stats};

/// Resource usage of a container up to a moment.
#[derive(Clone, Debug)]
pub struct Usage {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When this was.
    pub at: Instant,
    /// Processor time, in nanoseconds.
    pub cpu: u64,
    /// Bytes of memory, without page cache that could be given back at once.
    pub memory: u64,
    /// The most that it may have: its limit, or all that the machine has.
    pub memory_limit: u64,
    /// Bytes received and sent by way of its own network devices.
    pub network: (u64, u64),
    /// Bytes read from and written to block devices.
    pub blocks: (u64, u64),
    /// Processes and threads.
    pub pids: u64,
    /// Whether no cgroup counts its processor time, and the times of its processes were added up.
    pub cpu_is_sum: bool,
    /// Usage of memory.
    pub memory_is_sum: bool,
    /// Usage of block devices.
    pub blocks_are_sum: bool,
}

impl Usage {
    /// Nothing, until now.
    fn none(id: String, name: String) -> Self {
        Usage {
            id,
            name,
            at: Instant::now(),
            cpu: 0,
            memory: 0,
            memory_limit: 0,
            network: (0, 0),
            blocks: (0, 0),
            pids: 0,
            cpu_is_sum: false,
            memory_is_sum: false,
            blocks_are_sum: false,
        }
    }

    /// The share of one processor that it had since then, in percent: 200 is all of two.
    #[must_use]
    pub fn cpu_percent(&self, before: &Self) -> f64 {
        let wall = self.at.saturating_duration_since(before.at).as_nanos();
        if wall == 0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
        let share = self.cpu.saturating_sub(before.cpu) as f64 / wall as f64;
        share * 100.0
    }

    /// The share of its limit, in percent.
    #[must_use]
    pub fn memory_percent(&self) -> f64 {
        if self.memory_limit == 0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
        let share = self.memory as f64 / self.memory_limit as f64;
        share * 100.0
    }
}

/// Returns the usage of these containers, in this order: all running ones if none is named, and with `all` those that do not run.
///
/// # Errors
/// A container that is named is not there.
pub fn usage(home: &Home, names: &[String], all: bool) -> Result<Vec<Usage>, EngineError> {
    if names.is_empty() {
        let entries = container::list(home)?;
        return Ok(entries
            .iter()
            .filter(|entry| all || entry.state.runs())
            .map(of)
            .collect());
    }
    names
        .iter()
        .map(|name| container::find(home, name).map(|entry| of(&entry)))
        .collect()
}

/// Returns the usage of those of them that run.
pub(crate) fn usage_of(entries: &[Entry]) -> Vec<Usage> {
    entries
        .iter()
        .filter(|entry| entry.state.runs())
        .map(of)
        .collect()
}

/// The processes of a container that runs, and its first one.
///
/// # Errors
/// It does not run.
pub(crate) fn running(entry: &Entry) -> Result<(ProcessId, Cgroup, Vec<u32>), EngineError> {
    let first = entry
        .state
        .process
        .filter(|first| entry.state.status == Life::Running && first.exists());
    let Some(first) = first else {
        return Err(ExecError::NotRunning(entry.container.id.to_string()).into());
    };
    let record = entry.state.cgroup.as_deref().unwrap_or_default();
    let cgroup = Cgroup::open(record).map_err(tote_runtime::ErrandError::Cgroup)?;
    let own_pids = entry.container.option("pid").is_none_or(|mode| mode != "host");
    let pids = members(first.pid, &cgroup, own_pids);
    Ok((first, cgroup, pids))
}

fn of(entry: &Entry) -> Usage {
    let mut usage = Usage::none(entry.container.id.to_string(), entry.container.name.clone());
    // One that has just ended uses nothing.
    let Ok((first, cgroup, pids)) = running(entry) else {
        return usage;
    };
    let first = first.pid;
    let stats = cgroup.stats().unwrap_or_default();
    let counts = |controller| cgroup.paths().any(|(carried, _)| carried.contains(controller));
    fill(&mut usage, &stats, &pids, &counts, cgroup.counts_cpu());
    let own_network = entry
        .container
        .option("network")
        .is_none_or(|mode| mode != "host");
    if own_network {
        usage.network = network(&read(first, "net/dev"));
    }
    usage
}

/// Counters of the cgroup, and sums over the processes for the rest.
fn fill(
    usage: &mut Usage,
    stats: &Stats,
    pids: &[u32],
    counts: &dyn Fn(Controllers) -> bool,
    counts_cpu: bool,
) {
    let stat = |pid: &u32| Stat::parse(&read(*pid, "stat"));
    usage.cpu_is_sum = !counts_cpu;
    usage.cpu = if counts_cpu {
        stats.cpu.usage_ns
    } else {
        let ticks = pids
            .iter()
            .filter_map(stat)
            .map(|stat| stat.ticks.saturating_add(stat.children_ticks));
        let ticks: u64 = ticks.fold(0, u64::saturating_add);
        ticks.saturating_mul(1_000_000_000 / clock_ticks_per_second().max(1))
    };
    usage.memory_is_sum = !counts(Controllers::MEMORY);
    usage.memory = if usage.memory_is_sum {
        pids.iter().map(|pid| memory(*pid)).fold(0, u64::saturating_add)
    } else {
        stats.memory.working_set()
    };
    usage.memory_limit = stats.memory.limit.unwrap_or(u64::MAX).min(machine_memory());
    usage.blocks_are_sum = !counts(Controllers::IO);
    usage.blocks = if usage.blocks_are_sum {
        pids.iter().fold((0, 0), |sum, pid| {
            let text = read(*pid, "io");
            let of = |name| field(&text, name).unwrap_or(0);
            (sum.0 + of("read_bytes"), sum.1 + of("write_bytes"))
        })
    } else {
        stats
            .io
            .values()
            .fold((0, 0), |sum, io| (sum.0 + io.read_bytes, sum.1 + io.write_bytes))
    };
    usage.pids = match stats.pids.current {
        0 => pids.iter().filter_map(stat).map(|stat| stat.threads).sum(),
        counted => counted,
    };
}

/// The process's share of the memory that it uses, in bytes; where that may not be asked, all of it.
fn memory(pid: u32) -> u64 {
    match field(&read(pid, "smaps_rollup"), "Pss") {
        Some(kib) => kib.saturating_mul(1024),
        None => Stat::parse(&read(pid, "stat")).map_or(0, |stat| stat.rss.saturating_mul(page_size() as u64)),
    }
}

fn machine_memory() -> u64 {
    // absence: a figure for people
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    field(&text, "MemTotal").unwrap_or(0).saturating_mul(1024)
}

/// Bytes received and sent, by `/proc/PID/net/dev`; what a container says to itself does not count.
fn network(text: &str) -> (u64, u64) {
    let devices = text.lines().filter_map(|line| line.split_once(':'));
    devices
        .filter(|(name, _)| name.trim() != "lo")
        .fold((0, 0), |sum, (_, counts)| {
            let counts: Vec<u64> = counts
                .split_whitespace()
                .map(|count| count.parse().unwrap_or(0))
                .collect();
            let count = |at: usize| counts.get(at).copied().unwrap_or(0);
            (sum.0 + count(0), sum.1 + count(8))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn empty() -> Usage {
        Usage::none(String::new(), String::new())
    }

    #[test]
    fn shares() {
        let before = empty();
        let after = Usage {
            at: before.at + Duration::from_secs(1),
            cpu: 1_500_000_000,
            memory: 50,
            memory_limit: 200,
            ..before.clone()
        };
        assert!((after.cpu_percent(&before) - 150.0).abs() < 1e-9);
        assert!((after.memory_percent() - 25.0).abs() < 1e-9);
        assert!(before.cpu_percent(&before).abs() < 1e-9 && before.memory_percent().abs() < 1e-9);
    }

    #[test]
    fn devices_without_the_loopback() {
        let text = "Inter-|   Receive  | Transmit\n face |bytes packets\n    lo: 7 1 0 0 0 0 0 0 7 1 0\n  eth0: 100 1 0 0 0 0 0 0 200 2 0\neth1:5 0 0 0 0 0 0 0 6 0\n";
        assert_eq!(network(text), (105, 206));
        assert_eq!(network(""), (0, 0));
    }

    #[test]
    fn without_a_cgroup_processes_are_added_up() {
        let mut usage = empty();
        fill(
            &mut usage,
            &Stats::default(),
            &[std::process::id()],
            &|_| false,
            false,
        );
        assert!(usage.cpu_is_sum && usage.memory_is_sum && usage.blocks_are_sum);
        assert!(usage.memory > 0 && usage.pids > 0 && usage.memory_limit > usage.memory);
    }
}
