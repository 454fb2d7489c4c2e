//! The files that are part of the program: name and text.

macro_rules! files {
    ($folder:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../data/", $folder, "/", $name, ".toml")))),*]
    };
}

/// Candidates, in the order of reports.
pub(crate) const CANDIDATES: &[(&str, &str)] = files!("candidates":
    "tote" "tote-split" "tote-reflink" "tote-copy" "tote-btrfs" "tote-loop" "tote-loop-xfs" "tote-erofs"
    "tote-rootless" "tote-oci" "podman" "podman-runc" "podman-vfs" "podman-rootless" "docker" "docker-crun" "containerd"
    "lxc" "lxd" "crun" "runc" "youki" "gvisor" "kata" "nspawn" "bubblewrap" "bubblewrap-rootless" "unshare" "host"
    "tote-without-seccomp" "tote-without-limits" "tote-with-init" "tote-with-bridge" "tote-with-disk");

/// Experiments.
pub(crate) const EXPERIMENTS: &[(&str, &str)] = files!("experiments":
    "exit-code" "hello-world" "run" "http-server" "db-read" "db-write" "io-read" "io-write" "io-read-many" "io-write-many"
    "disk-write" "disk-read" "http-load" "http-one-client" "http-throughput" "nginx-load" "redis-load" "concurrency" "memory"
    "sysbench-cpu" "sysbench-memory" "sysbench-threads" "sysbench-mutex" "sysbench-fileio");

/// Images.
pub(crate) const IMAGES: &[(&str, &str)] = files!("images": "base" "data" "load" "many" "servers");

/// Combinations that cannot work.
pub(crate) const CONSTRAINTS: &str = include_str!("../../data/constraints.toml");

/// Numbers of the papers.
pub(crate) const PUBLISHED: &str = include_str!("../../data/published.toml");
