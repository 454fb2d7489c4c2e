//! Limits of a container or a pod that are set again.

use tote_bundle::{HostDevice, RunOptions, SpecError};
use tote_spec::{Cpu, Memory, Pids, Resources};

/// Computes the resources to change: the given ones, with values from all options.
///
/// # Errors
/// [`SpecError`] for a device that is not among `limited`.
pub fn resources(
    all: &RunOptions,
    given: &[(String, String)],
    limited: &[HostDevice],
) -> Result<Resources, SpecError> {
    let has = |names: &[&str]| given.iter().any(|(name, _)| names.contains(&name.as_str()));
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let limit = |bytes: u64| if bytes == 0 { -1 } else { signed(bytes) };
    let budget = all.cpu_budget;
    let memory = Memory {
        limit: has(&["memory", "memory-swap"]).then(|| limit(all.memory)),
        swap: has(&["memory", "memory-swap"]).then(|| match all.memory_swap {
            tote_bundle::Swap::Total(total) => signed(total),
            tote_bundle::Swap::AsMemory if all.memory != 0 => signed(all.memory.saturating_mul(2)),
            _ => -1,
        }),
        reservation: has(&["memory-reservation"]).then(|| limit(all.memory_reservation)),
        swappiness: all.memory_swappiness.filter(|_| has(&["memory-swappiness"])),
        disable_oom_killer: has(&["oom-kill-disable"]).then_some(all.oom_kill_disable),
        ..Memory::default()
    };
    let quota = match (has(&["cpus"]), has(&["cpu-quota"])) {
        (true, _) if all.nano_cpus == 0 => Some(-1),
        (true, _) => Some(signed(all.nano_cpus / 10_000)),
        (false, true) => Some(if budget.quota == 0 { -1 } else { budget.quota }),
        (false, false) => None,
    };
    let period = match (has(&["cpus"]), has(&["cpu-period"])) {
        (true, _) => Some(100_000),
        (false, true) if budget.period != 0 => Some(budget.period),
        _ => None,
    };
    let cpu = Cpu {
        shares: has(&["cpu-shares"]).then_some(all.cpu_shares),
        quota,
        period,
        realtime_runtime: has(&["cpu-rt-runtime"]).then_some(budget.realtime_runtime),
        realtime_period: has(&["cpu-rt-period"]).then_some(budget.realtime_period),
        cpus: all.cpuset_cpus.clone().filter(|_| has(&["cpuset-cpus"])),
        mems: all.cpuset_mems.clone().filter(|_| has(&["cpuset-mems"])),
        ..Cpu::default()
    };
    let block = match has(&OF_BLOCK_DEVICES) {
        true => tote_bundle::block_io(&all.block, limited)?,
        false => None,
    };
    let pids = has(&["pids-limit"]).then(|| Pids {
        limit: Some(all.pids_limit.filter(|limit| *limit > 0).unwrap_or(-1)),
    });
    Ok(Resources {
        memory: (memory != Memory::default()).then_some(memory),
        cpu: (cpu != Cpu::default()).then_some(cpu),
        pids,
        block_io: block,
        ..Resources::default()
    })
}

const OF_BLOCK_DEVICES: [&str; 6] = [
    "blkio-weight",
    "blkio-weight-device",
    "device-read-bps",
    "device-write-bps",
    "device-read-iops",
    "device-write-iops",
];
