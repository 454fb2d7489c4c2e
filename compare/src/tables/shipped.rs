//! The files that are part of the program: name and text.

macro_rules! files {
    ($folder:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../data/", $folder, "/", $name, ".toml")))),*]
    };
}

/// Candidates, in the order of reports.
pub(crate) const CANDIDATES: &[(&str, &str)] = files!("candidates":
    "tote" "tote-split" "tote-reflink" "tote-copy" "tote-btrfs" "tote-loop" "tote-loop-xfs" "tote-erofs"
    "tote-lvm"
    "tote-pool" "tote-slim" "tote-graph" "tote-vm" "tote-rootless" "tote-oci" "podman" "podman-runc" "podman-tote" "podman-vfs" "podman-btrfs"
    "podman-zfs" "podman-rootless" "docker" "docker-crun" "docker-tote" "containerd"
    "lxc" "lxd" "cntr" "crun" "runc" "youki" "gvisor" "kata" "nspawn" "bubblewrap" "bubblewrap-rootless" "unshare" "host"
    "tote-without-seccomp" "tote-without-limits" "tote-with-init" "tote-with-bridge" "tote-with-disk");

/// Experiments.
pub(crate) const EXPERIMENTS: &[(&str, &str)] = files!("experiments":
    "exit-code" "load" "pull" "load-distribution" "image-size" "pull-distribution" "hello-world" "run" "processor" "forks"
    "system-calls" "http-server" "http-load" "http-latency" "http-one-client" "http-throughput" "http-traffic" "nginx-load"
    "nginx-latency" "redis-load" "redis-set" "postgres-read" "postgres-read-latency" "postgres-write" "postgres-write-latency"
    "ping-gateway" "ping-peer" "tcp-throughput" "db-read" "db-write" "io-read" "io-write" "disk-write" "disk-read" "disk-random"
    "concurrency" "starts" "memory" "memory-groups" "density" "debug" "debug-write" "sysbench-cpu" "sysbench-cpu-latency"
    "sysbench-memory" "sysbench-memory-blocks" "sysbench-threads" "sysbench-threads-latency" "sysbench-mutex" "sysbench-fileio"
    "sysbench-fileio-reads" "sysbench-fileio-latency" "sysbench-fileio-longest");

/// Images.
pub(crate) const IMAGES: &[(&str, &str)] =
    files!("images": "base" "bulk" "data" "database" "distribution" "load" "many" "network" "servers");

/// Combinations that cannot work.
pub(crate) const CONSTRAINTS: &str = include_str!("../../data/constraints.toml");

/// Numbers of the papers.
pub(crate) const PUBLISHED: &str = include_str!("../../data/published.toml");
