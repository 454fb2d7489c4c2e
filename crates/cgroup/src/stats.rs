//! Resource use of a group.

use crate::cgroup::{Cgroup, Dir};
use crate::controllers::Controllers;
use crate::error::Error;
use std::collections::BTreeMap;

/// Resource use of a group, as far as its hierarchies count it: values of absent controllers are 0 or `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Processor time.
    pub cpu: CpuStats,
    /// Memory.
    pub memory: MemoryStats,
    /// Processes and threads.
    pub pids: PidsStats,
    /// Block devices, by (major, minor).
    pub io: BTreeMap<(u32, u32), IoStats>,
}

/// Processor time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// Total.
    pub usage_ns: u64,
    /// Part in user mode.
    pub user_ns: u64,
    /// Part in the kernel.
    pub system_ns: u64,
    /// Periods of the quota that have passed.
    pub periods: u64,
    /// Number of periods in which the group had to wait.
    pub throttled_periods: u64,
    /// Total time that it waited.
    pub throttled_ns: u64,
}

/// Memory, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// In use, page cache included.
    pub usage: u64,
    /// Highest usage so far; `None` before Linux 5.19 on v2.
    pub peak: Option<u64>,
    /// Limit; `None` if unlimited.
    pub limit: Option<u64>,
    /// Times that the limit was reached.
    pub failures: u64,
    /// Swap alone.
    pub swap_usage: Option<u64>,
    /// Limit of memory and swap together, as v1 counts; `None` if unlimited or not accounted.
    pub swap_limit: Option<u64>,
    /// Kernel memory.
    pub kernel_usage: Option<u64>,
    /// Processes killed for want of memory.
    pub oom_kills: u64,
    /// Contents of `memory.stat`; the names differ between v1 and v2.
    pub detail: BTreeMap<String, u64>,
}

impl MemoryStats {
    /// Returns the value that `docker stats` shows: usage without the page cache that could be freed at once.
    #[must_use]
    pub fn working_set(&self) -> u64 {
        let idle = self
            .detail
            .get("total_inactive_file")
            .or_else(|| self.detail.get("inactive_file"));
        self.usage.saturating_sub(idle.copied().unwrap_or(0))
    }
}

/// Processes and threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PidsStats {
    /// Number of processes and threads.
    pub current: u64,
    /// Highest number so far; `None` before Linux 6.1.
    pub peak: Option<u64>,
    /// Limit of that number; `None` if unlimited.
    pub limit: Option<u64>,
    /// Times that a fork(2) failed at the limit.
    pub failures: u64,
}

/// Transfers to and from one block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStats {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
}

/// Value by which v1 shows "no limit": the largest number of whole pages.
const V1_UNLIMITED: u64 = 0x7fff_ffff_ffff_0000;

impl Cgroup {
    /// Reads everything: about a dozen files.
    ///
    /// # Errors
    /// An existing file cannot be read.
    pub fn stats(&self) -> Result<Stats, Error> {
        let mut stats = Stats::default();
        if let Some(dir) = self.v2() {
            v2_cpu(&optional(dir, "cpu.stat")?, &mut stats.cpu);
            v2_memory(dir, &mut stats.memory)?;
            v2_io(&optional(dir, "io.stat")?, &mut stats.io);
            pids(dir, &mut stats.pids);
        }
        if let Some(dir) = self.v1(Controllers::CPUACCT) {
            stats.cpu.usage_ns = dir.number("cpuacct.usage").unwrap_or(0);
            stats.cpu.user_ns = dir.number("cpuacct.usage_user").unwrap_or(0);
            stats.cpu.system_ns = dir.number("cpuacct.usage_sys").unwrap_or(0);
        }
        if let Some(dir) = self.v1(Controllers::CPU) {
            let text = optional(dir, "cpu.stat")?;
            stats.cpu.periods = value(&text, "nr_periods");
            stats.cpu.throttled_periods = value(&text, "nr_throttled");
            stats.cpu.throttled_ns = value(&text, "throttled_time");
        }
        if let Some(dir) = self.v1(Controllers::MEMORY) {
            v1_memory(dir, &mut stats.memory)?;
        }
        if let Some(dir) = self.v1(Controllers::IO) {
            v1_io(dir, &mut stats.io)?;
        }
        if let Some(dir) = self.v1(Controllers::PIDS) {
            pids(dir, &mut stats.pids);
        }
        Ok(stats)
    }

    /// True if the group counts processor time.
    #[must_use]
    pub fn counts_cpu(&self) -> bool {
        self.v1(Controllers::CPUACCT).is_some() || self.v2().is_some()
    }

    /// Returns the used processor time, in nanoseconds: one file. 0 if it is not counted.
    #[must_use]
    pub fn cpu_usage(&self) -> u64 {
        if let Some(dir) = self.v1(Controllers::CPUACCT) {
            return dir.number("cpuacct.usage").unwrap_or(0);
        }
        let text = self
            .v2()
            .and_then(|dir| dir.read("cpu.stat").ok())
            .unwrap_or_default();
        value(&text, "usage_usec").saturating_mul(1000)
    }

    /// Returns how many processes were killed for want of memory: one file. 0 if they are not counted.
    #[must_use]
    pub fn oom_kills(&self) -> u64 {
        let (dir, name) = match (self.v1(Controllers::MEMORY), self.v2()) {
            (Some(dir), _) => (dir, "memory.oom_control"),
            (None, Some(dir)) => (dir, "memory.events"),
            (None, None) => return 0,
        };
        value(&dir.read(name).unwrap_or_default(), "oom_kill")
    }
}

/// Reads a file; empty if it is missing because its controller is not enabled.
fn optional(dir: &Dir, name: &str) -> Result<String, Error> {
    match dir.read(name) {
        Err(Error::Read { source, .. }) if source == rustix::io::Errno::NOENT => Ok(String::new()),
        result => result,
    }
}

/// Returns the number after `key` in a file of `key number` lines; 0 if the key is missing.
fn value(text: &str, key: &str) -> u64 {
    pairs(text)
        .find(|(found, _)| *found == key)
        .map_or(0, |(_, number)| number)
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (key, number) = line.split_once(' ')?;
        Some((key, number.trim().parse().ok()?))
    })
}

fn detail(text: &str) -> BTreeMap<String, u64> {
    pairs(text)
        .map(|(key, number)| (key.to_owned(), number))
        .collect()
}

fn v2_cpu(text: &str, cpu: &mut CpuStats) {
    for (key, number) in pairs(text) {
        let field = match key {
            "usage_usec" => &mut cpu.usage_ns,
            "user_usec" => &mut cpu.user_ns,
            "system_usec" => &mut cpu.system_ns,
            "throttled_usec" => &mut cpu.throttled_ns,
            "nr_periods" => {
                cpu.periods = number;
                continue;
            }
            "nr_throttled" => {
                cpu.throttled_periods = number;
                continue;
            }
            _ => continue,
        };
        *field = number.saturating_mul(1000);
    }
}

fn v2_memory(dir: &Dir, memory: &mut MemoryStats) -> Result<(), Error> {
    let Some(usage) = dir.number("memory.current") else {
        return Ok(());
    };
    let events = optional(dir, "memory.events")?;
    memory.usage = usage;
    memory.peak = dir.number("memory.peak");
    memory.limit = dir.number("memory.max");
    memory.failures = value(&events, "max");
    memory.oom_kills = value(&events, "oom_kill");
    memory.swap_usage = dir.number("memory.swap.current");
    memory.swap_limit = memory
        .limit
        .zip(dir.number("memory.swap.max"))
        .map(|(memory, swap)| memory.saturating_add(swap));
    memory.detail = detail(&optional(dir, "memory.stat")?);
    memory.kernel_usage = memory.detail.get("kernel").copied();
    Ok(())
}

fn v1_memory(dir: &Dir, memory: &mut MemoryStats) -> Result<(), Error> {
    let limit = |name| dir.number(name).filter(|&bytes| bytes < V1_UNLIMITED);
    memory.usage = dir.number("memory.usage_in_bytes").unwrap_or(0);
    memory.peak = dir.number("memory.max_usage_in_bytes");
    memory.limit = limit("memory.limit_in_bytes");
    memory.failures = dir.number("memory.failcnt").unwrap_or(0);
    let both = dir.number("memory.memsw.usage_in_bytes");
    memory.swap_usage = both.map(|both| both.saturating_sub(memory.usage));
    memory.swap_limit = limit("memory.memsw.limit_in_bytes");
    memory.kernel_usage = dir.number("memory.kmem.usage_in_bytes");
    memory.oom_kills = value(&optional(dir, "memory.oom_control")?, "oom_kill");
    memory.detail = detail(&optional(dir, "memory.stat")?);
    Ok(())
}

fn pids(dir: &Dir, pids: &mut PidsStats) {
    if let Some(current) = dir.number("pids.current") {
        *pids = PidsStats {
            current,
            peak: dir.number("pids.peak"),
            limit: dir.number("pids.max"),
            failures: value(&dir.read("pids.events").unwrap_or_default(), "max"),
        };
    }
}

fn device(number: &str) -> Option<(u32, u32)> {
    let (major, minor) = number.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Parses `8:0 rbytes=1 wbytes=2 rios=3 wios=4 …`.
fn v2_io(text: &str, io: &mut BTreeMap<(u32, u32), IoStats>) {
    for line in text.lines() {
        let mut words = line.split(' ');
        let Some(device) = words.next().and_then(device) else {
            continue;
        };
        let entry = io.entry(device).or_default();
        for (key, number) in words.filter_map(|word| word.split_once('=')) {
            let number = number.parse().unwrap_or(0);
            match key {
                "rbytes" => entry.read_bytes = number,
                "wbytes" => entry.write_bytes = number,
                "rios" => entry.reads = number,
                "wios" => entry.writes = number,
                _ => {}
            }
        }
    }
}

/// Parses `8:0 Read 4096`; the throttling policy counts operations that other policies of the block layer do not.
fn v1_io(dir: &Dir, io: &mut BTreeMap<(u32, u32), IoStats>) -> Result<(), Error> {
    let bytes = optional(dir, "blkio.throttle.io_service_bytes_recursive")?;
    let operations = optional(dir, "blkio.throttle.io_serviced_recursive")?;
    for (text, is_bytes) in [(bytes, true), (operations, false)] {
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some(device), Some(kind)) = (words.next().and_then(device), words.next()) else {
                continue;
            };
            let number = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
            let entry = io.entry(device).or_default();
            match (kind, is_bytes) {
                ("Read", true) => entry.read_bytes = number,
                ("Write", true) => entry.write_bytes = number,
                ("Read", false) => entry.reads = number,
                ("Write", false) => entry.writes = number,
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_files() {
        let mut cpu = CpuStats::default();
        v2_cpu(
            "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 9\nnr_throttled 1\nthrottled_usec 7\nbad\n",
            &mut cpu,
        );
        assert_eq!((cpu.usage_ns, cpu.user_ns, cpu.system_ns), (5000, 3000, 2000));
        assert_eq!(
            (cpu.periods, cpu.throttled_periods, cpu.throttled_ns),
            (9, 1, 7000)
        );
        let mut io = BTreeMap::new();
        v2_io(
            "8:16 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0\nx rbytes=1\n",
            &mut io,
        );
        assert_eq!(
            io[&(8, 16)],
            IoStats {
                read_bytes: 1,
                write_bytes: 2,
                reads: 3,
                writes: 4
            }
        );
        assert_eq!(io.len(), 1);
        assert_eq!(value("low 0\noom 1\noom_kill 2\n", "oom_kill"), 2);
    }

    #[test]
    fn the_working_set_is_without_idle_cache() {
        let detail = detail("inactive_file 5\ntotal_inactive_file 30\n");
        assert_eq!(
            MemoryStats {
                usage: 100,
                detail,
                ..MemoryStats::default()
            }
            .working_set(),
            70
        );
    }
}
