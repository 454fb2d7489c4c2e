//! The specification's resources, in v1's terms, as v2's files.

use crate::controllers::Controllers;
use crate::convert::{SwapMax, io_weight_from_blkio, swap_max, weight_from_shares};
use crate::v1::{pids_max, rdma};
use crate::write::{Absent, Write, Writes};
use tote_spec::{BlockIo, Cpu, Memory, Resources, ThrottleDevice};

/// Period that the kernel documents for `cpu.max` if only a quota is given, in microseconds.
const DEFAULT_PERIOD: u64 = 100_000;

/// Appends everything that v2 has a file for; devices are a program there. The pair of memory and swap must have been
/// checked before: see `plan`.
pub(crate) fn writes(resources: &Resources, out: &mut Writes) {
    if let Some(limit) = resources.pids.and_then(|pids| pids.limit) {
        out.push(Controllers::PIDS, "pids", "pids.max", pids_max(limit));
    }
    if let Some(memory) = &resources.memory {
        self::memory(memory, out);
    }
    if let Some(io) = &resources.block_io {
        block_io(io, out);
    }
    if let Some(cpu) = &resources.cpu {
        processor(cpu, out);
        for (list, limit, file) in [
            (&cpu.cpus, "cpuset cpus", "cpuset.cpus"),
            (&cpu.mems, "cpuset mems", "cpuset.mems"),
        ] {
            if let Some(list) = list.as_deref().filter(|list| !list.is_empty()) {
                out.push(Controllers::CPUSET, limit, file, list);
            }
        }
    }
    for huge in &resources.hugepage_limits {
        let (limit, size) = (huge.limit.to_string(), &huge.page_size);
        out.push(
            Controllers::HUGETLB,
            "hugetlb",
            format!("hugetlb.{size}.max"),
            limit.as_str(),
        );
        let reserved = format!("hugetlb.{size}.rsvd.max");
        out.push_or(Controllers::HUGETLB, "hugetlb", reserved, limit, Absent::Ignore);
    }
    rdma(resources, out);
}

/// Returns the controller of a control file by its name; `cgroup.*` files need none.
pub(crate) fn key_controller(key: &str) -> Option<Controllers> {
    key.split_once('.')
        .and_then(|(name, _)| Controllers::from_name(name))
}

/// Returns the controllers of the keys of `unified`.
pub(crate) fn unified_controllers(resources: &Resources) -> Controllers {
    resources
        .unified
        .keys()
        .filter_map(|key| key_controller(key))
        .fold(Controllers::NONE, Controllers::union)
}

/// Appends the files named by the user, one write for each line of the value, as the kernel wants it.
pub(crate) fn unified_writes(resources: &Resources, in_v1: Controllers, out: &mut Writes) {
    for (key, value) in &resources.unified {
        let controllers = key_controller(key).unwrap_or(Controllers::NONE);
        if controllers.intersects(in_v1) {
            continue;
        }
        out.list.extend(value.lines().map(|line| Write {
            controllers,
            file: key.clone().into(),
            value: line.to_owned(),
            limit: "unified",
            absent: Absent::Fail,
            usage: None,
        }));
    }
}

fn bytes(value: i64) -> String {
    if value == -1 {
        "max".to_owned()
    } else {
        value.to_string()
    }
}

fn memory(memory: &Memory, out: &mut Writes) {
    let set = Controllers::MEMORY;
    let (limit, swap) = (memory.limit.unwrap_or(0), memory.swap.unwrap_or(0));
    // Without swap accounting the file is missing, and no swap can be allowed or forbidden.
    match swap_max(swap, limit) {
        Ok(SwapMax::Max) => out.push_or(set, "memory swap", "memory.swap.max", "max", Absent::Ignore),
        Ok(SwapMax::Bytes(0)) => out.push_or(set, "memory swap", "memory.swap.max", "0", Absent::Ignore),
        Ok(SwapMax::Bytes(swap)) => out.push(set, "memory swap", "memory.swap.max", swap.to_string()),
        Ok(SwapMax::Unset) | Err(_) => {}
    }
    if limit != 0 {
        out.push(set, "memory", "memory.max", bytes(limit));
        // v1 refuses a limit below the usage; v2 kills until it fits.
        if memory.check_before_update == Some(true)
            && limit > 0
            && let Some(write) = out.list.last_mut().filter(|write| write.file == "memory.max")
        {
            write.usage = Some("memory.current");
        }
    }
    if let Some(low) = memory.reservation.filter(|&low| low != 0) {
        out.push(set, "memory reservation", "memory.low", bytes(low));
    }
}

fn processor(cpu: &Cpu, out: &mut Writes) {
    let set = Controllers::CPU;
    if let Some(idle) = cpu.idle {
        out.push(set, "cpu idle", "cpu.idle", idle.to_string());
    }
    if let Some(shares) = cpu.shares.filter(|&shares| shares != 0) {
        out.push(
            set,
            "cpu shares",
            "cpu.weight",
            weight_from_shares(shares).to_string(),
        );
    }
    // The kernel refuses it while it exceeds the old quota; then it is tried again after cpu.max.
    if let Some(burst) = cpu.burst {
        out.push(set, "cpu burst", "cpu.max.burst", burst.to_string());
    }
    let (quota, period) = (cpu.quota.unwrap_or(0), cpu.period.unwrap_or(0));
    if quota != 0 || period != 0 {
        let period = if period == 0 { DEFAULT_PERIOD } else { period };
        let value = if quota > 0 {
            format!("{quota} {period}")
        } else {
            format!("max {period}")
        };
        out.push(set, "cpu quota", "cpu.max", value);
    }
}

/// Completes an update: quota and period are one value on v2 but two in an update. If the update has only one of
/// them, the other keeps its present value. `now` reads `cpu.max`; `None` if nothing has to be completed.
pub(crate) fn with_old_quota<E>(
    cpu: &Cpu,
    now: impl FnOnce() -> Result<String, E>,
) -> Result<Option<Cpu>, E> {
    let (quota, period) = (cpu.quota.unwrap_or(0), cpu.period.unwrap_or(0));
    if (quota == 0) == (period == 0) {
        return Ok(None);
    }
    let now = now()?;
    let mut numbers = now.split_whitespace().map(|word| word.parse().ok());
    let (old_quota, old_period): (Option<i64>, _) = (numbers.next().flatten(), numbers.next().flatten());
    let mut cpu = cpu.clone();
    if quota == 0 {
        cpu.quota = old_quota;
    } else {
        cpu.period = old_period.and_then(|period| period.try_into().ok());
    }
    Ok(Some(cpu))
}

fn block_io(io: &BlockIo, out: &mut Writes) {
    let set = Controllers::IO;
    // BFQ's file takes blkio's scale, io.weight has its own.
    if let Some(weight) = io.weight.filter(|&weight| weight != 0) {
        let linear = Absent::Instead("io.weight", io_weight_from_blkio(weight).to_string());
        out.push_or(set, "io weight", "io.bfq.weight", weight.to_string(), linear);
    }
    for device in &io.weight_device {
        if let Some(weight) = device.weight.filter(|&weight| weight != 0) {
            let number = format!("{}:{}", device.major, device.minor);
            let linear = Absent::Instead("io.weight", format!("{number} {}", io_weight_from_blkio(weight)));
            out.push_or(
                set,
                "io device weight",
                "io.bfq.weight",
                format!("{number} {weight}"),
                linear,
            );
        }
    }
    let throttles: [(&[ThrottleDevice], _); 4] = [
        (&io.throttle_read_bps_device, "rbps"),
        (&io.throttle_write_bps_device, "wbps"),
        (&io.throttle_read_iops_device, "riops"),
        (&io.throttle_write_iops_device, "wiops"),
    ];
    for (devices, key) in throttles {
        for device in devices {
            let line = format!("{}:{} {key}={}", device.major, device.minor, device.rate);
            out.push(set, "io rate", "io.max", line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_quota_and_period() {
        let cpu = |quota, period| Cpu {
            quota,
            period,
            ..Cpu::default()
        };
        let written = |quota, period, now: &str| {
            let cpu = cpu(quota, period);
            let read = || Ok::<_, std::convert::Infallible>(now.to_owned());
            let cpu = with_old_quota(&cpu, read).unwrap().unwrap_or(cpu);
            let mut out = Writes::for_controllers(Controllers::CPU);
            processor(&cpu, &mut out);
            out.list.last().map(|write| write.value.clone())
        };
        assert_eq!(written(None, Some(900), "500 1000\n").unwrap(), "500 900");
        assert_eq!(written(None, Some(900), "max 1000\n").unwrap(), "max 900");
        assert_eq!(written(Some(600), None, "500 1000\n").unwrap(), "600 1000");
        assert_eq!(written(Some(-1), None, "500 1000\n").unwrap(), "max 1000");
        assert_eq!(written(Some(600), None, "").unwrap(), "600 100000");
        assert_eq!(written(Some(6), Some(7), "500 1000\n").unwrap(), "6 7");
        assert_eq!(written(None, None, "500 1000\n"), None);
    }
}
