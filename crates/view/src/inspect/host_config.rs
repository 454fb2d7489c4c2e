//! `HostConfig`: what was asked for, in docker's fields.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tote_bundle::{DeviceLimit, RunOptions, Swap, Ulimit};
use tote_engine::{ContainerDetails, network_of};

pub(super) fn host_config(of: &ContainerDetails) -> Value {
    let mut config = of_namespaces(of);
    let limits = of_limits(of);
    if let (Value::Object(config), Value::Object(limits)) = (&mut config, limits) {
        config.extend(limits);
        // docker's is absent unless an option set it.
        if !of.entry.container.values("init").is_empty() {
            config.insert("Init".to_owned(), of.options.init.into());
        }
        if let Some(mounts) = super::requested::mounts(of) {
            config.insert("Mounts".to_owned(), mounts);
        }
    }
    config
}

fn of_namespaces(of: &ContainerDetails) -> Value {
    let options = &of.options;
    let mode = |option: &str, usual: &str| match last(of, option) {
        "" => usual.to_owned(),
        given => given.to_owned(),
    };
    let (policy, count) = match last(of, "restart").split_once(':') {
        Some((policy, count)) => (policy, count.parse().unwrap_or(0)),
        None => (last(of, "restart"), 0_u64),
    };
    let log_options: BTreeMap<&str, &str> = of
        .entry
        .container
        .values("log-opt")
        .into_iter()
        .filter_map(|option| option.split_once('='))
        .collect();
    let volumes = of.entry.container.values("volume").into_iter();
    let binds = volumes
        .filter(|volume| volume.contains(':'))
        .map(ToOwned::to_owned);
    let (masked, read_only) = tote_bundle::system_paths(options, &[]);
    json!({
        "MaskedPaths": or_null(masked),
        "ReadonlyPaths": or_null(read_only),
        "Binds": or_null(binds.collect()),
        "ContainerIDFile": options.cidfile.clone().unwrap_or_default(),
        "LogConfig": { "Type": mode("log-driver", "json-file"), "Config": log_options },
        "NetworkMode": network_of(&of.entry.container),
        "PortBindings": bindings(options),
        "RestartPolicy": {
            "Name": if policy.is_empty() { "no" } else { policy },
            "MaximumRetryCount": count,
        },
        "AutoRemove": options.rm,
        "VolumeDriver": "",
        "VolumesFrom": list(of, "volumes-from"),
        "ConsoleSize": [0, 0],
        "Annotations": options.annotations,
        "CapAdd": list(of, "cap-add"),
        "CapDrop": list(of, "cap-drop"),
        "CgroupnsMode": mode("cgroupns", "private"),
        "Dns": options.host.dns,
        "DnsOptions": options.host.dns_options,
        "DnsSearch": options.host.dns_search,
        "ExtraHosts": list(of, "add-host"),
        "GroupAdd": list(of, "group-add"),
        "IpcMode": mode("ipc", "private"),
        "Cgroup": "",
        "Links": or_null(of.links()),
        "OomScoreAdj": options.oom_score_adj.unwrap_or(0),
        "PidMode": mode("pid", ""),
        "Privileged": options.privileged,
        "PublishAllPorts": options.publish_all,
        "ReadonlyRootfs": options.read_only,
        "SecurityOpt": list(of, "security-opt"),
        "Tmpfs": tmpfs(of),
        "UTSMode": mode("uts", ""),
        "UsernsMode": mode("userns", ""),
        "ShmSize": options.shm_size.unwrap_or(64 << 20),
        "Sysctls": options.sysctls,
        "Runtime": "tote",
        "Isolation": if options.vm.is_some() { "vm" } else { "" },
    })
}

fn of_limits(of: &ContainerDetails) -> Value {
    let options = &of.options;
    let swap = match options.memory_swap {
        Swap::Unlimited => -1,
        Swap::Total(total) => i64::try_from(total).unwrap_or(i64::MAX),
        // docker's doubles the memory.
        Swap::AsMemory => i64::try_from(options.memory.saturating_mul(2)).unwrap_or(i64::MAX),
    };
    let devices = options.devices.iter().map(|device| {
        json!({
            "PathOnHost": device.source,
            "PathInContainer": device.destination,
            "CgroupPermissions": device.access,
        })
    });
    let grants = options.device_grants.iter();
    let ulimits = options.ulimits.values().map(|limit: &Ulimit| {
        json!({ "Name": limit.name, "Soft": signed(limit.soft), "Hard": signed(limit.hard) })
    });
    json!({
        "CpuShares": options.cpu_shares,
        "Memory": options.memory,
        "NanoCpus": options.nano_cpus,
        "CgroupParent": options.cgroup_parent,
        "BlkioWeight": options.block.weight,
        "BlkioWeightDevice": of_devices(&options.block.weights, "Weight"),
        "BlkioDeviceReadBps": of_devices(&options.block.read_bps, "Rate"),
        "BlkioDeviceWriteBps": of_devices(&options.block.write_bps, "Rate"),
        "BlkioDeviceReadIOps": of_devices(&options.block.read_iops, "Rate"),
        "BlkioDeviceWriteIOps": of_devices(&options.block.write_iops, "Rate"),
        // docker's for Windows, which its clients list all the same.
        "CpuCount": 0,
        "CpuPercent": 0,
        "IOMaximumBandwidth": 0,
        "IOMaximumIOps": 0,
        "CpuPeriod": options.cpu_budget.period,
        "CpuQuota": options.cpu_budget.quota,
        "CpuRealtimePeriod": options.cpu_budget.realtime_period,
        "CpuRealtimeRuntime": options.cpu_budget.realtime_runtime,
        "CpusetCpus": options.cpuset_cpus.clone().unwrap_or_default(),
        "CpusetMems": options.cpuset_mems.clone().unwrap_or_default(),
        "Devices": devices.collect::<Vec<_>>(),
        "DeviceCgroupRules": or_null(grants.map(|grant| grant.text.clone()).collect()),
        "DeviceRequests": Value::Null,
        "MemoryReservation": options.memory_reservation,
        "MemorySwap": swap,
        "MemorySwappiness": options.memory_swappiness,
        "OomKillDisable": options.oom_kill_disable,
        "PidsLimit": options.pids_limit,
        "Ulimits": ulimits.collect::<Vec<_>>(),
        "StorageOpt": storage(of),
    })
}

/// Returns `StorageOpt`, as given, if it was given in docker's words.
fn storage(of: &ContainerDetails) -> Value {
    let given = last(of, "storage-opt")
        .strip_prefix("size=")
        .map(ToOwned::to_owned);
    let size = given.or_else(|| of.options.disk_size.map(|size| size.to_string()));
    size.map_or(Value::Null, |size| json!({ "size": size }))
}

pub(super) fn tmpfs(of: &ContainerDetails) -> Value {
    let all: Map<String, Value> = of
        .entry
        .container
        .values("tmpfs")
        .into_iter()
        .map(|text| text.split_once(':').unwrap_or((text, "")))
        .map(|(path, options)| (path.to_owned(), options.into()))
        .collect();
    if all.is_empty() { Value::Null } else { all.into() }
}

fn last<'a>(of: &'a ContainerDetails, option: &str) -> &'a str {
    of.entry.container.option(option).unwrap_or_default()
}

/// docker's lists are null where nothing was said.
fn list(of: &ContainerDetails, option: &str) -> Value {
    let all = of.entry.container.values(option);
    if all.is_empty() { Value::Null } else { json!(all) }
}

fn of_devices(limits: &[DeviceLimit], what: &str) -> Value {
    let limits = limits
        .iter()
        .map(|limit| json!({ "Path": limit.path, what: limit.value }));
    limits.collect::<Vec<_>>().into()
}

fn or_null(words: Vec<String>) -> Value {
    if words.is_empty() {
        Value::Null
    } else {
        words.into()
    }
}

/// docker's -1 for no limit.
fn signed(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(-1)
}

/// The host's side of `--publish`, by the container's ports.
pub(super) fn bindings(options: &RunOptions) -> Map<String, Value> {
    let mut bindings = Map::new();
    for binding in &options.published {
        let host = match binding.host {
            None => String::new(),
            Some((first, last)) if first == last => first.to_string(),
            Some((first, last)) => format!("{first}-{last}"),
        };
        let address = binding.address.map(|address| address.to_string());
        let one = json!({ "HostIp": address.unwrap_or_default(), "HostPort": host });
        let all = bindings.entry(binding.private()).or_insert_with(|| json!([]));
        all.as_array_mut()
            .into_iter()
            .for_each(|all| all.push(one.clone()));
    }
    bindings
}
