use super::{Context, SpecError, devices};
use crate::options::{RunOptions, Swap};
use tote_spec::{Cpu, Memory, Pids, Resources};

/// podman's: enough for every honest program, not for a fork bomb.
const DEFAULT_PIDS: i64 = 2048;
/// Microseconds.
const PERIOD: u64 = 100_000;

/// What the cgroup limits; absent where there is nothing to limit.
pub(super) fn resources(options: &RunOptions, context: &Context<'_>) -> Result<Option<Resources>, SpecError> {
    let default_pids = context.has_cgroup.then_some(DEFAULT_PIDS);
    let resources = Resources {
        devices: if context.has_cgroup {
            devices::rules(options, context)?
        } else {
            Vec::new()
        },
        memory: memory(options)?,
        cpu: cpu(options),
        pids: options.pids_limit.or(default_pids).map(|limit| Pids {
            limit: Some(if limit > 0 { limit } else { -1 }),
        }),
        ..Resources::default()
    };
    Ok((resources != Resources::default()).then_some(resources))
}

fn memory(options: &RunOptions) -> Result<Option<Memory>, SpecError> {
    let RunOptions {
        memory: limit,
        memory_reservation: reservation,
        ..
    } = *options;
    let swap = match options.memory_swap {
        Swap::Unlimited => Some(-1),
        Swap::Total(_) if limit == 0 => return Err(SpecError::SwapWithoutMemory),
        Swap::Total(total) if total < limit => return Err(SpecError::SwapBelowMemory),
        Swap::Total(total) => Some(signed(total)),
        Swap::AsMemory => (limit != 0).then(|| signed(limit.saturating_mul(2))),
    };
    if limit != 0 && reservation > limit {
        return Err(SpecError::ReservationAboveMemory);
    }
    let memory = Memory {
        limit: (limit != 0).then(|| signed(limit)),
        reservation: (reservation != 0).then(|| signed(reservation)),
        swap,
        ..Memory::default()
    };
    Ok((memory != Memory::default()).then_some(memory))
}

fn cpu(options: &RunOptions) -> Option<Cpu> {
    let mut cpu = Cpu {
        shares: (options.cpu_shares != 0).then_some(options.cpu_shares),
        cpus: options.cpuset_cpus.clone(),
        mems: options.cpuset_mems.clone(),
        ..Cpu::default()
    };
    if options.nano_cpus != 0 {
        cpu.period = Some(PERIOD);
        // Billionths of a processor times the period: a ten-thousandth as many microseconds.
        cpu.quota = Some(signed(options.nano_cpus / (1_000_000_000 / PERIOD)));
    }
    (cpu != Cpu::default()).then_some(cpu)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
