//! The command `events`: resource use of a container, in runc's JSON.

use crate::{ContainerError, GroupError, Id, OciError, Store, status};
use rustix::fd::AsFd as _;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tote_cgroup::{Cgroup, Stats};
use tote_sys::Wait;

/// Options of `events`.
#[derive(Clone, Copy, Debug)]
pub struct EventsOptions {
    /// True for statistics once, without events.
    pub stats: bool,
    /// Interval of statistics.
    pub interval: Duration,
}

/// Calls `emit` with each event, one line without its end: statistics at every interval, and `oom` when the kernel
/// has killed one of the container's processes since. Returns when the container has ended, or `emit` returns false.
///
/// # Errors
/// The container does not run, or its cgroup cannot be read.
pub fn events(
    store: &Store,
    id: &Id,
    options: EventsOptions,
    emit: &mut dyn FnMut(&str) -> bool,
) -> Result<(), OciError> {
    if options.interval.is_zero() {
        return Err(OciError::Usage(
            "duration interval must be greater than 0".to_owned(),
        ));
    }
    let place = store.open(id)?;
    let (record, _) = place
        .read()?
        .ok_or(OciError::Container(ContainerError::NotFound))?;
    let init = status::init(&record).ok_or(OciError::Container(ContainerError::NotRunning))?;
    let cgroup = Cgroup::open(&record.cgroup)?;
    if cgroup.is_empty() {
        return Err(OciError::Group(GroupError::NoCgroup));
    }
    let id = id.as_str();
    let statistics = || -> Result<String, OciError> { line("stats", id, Some(data(&cgroup.stats()?))) };
    if options.stats {
        emit(&statistics()?);
        return Ok(());
    }
    let oom = line("oom", id, None)?;
    let mut killed = cgroup.oom_kills();
    loop {
        let ended = Wait::within(options.interval).readable(init.as_fd()) == Ok(true);
        let now = cgroup.oom_kills();
        if now > killed && !emit(&oom) {
            return Ok(());
        }
        killed = now;
        if ended || !emit(&statistics()?) {
            return Ok(());
        }
    }
}

/// Formats an event. Its properties are in runc's order: some scripts look for the start of the line.
fn line(kind: &str, id: &str, data: Option<Value>) -> Result<String, OciError> {
    #[derive(Serialize)]
    struct Event<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    }
    serde_json::to_string(&Event { kind, id, data }).map_err(|source| OciError::Json {
        what: "the event".to_owned(),
        source: source.into(),
    })
}

/// Names statistics as runc does; unknown values are left out.
fn data(stats: &Stats) -> Value {
    let cpu = &stats.cpu;
    let memory = &stats.memory;
    let limit = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let entry = |usage: u64, most: Option<u64>, bound: Option<u64>, failures: u64| json!({ "limit": limit(bound), "usage": usage, "max": most.unwrap_or(0), "failcnt": failures });
    let swap = memory
        .swap_usage
        .map(|swap| swap.saturating_add(memory.usage))
        .unwrap_or(0);
    let raw: Map<String, Value> = memory
        .detail
        .iter()
        .map(|(name, value)| (name.clone(), (*value).into()))
        .collect();
    let cache = memory.detail.get("cache").or_else(|| memory.detail.get("file"));
    json!({
        "cpu": {
            "usage": { "total": cpu.usage_ns, "kernel": cpu.system_ns, "user": cpu.user_ns },
            "throttling": {
                "periods": cpu.periods,
                "throttledPeriods": cpu.throttled_periods,
                "throttledTime": cpu.throttled_ns,
            },
        },
        "memory": {
            "cache": cache.copied().unwrap_or(0),
            "usage": entry(memory.usage, memory.peak, memory.limit, memory.failures),
            "swap": entry(swap, None, memory.swap_limit, 0),
            "kernel": entry(memory.kernel_usage.unwrap_or(0), None, None, 0),
            "kernelTCP": entry(0, None, None, 0),
            "raw": raw,
        },
        "pids": { "current": stats.pids.current, "limit": stats.pids.limit.unwrap_or(0) },
        "blkio": blkio(stats),
        "hugetlb": {},
        "intel_rdt": {},
        "network_interfaces": null,
    })
}

fn blkio(stats: &Stats) -> Value {
    let entries =
        |read: fn(&tote_cgroup::IoStats) -> u64, write: fn(&tote_cgroup::IoStats) -> u64| -> Vec<Value> {
            let of_one = |((major, minor), io): (&(u32, u32), &tote_cgroup::IoStats)| {
                [("Read", read(io)), ("Write", write(io))]
                    .map(|(op, value)| json!({ "major": major, "minor": minor, "op": op, "value": value }))
            };
            stats.io.iter().flat_map(of_one).collect()
        };
    let mut blkio = Map::new();
    for (name, list) in [
        (
            "ioServiceBytesRecursive",
            entries(|io| io.read_bytes, |io| io.write_bytes),
        ),
        ("ioServicedRecursive", entries(|io| io.reads, |io| io.writes)),
    ] {
        if !list.is_empty() {
            blkio.insert(name.to_owned(), list.into());
        }
    }
    Value::Object(blkio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_as_runcs() {
        assert_eq!(line("oom", "x", None).unwrap(), r#"{"type":"oom","id":"x"}"#);
        let line = line("stats", "x", Some(data(&Stats::default()))).unwrap();
        assert!(line.starts_with(r#"{"type":"stats","id":"x","data":{"#), "{line}");
    }

    #[test]
    fn names_are_runcs() {
        let mut stats = Stats::default();
        stats.cpu.usage_ns = 5;
        stats.pids.current = 2;
        stats.io.insert(
            (8, 0),
            tote_cgroup::IoStats {
                read_bytes: 7,
                ..Default::default()
            },
        );
        let data = data(&stats);
        assert_eq!(data["cpu"]["usage"]["total"], 5);
        assert_eq!(data["pids"]["current"], 2);
        assert_eq!(data["memory"]["usage"]["limit"], u64::MAX);
        assert_eq!(data["blkio"]["ioServiceBytesRecursive"][0]["value"], 7);
    }
}
