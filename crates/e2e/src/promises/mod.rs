//! Promises, one file for each group of them.

/// Expands `$rows` with the storage drivers and the needs of each.
macro_rules! each_driver {
    ($rows:ident) => {
        $rows! {
            "overlay": Need::Kernel(5, 11);
            "split": Need::Kernel(5, 11);
            "reflink": ;
            "copy": ;
            "loop": Need::Root, Need::Program("mkfs.ext4");
            "loop-xfs": Need::Root, Need::Program("mkfs.xfs");
            "erofs": Need::Root, Need::Program("mkfs.erofs"), Need::Kernel(6, 12);
        }
    };
}

mod absent;
mod attach;
mod basics;
mod build;
mod build_at_once;
mod build_attest;
mod build_cache;
mod build_commands;
mod build_exact;
mod build_git;
mod build_mounts;
mod build_results;
mod build_rules;
mod build_sources;
#[expect(
    clippy::disallowed_methods,
    reason = "what it waits for is a process of the test, which has a time limit"
)]
mod changes;
mod clients;
mod closed;
mod command_lines;
mod concurrency;
mod cp;
mod cp_safety;
mod damaged;
mod debug;
mod debug_attack;
mod debug_closed;
mod debug_engines;
#[expect(
    clippy::disallowed_methods,
    reason = "what it waits for is a process of the test, which has a time limit"
)]
mod debug_errors;
mod debug_faults;
mod debug_forward;
mod debug_keep;
mod debug_places;
mod debug_targets;
mod debug_view;
mod default_network;
mod details;
mod devices;
mod disks;
mod drivers;
mod egress;
mod egress_connected;
mod egress_groups;
mod egress_ipv6;
mod egress_leaks;
mod egress_opened;
mod egress_tools;
mod egress_watched;
mod errors;
mod exec;
mod files;
mod firewalls;
mod foreign;
mod from_docker;
mod front;
mod full_disk;
mod graph;
mod graph_host;
mod graph_programs;
mod graph_sources;
mod habits;
mod habits_podman;
mod habits_words;
mod health;
mod host_image;
mod image;
mod images_at_once;
mod indexes;
mod inodes;
mod inodes_in_memory;
mod inspect;
mod interrupted;
mod isolation;
mod joining;
mod keep_id;
mod keep_id_trees;
mod known_lines;
mod layered;
mod life;
mod limits;
mod locks;
mod logs;
mod look;
pub(crate) mod machines;
mod machines_network;
mod manifests;
mod mounted;
mod names;
mod neighbours;
mod network_live;
mod network_names;
mod network_options;
mod network_parents;
mod network_routers;
mod networks;
mod networks_ipv6;
mod networks_killed;
mod networks_led;
mod networks_many;
mod networks_rootless;
mod networks_roots;
mod oci_cgroup;
mod oci_engines;
mod oci_exec;
mod oci_lifecycle;
mod oci_mounts;
mod oci_process;
mod oci_safety;
mod on_disk;
mod own_files;
mod platforms;
mod pods;
mod pods_killed;
mod pods_limits;
mod pods_network;
mod pods_watched;
mod pool;
mod pool_networks;
mod pool_safety;
mod ports;
mod ports_input;
mod ports_kept;
mod power_cuts;
mod prepared;
mod printed;
mod privileges;
mod prune;
mod quadlets;
mod quotas;
#[expect(
    clippy::disallowed_methods,
    reason = "what it waits for is a process of the test, which has a time limit"
)]
mod races;
mod rates;
mod recovery;
mod reference;
mod refusals;
mod registry;
mod registry_access;
mod round_trip;
mod runtime_binary;
mod search;
mod second_attack;
mod second_attack_streams;
mod secrets;
mod signals;
mod slim;
mod slim_options;
mod state_files;
mod storage;
mod stored;
mod streams;
mod symlinks;
mod systemd;
mod terminal;
mod time_namespaces;
mod units;
mod usage;
mod user;
mod verdicts;
mod vm;
mod vm_changes;
mod vm_cp;
mod vm_debug;
mod vm_disks;
mod vm_ends;
mod vm_exec;
mod vm_networks;
mod vm_oci;
mod vm_pods;
mod vm_pools;
#[expect(
    clippy::disallowed_methods,
    reason = "what it waits for is a process of the test, which has a time limit"
)]
mod vm_ready;
mod vm_shares;
mod vm_template;
mod vm_users;
mod volume_commands;
mod volume_treatments;
mod volumes;
mod volumes_at_once;
mod volumes_from;
mod waiting;
mod waits;

use crate::promise::Test;

/// Tests of all groups.
pub(crate) const ALL: &[&[Test]] = &[
    basics::TESTS,
    streams::TESTS,
    files::TESTS,
    user::TESTS,
    state_files::TESTS,
    storage::TESTS,
    stored::TESTS,
    inodes::TESTS,
    inodes_in_memory::TESTS,
    clients::TESTS,
    habits_podman::TESTS,
    closed::TESTS,
    command_lines::TESTS,
    keep_id::TESTS,
    keep_id_trees::TESTS,
    known_lines::TESTS,
    reference::TESTS,
    from_docker::TESTS,
    verdicts::TESTS,
    vm::TESTS,
    vm_changes::TESTS,
    vm_cp::TESTS,
    vm_debug::TESTS,
    vm_disks::TESTS,
    vm_ends::TESTS,
    vm_exec::TESTS,
    vm_networks::TESTS,
    vm_oci::TESTS,
    vm_pods::TESTS,
    vm_shares::TESTS,
    vm_pools::TESTS,
    vm_template::TESTS,
    vm_users::TESTS,
    volumes::TESTS,
    volumes_at_once::TESTS,
    images_at_once::TESTS,
    recovery::TESTS,
    power_cuts::TESTS,
    drivers::TESTS,
    drivers::REMOUNTED,
    details::TESTS,
    own_files::TESTS,
    volumes_from::TESTS,
    waits::TESTS,
    layered::TESTS,
    layered::ON_BTRFS,
    disks::TESTS,
    quotas::TESTS,
    changes::TESTS,
    locks::TESTS,
    cp::TESTS,
    cp::DRIVERS,
    cp_safety::TESTS,
    mounted::TESTS,
    round_trip::TESTS,
    prepared::TESTS,
    slim::TESTS,
    slim_options::TESTS,
    image::TESTS,
    host_image::TESTS,
    isolation::TESTS,
    neighbours::TESTS,
    devices::TESTS,
    joining::TESTS,
    privileges::TESTS,
    prune::TESTS,
    runtime_binary::TESTS,
    symlinks::TESTS,
    second_attack::TESTS,
    second_attack_streams::TESTS,
    limits::TESTS,
    terminal::TESTS,
    secrets::TESTS,
    signals::TESTS,
    registry::TESTS,
    registry_access::TESTS,
    search::TESTS,
    names::TESTS,
    platforms::TESTS,
    indexes::TESTS,
    machines_network::TESTS,
    manifests::TESTS,
    interrupted::TESTS,
    build::TESTS,
    build_sources::TESTS,
    build_git::TESTS,
    build_attest::TESTS,
    build_mounts::TESTS,
    build_at_once::TESTS,
    build_exact::TESTS,
    build_results::TESTS,
    build_rules::TESTS,
    build_commands::TESTS,
    build_cache::TESTS,
    life::TESTS,
    absent::TESTS,
    damaged::TESTS,
    full_disk::TESTS,
    pods::TESTS,
    pods_killed::TESTS,
    pods_limits::TESTS,
    pods_network::TESTS,
    pods_watched::TESTS,
    errors::TESTS,
    refusals::TESTS,
    firewalls::TESTS,
    foreign::TESTS,
    graph::TESTS,
    graph_host::TESTS,
    graph_programs::TESTS,
    graph_sources::TESTS,
    habits::TESTS,
    habits_words::TESTS,
    concurrency::TESTS,
    races::TESTS,
    debug::TESTS,
    debug_attack::TESTS,
    debug_closed::TESTS,
    debug_engines::TESTS,
    debug_errors::TESTS,
    debug_faults::TESTS,
    debug_forward::TESTS,
    debug_keep::TESTS,
    debug_places::TESTS,
    debug_targets::TESTS,
    debug_view::TESTS,
    default_network::TESTS,
    exec::TESTS,
    usage::TESTS,
    waiting::TESTS,
    time_namespaces::TESTS,
    health::TESTS,
    systemd::TESTS,
    units::TESTS,
    quadlets::TESTS,
    logs::TESTS,
    attach::TESTS,
    front::TESTS,
    look::TESTS,
    inspect::TESTS,
    printed::TESTS,
    volume_commands::TESTS,
    volume_treatments::TESTS,
    egress::TESTS,
    egress_connected::TESTS,
    egress_groups::TESTS,
    egress_ipv6::TESTS,
    egress_leaks::TESTS,
    egress_opened::TESTS,
    egress_tools::TESTS,
    egress_watched::TESTS,
    network_live::TESTS,
    network_names::TESTS,
    network_options::TESTS,
    network_parents::TESTS,
    network_routers::TESTS,
    networks::TESTS,
    networks_ipv6::TESTS,
    networks_killed::TESTS,
    networks_rootless::TESTS,
    networks_led::TESTS,
    networks_roots::TESTS,
    networks_many::TESTS,
    ports::TESTS,
    ports_input::TESTS,
    rates::TESTS,
    ports_kept::TESTS,
    pool::TESTS,
    pool_networks::TESTS,
    pool_safety::TESTS,
    oci_lifecycle::TESTS,
    oci_safety::TESTS,
    oci_cgroup::TESTS,
    oci_exec::TESTS,
    oci_engines::TESTS,
    oci_mounts::TESTS,
    oci_process::TESTS,
];
