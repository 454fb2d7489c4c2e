//! Options that limit a container's resources.

use tote_options::{Group, Opt};

/// `--cpus`.
pub(super) const CPUS: Opt = Opt::value("cpus", "NUMBER", "Limit CPU time to this many CPUs, such as 1.5");

/// `--cpu-shares`.
pub(super) const CPU_SHARES: Opt = Opt::value(
    "cpu-shares",
    "WEIGHT",
    "Relative weight when CPUs are busy (usual: 1024)",
)
.short('c');

/// `--cpu-period`.
pub(super) const CPU_PERIOD: Opt = Opt::value(
    "cpu-period",
    "MICROSECONDS",
    "Length of the period for --cpu-quota, 1000 to 1000000",
);

/// `--cpu-quota`.
pub(super) const CPU_QUOTA: Opt = Opt::value(
    "cpu-quota",
    "MICROSECONDS",
    "Limit CPU time in each period; -1 for no limit",
);

/// `--cpuset-cpus`.
pub(super) const CPUSET_CPUS: Opt =
    Opt::value("cpuset-cpus", "LIST", "Run only on these CPUs, such as 0-3,8");

/// `--cpuset-mems`.
pub(super) const CPUSET_MEMS: Opt = Opt::value(
    "cpuset-mems",
    "LIST",
    "Allocate memory only from these NUMA nodes, such as 0,1",
);

/// `--memory`.
pub(super) const MEMORY: Opt = Opt::value(
    "memory",
    "SIZE",
    "Limit memory to this size; the units are b, k, m and g",
)
.short('m')
.details(
    "This limit and all others but `--ulimit` and `--oom-score-adj` need control groups. Root has them; others \
     need a delegated subtree of cgroup v2, such as systemd gives to a session. Without one there is a warning \
     and no limit.",
);

/// `--memory-swap`.
pub(super) const MEMORY_SWAP: Opt = Opt::value(
    "memory-swap",
    "SIZE",
    "Limit memory and swap together; -1 for any amount of swap",
);

/// Control groups and resource limits.
pub(crate) static RESOURCES: Group = Group {
    title: "Resource",
    options: &[
        MEMORY,
        MEMORY_SWAP,
        Opt::value(
            "memory-reservation",
            "SIZE",
            "Soft limit, enforced when the host is short of memory",
        ),
        CPUS,
        CPU_SHARES,
        CPU_PERIOD,
        CPU_QUOTA,
        Opt::value(
            "cpu-rt-period",
            "MICROSECONDS",
            "Length of the period for --cpu-rt-runtime (cgroup v1)",
        ),
        Opt::value(
            "cpu-rt-runtime",
            "MICROSECONDS",
            "CPU time of real-time processes in each period (cgroup v1)",
        ),
        CPUSET_CPUS,
        CPUSET_MEMS,
        Opt::value(
            "memory-swappiness",
            "NUMBER",
            "Swappiness from 0 to 100; -1 keeps the kernel's default (cgroup v1)",
        ),
        Opt::flag(
            "oom-kill-disable",
            "Pause processes instead of killing them when memory runs out (cgroup v1)",
        ),
        Opt::value(
            "blkio-weight",
            "WEIGHT",
            "Relative weight when disks are busy, 10 to 1000; 0 keeps the default",
        ),
        Opt::list("blkio-weight-device", "DEVICE:WEIGHT", "Relative weight for this disk"),
        Opt::list("device-read-bps", "DEVICE:RATE", "Limit reads from this disk to RATE bytes per second")
            .details("kb, mb and gb may follow the number."),
        Opt::list("device-write-bps", "DEVICE:RATE", "Limit writes to this disk to RATE bytes per second"),
        Opt::list("device-read-iops", "DEVICE:RATE", "Limit reads from this disk to RATE operations per second"),
        Opt::list("device-write-iops", "DEVICE:RATE", "Limit writes to this disk to RATE operations per second"),
        Opt::value(
            "pids-limit",
            "NUMBER",
            "Limit the number of processes and threads; -1 means no limit",
        )
        .details("The default for root's containers is 2048."),
        Opt::list(
            "ulimit",
            "NAME=SOFT[:HARD]",
            "Set this limit of setrlimit(2), such as nofile=1024:4096",
        )
        .details("Only root can exceed the hard limit of the calling process; other users get that limit, and a warning."),
        Opt::value(
            "oom-score-adj",
            "NUMBER",
            "Adjust the out-of-memory score: up to 1000 dies sooner, down to -1000 later",
        ),
    ],
};
