//! The specification's resources as v1's files.

use crate::controllers::Controllers;
use crate::write::{Absent, Writes};
use tote_spec::{BlockIo, Cpu, Memory, Resources, ThrottleDevice};

/// Appends everything that v1 has a file for, except devices, which depend on the rules in force.
pub(crate) fn writes(resources: &Resources, out: &mut Writes) {
    if let Some(cpu) = &resources.cpu {
        cpuset(cpu, out);
        processor(cpu, out);
    }
    if let Some(memory) = &resources.memory {
        self::memory(memory, out);
    }
    if let Some(limit) = resources.pids.and_then(|pids| pids.limit) {
        out.push(Controllers::PIDS, "pids", "pids.max", pids_max(limit));
    }
    if let Some(io) = &resources.block_io {
        block_io(io, out);
    }
    for huge in &resources.hugepage_limits {
        let (limit, size) = (huge.limit.to_string(), &huge.page_size);
        out.push(
            Controllers::HUGETLB,
            "hugetlb",
            format!("hugetlb.{size}.limit_in_bytes"),
            limit.as_str(),
        );
        let reserved = format!("hugetlb.{size}.rsvd.limit_in_bytes");
        out.push_or(Controllers::HUGETLB, "hugetlb", reserved, limit, Absent::Ignore);
    }
    if let Some(network) = &resources.network {
        if let Some(class) = network.class_id.filter(|&class| class != 0) {
            out.push(
                Controllers::NET_CLS,
                "network class",
                "net_cls.classid",
                class.to_string(),
            );
        }
        for priority in &network.priorities {
            let line = format!("{} {}", priority.name, priority.priority);
            out.push(
                Controllers::NET_PRIO,
                "network priority",
                "net_prio.ifpriomap",
                line,
            );
        }
    }
    rdma(resources, out);
}

/// Formats a limit: -1 and below are no limit; 0 becomes 1, as in runc and systemd, since a group of 0 processes
/// could never start one.
pub(crate) fn pids_max(limit: i64) -> String {
    if limit < 0 {
        "max".to_owned()
    } else {
        limit.max(1).to_string()
    }
}

/// Appends RDMA limits; file and format are the same in both versions.
pub(crate) fn rdma(resources: &Resources, out: &mut Writes) {
    for (device, limits) in &resources.rdma {
        let mut line = device.clone();
        for (key, value) in [
            (" hca_handle=", limits.hca_handles),
            (" hca_object=", limits.hca_objects),
        ] {
            if let Some(value) = value {
                line.push_str(key);
                line.push_str(&value.to_string());
            }
        }
        out.push(Controllers::RDMA, "rdma", "rdma.max", line);
    }
}

fn cpuset(cpu: &Cpu, out: &mut Writes) {
    for (list, limit, file) in [
        (&cpu.cpus, "cpuset cpus", "cpuset.cpus"),
        (&cpu.mems, "cpuset mems", "cpuset.mems"),
    ] {
        if let Some(list) = list.as_deref().filter(|list| !list.is_empty()) {
            out.push(Controllers::CPUSET, limit, file, list);
        }
    }
}

fn processor(cpu: &Cpu, out: &mut Writes) {
    let set = Controllers::CPU;
    if let Some(shares) = cpu.shares.filter(|&shares| shares != 0) {
        out.push(set, "cpu shares", "cpu.shares", shares.to_string());
    }
    // Each of these is refused (EINVAL) while it does not fit another's old value; refused values are tried again
    // after the rest, so one fixed order serves every change.
    if let Some(period) = cpu.period.filter(|&period| period != 0) {
        out.push(set, "cpu period", "cpu.cfs_period_us", period.to_string());
    }
    if let Some(burst) = cpu.burst {
        out.push_or(
            set,
            "cpu burst",
            "cpu.cfs_burst_us",
            burst.to_string(),
            Absent::Ignore,
        );
    }
    if let Some(quota) = cpu.quota.filter(|&quota| quota != 0) {
        out.push(set, "cpu quota", "cpu.cfs_quota_us", quota.to_string());
    }
    if let Some(idle) = cpu.idle {
        out.push(set, "cpu idle", "cpu.idle", idle.to_string());
    }
    if let Some(period) = cpu.realtime_period.filter(|&period| period != 0) {
        out.push(set, "cpu realtime period", "cpu.rt_period_us", period.to_string());
    }
    if let Some(runtime) = cpu.realtime_runtime.filter(|&runtime| runtime != 0) {
        out.push(
            set,
            "cpu realtime runtime",
            "cpu.rt_runtime_us",
            runtime.to_string(),
        );
    }
}

fn memory(memory: &Memory, out: &mut Writes) {
    let set = Controllers::MEMORY;
    let (limit, swap) = (memory.limit.unwrap_or(0), memory.swap.unwrap_or(0));
    // limit <= memsw holds in the kernel at every moment: raising both needs memsw first, lowering both the limit
    // first. The value in the wrong order gets EINVAL and is tried again after the other.
    if limit != 0 {
        out.push(set, "memory", "memory.limit_in_bytes", limit.to_string());
    }
    match (limit, swap) {
        (-1, 0) => out.push_or(
            set,
            "memory swap",
            "memory.memsw.limit_in_bytes",
            "-1",
            Absent::Ignore,
        ),
        (_, 0) => {}
        _ => out.push(
            set,
            "memory swap",
            "memory.memsw.limit_in_bytes",
            swap.to_string(),
        ),
    }
    if let Some(soft) = memory.reservation.filter(|&soft| soft != 0) {
        out.push(
            set,
            "memory reservation",
            "memory.soft_limit_in_bytes",
            soft.to_string(),
        );
    }
    // `kernel` has no file any more (Linux 5.16), and runc ignores it on kernels that still have one.
    if let Some(tcp) = memory.kernel_tcp.filter(|&tcp| tcp != 0) {
        let file = "memory.kmem.tcp.limit_in_bytes";
        out.push_or(set, "kernel tcp memory", file, tcp.to_string(), Absent::Ignore);
    }
    if memory.disable_oom_killer == Some(true) {
        out.push(set, "oom killer", "memory.oom_control", "1");
    }
    if let Some(swappiness) = memory.swappiness {
        out.push(
            set,
            "memory swappiness",
            "memory.swappiness",
            swappiness.to_string(),
        );
    }
}

fn block_io(io: &BlockIo, out: &mut Writes) {
    let set = Controllers::IO;
    let weight = |w: Option<u16>| w.filter(|&w| w != 0).map(|w| w.to_string());
    if let Some(value) = weight(io.weight) {
        let bfq = Absent::Instead("blkio.bfq.weight", value.clone());
        out.push_or(set, "io weight", "blkio.weight", value, bfq);
    }
    if let Some(value) = weight(io.leaf_weight) {
        out.push(set, "io leaf weight", "blkio.leaf_weight", value);
    }
    for device in &io.weight_device {
        let line = |value| format!("{}:{} {value}", device.major, device.minor);
        if let Some(line) = weight(device.weight).map(line) {
            let bfq = Absent::Instead("blkio.bfq.weight_device", line.clone());
            out.push_or(set, "io device weight", "blkio.weight_device", line, bfq);
        }
        if let Some(line) = weight(device.leaf_weight).map(line) {
            out.push(set, "io device leaf weight", "blkio.leaf_weight_device", line);
        }
    }
    let throttles: [(&[ThrottleDevice], _); 4] = [
        (&io.throttle_read_bps_device, "blkio.throttle.read_bps_device"),
        (&io.throttle_write_bps_device, "blkio.throttle.write_bps_device"),
        (&io.throttle_read_iops_device, "blkio.throttle.read_iops_device"),
        (&io.throttle_write_iops_device, "blkio.throttle.write_iops_device"),
    ];
    for (devices, file) in throttles {
        for device in devices {
            let line = format!("{}:{} {}", device.major, device.minor, device.rate);
            out.push(set, "io rate", file, line);
        }
    }
}
