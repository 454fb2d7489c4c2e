use super::context::Context;
use super::devices;
use super::error::{ConflictingLimits, SpecError};
use crate::device::HostDevice;
use crate::limit::{BlockLimits, DeviceLimit};
use crate::options::{RunOptions, Swap};
use tote_spec::{BlockIo, Cpu, Memory, Pids, Resources, ThrottleDevice, WeightDevice};

/// Default limit on the number of a container's processes; podman's. No honest program needs more, and a fork bomb
/// is stopped.
pub const DEFAULT_PIDS: i64 = 2048;
/// Length of a scheduler period, microseconds.
const PERIOD: u64 = 100_000;

/// Builds the limits of the cgroup.
pub(super) fn resources(options: &RunOptions, context: &Context<'_>) -> Result<Resources, SpecError> {
    Ok(Resources {
        devices: devices::rules(options, context)?,
        memory: memory(options)?,
        cpu: cpu(options)?,
        block_io: block_io(&options.block, context.limited)?,
        pids: Some(Pids {
            limit: Some(match options.pids_limit.unwrap_or(DEFAULT_PIDS) {
                limit @ 1.. => limit,
                _ => -1,
            }),
        }),
        ..Resources::default()
    })
}

/// Refuses limits that contradict each other.
///
/// # Errors
/// [`SpecError`] names the options.
pub fn check_limits(options: &RunOptions) -> Result<(), SpecError> {
    memory(options)?;
    cpu(options).map(drop)
}

fn memory(options: &RunOptions) -> Result<Option<Memory>, SpecError> {
    let RunOptions {
        memory: limit,
        memory_reservation: reservation,
        ..
    } = *options;
    let swap = match options.memory_swap {
        Swap::Unlimited => Some(-1),
        Swap::Total(_) if limit == 0 => return Err(SpecError::Limits(ConflictingLimits::SwapWithoutMemory)),
        Swap::Total(total) if total < limit => {
            return Err(SpecError::Limits(ConflictingLimits::SwapBelowMemory));
        }
        Swap::Total(total) => Some(signed(total)),
        Swap::AsMemory => (limit != 0).then(|| signed(limit.saturating_mul(2))),
    };
    if limit != 0 && reservation > limit {
        return Err(SpecError::Limits(ConflictingLimits::ReservationAboveMemory));
    }
    let memory = Memory {
        limit: (limit != 0).then(|| signed(limit)),
        reservation: (reservation != 0).then(|| signed(reservation)),
        swap,
        swappiness: options.memory_swappiness,
        disable_oom_killer: options.oom_kill_disable.then_some(true),
        ..Memory::default()
    };
    Ok((memory != Memory::default()).then_some(memory))
}

fn cpu(options: &RunOptions) -> Result<Option<Cpu>, SpecError> {
    let budget = options.cpu_budget;
    if options.nano_cpus != 0 && (budget.period, budget.quota) != (0, 0) {
        return Err(SpecError::Limits(ConflictingLimits::CpusAndPeriod));
    }
    let mut cpu = Cpu {
        period: (budget.period != 0).then_some(budget.period),
        quota: (budget.quota != 0).then_some(budget.quota),
        realtime_period: (budget.realtime_period != 0).then_some(budget.realtime_period),
        realtime_runtime: (budget.realtime_runtime != 0).then_some(budget.realtime_runtime),
        shares: (options.cpu_shares != 0).then_some(options.cpu_shares),
        cpus: options.cpuset_cpus.clone(),
        mems: options.cpuset_mems.clone(),
        ..Cpu::default()
    };
    if options.nano_cpus != 0 {
        cpu.period = Some(PERIOD);
        // Billionths of a processor times the period in microseconds.
        cpu.quota = Some(signed(options.nano_cpus / (1_000_000_000 / PERIOD)));
    }
    Ok((cpu != Cpu::default()).then_some(cpu))
}

/// Builds the specification's limits of block devices, whose nodes the caller gives; `None` without limits.
///
/// # Errors
/// [`SpecError::Device`] for a device whose node is not among `nodes`.
pub fn block_io(limits: &BlockLimits, nodes: &[HostDevice]) -> Result<Option<BlockIo>, SpecError> {
    let node = |path: &str| {
        let node = nodes.iter().find(|node| node.path == path);
        node.ok_or_else(|| SpecError::Device(path.to_owned()))
    };
    let throttle = |limits: &[DeviceLimit]| {
        let limits = limits.iter().map(|limit| {
            let node = node(&limit.path)?;
            Ok(ThrottleDevice {
                major: node.major,
                minor: node.minor,
                rate: limit.value,
            })
        });
        limits.collect::<Result<Vec<_>, SpecError>>()
    };
    let weights = limits
        .weights
        .iter()
        .filter(|limit| limit.value != 0)
        .map(|limit| {
            let node = node(&limit.path)?;
            Ok(WeightDevice {
                major: node.major,
                minor: node.minor,
                weight: u16::try_from(limit.value).ok(),
                leaf_weight: None,
            })
        });
    let block = BlockIo {
        weight: (limits.weight != 0).then_some(limits.weight),
        weight_device: weights.collect::<Result<_, SpecError>>()?,
        throttle_read_bps_device: throttle(&limits.read_bps)?,
        throttle_write_bps_device: throttle(&limits.write_bps)?,
        throttle_read_iops_device: throttle(&limits.read_iops)?,
        throttle_write_iops_device: throttle(&limits.write_iops)?,
        ..BlockIo::default()
    };
    Ok((block != BlockIo::default()).then_some(block))
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
