//! Options that limit a container's resources.

use tote_options::{Group, Opt};

/// `--cpus`.
pub(super) const CPUS: Opt = Opt::value(
    "cpus",
    "NUMBER",
    "Limit CPU time to that of this many CPUs, such as 1.5",
);

/// `--cpu-shares`.
pub(super) const CPU_SHARES: Opt = Opt::value(
    "cpu-shares",
    "WEIGHT",
    "Weigh against other containers when CPUs are busy; 1024 is usual",
)
.short('c');

/// `--cpu-period`.
pub(super) const CPU_PERIOD: Opt = Opt::value(
    "cpu-period",
    "MICROSECONDS",
    "Count the quota over periods of this length, 1000 to 1000000",
);

/// `--cpu-quota`.
pub(super) const CPU_QUOTA: Opt = Opt::value(
    "cpu-quota",
    "MICROSECONDS",
    "Limit CPU time in each period; -1 for no limit",
);

/// `--cpuset-cpus`.
pub(super) const CPUSET_CPUS: Opt =
    Opt::value("cpuset-cpus", "LIST", "Run on these CPUs only, such as 0-3,8");

/// `--cpuset-mems`.
pub(super) const CPUSET_MEMS: Opt = Opt::value(
    "cpuset-mems",
    "LIST",
    "Take memory from these NUMA nodes only, such as 0,1",
);

/// `--memory`.
pub(super) const MEMORY: Opt = Opt::value(
    "memory",
    "SIZE",
    "Limit memory; b, k, m and g may follow the number",
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
            "Keep memory below this when the host runs short",
        ),
        CPUS,
        CPU_SHARES,
        CPU_PERIOD,
        CPU_QUOTA,
        Opt::value(
            "cpu-rt-period",
            "MICROSECONDS",
            "Count the time of real-time processes over periods of this length (v1)",
        ),
        Opt::value(
            "cpu-rt-runtime",
            "MICROSECONDS",
            "Let real-time processes run this long in each period (v1)",
        ),
        CPUSET_CPUS,
        CPUSET_MEMS,
        Opt::value(
            "memory-swappiness",
            "NUMBER",
            "Swap this eagerly, 0 to 100; -1 for what the kernel does anyway (v1)",
        ),
        Opt::flag(
            "oom-kill-disable",
            "Let processes wait instead of killing them when memory is out (v1)",
        ),
        Opt::value(
            "blkio-weight",
            "WEIGHT",
            "Weigh against other containers when disks are busy, 10 to 1000; 0 for the usual",
        ),
        Opt::list("blkio-weight-device", "DEVICE:WEIGHT", "The same for this disk"),
        Opt::list("device-read-bps", "DEVICE:RATE", "Read at most so many bytes a second from this disk")
            .details("kb, mb and gb may follow the number."),
        Opt::list("device-write-bps", "DEVICE:RATE", "Write at most so many bytes a second to this disk"),
        Opt::list("device-read-iops", "DEVICE:RATE", "Read at most so many times a second from this disk"),
        Opt::list("device-write-iops", "DEVICE:RATE", "Write at most so many times a second to this disk"),
        Opt::value(
            "pids-limit",
            "NUMBER",
            "Limit processes and threads; -1 for no limit",
        )
        .details("Root's containers have 2048 where nothing is said."),
        Opt::list(
            "ulimit",
            "NAME=SOFT[:HARD]",
            "Set this limit of setrlimit(2), such as nofile=1024:4096",
        )
        .details("Only root can go beyond the hard limit of this process; for others it is lowered to that, with a warning."),
        Opt::value(
            "oom-score-adj",
            "NUMBER",
            "Be killed sooner (up to 1000) or later (-1000) when memory is out",
        ),
    ],
};
