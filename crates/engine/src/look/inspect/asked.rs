//! `Config` and `HostConfig`: what was asked for, in docker's fields.

use super::Subject;
use crate::look::select::network_of;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tote_bundle::{
    DeviceLimit, EnvEntry, PortBinding, RunOptions, StopTimeout, Stream, Swap, Ulimit, health_of,
};

impl Subject<'_> {
    /// Every value of an option, as it was given.
    fn all(&self, option: &str) -> Vec<&str> {
        let given = self.entry.container.options.iter();
        let values = given.filter(|(name, _)| name == option);
        values.map(|(_, value)| value.as_str()).collect()
    }

    fn last(&self, option: &str) -> &str {
        self.all(option).pop().unwrap_or_default()
    }

    /// Values of `--volume`: those with a source, or those without.
    fn volumes(&self, with_source: bool) -> Vec<String> {
        let all = self.all("volume").into_iter();
        let fit = all.filter(|volume| volume.contains(':') == with_source);
        fit.map(ToOwned::to_owned).collect()
    }

    /// docker's lists are null where nothing was said.
    fn list(&self, option: &str) -> Value {
        let all = self.all(option);
        if all.is_empty() { Value::Null } else { json!(all) }
    }

    pub(super) fn config(&self) -> Value {
        let (container, options, image) = (&self.entry.container, &self.options, &self.image);
        let short = container.id.short();
        let set = |names: &[String]| -> Map<String, Value> {
            names.iter().map(|name| (name.clone(), json!({}))).collect()
        };
        let entrypoint = match options.entrypoint.as_deref() {
            Some("") => Vec::new(),
            Some(word) => vec![word.to_owned()],
            None => image.entrypoint.clone(),
        };
        let command = match &options.command {
            words if words.is_empty() && options.entrypoint.is_none() => image.cmd.clone(),
            words => words.clone(),
        };
        // docker's: both, and the input where it is kept open; nothing of what begins in the background.
        let attaches = |stream: Stream| match options.attach.as_slice() {
            [] => !options.detach && (stream != Stream::Stdin || options.interactive),
            given => given.contains(&stream),
        };
        let stdin = attaches(Stream::Stdin);
        let mut config = json!({
            "Hostname": options.host.hostname.clone().unwrap_or_else(|| short.to_owned()),
            "Domainname": options.host.domainname,
            "User": options.user.clone().unwrap_or_else(|| image.user.clone()),
            "AttachStdin": stdin,
            "AttachStdout": attaches(Stream::Stdout),
            "AttachStderr": attaches(Stream::Stderr),
            "Tty": options.tty,
            "OpenStdin": options.interactive,
            "StdinOnce": stdin && options.interactive,
            "Env": self.environment(),
            "Cmd": or_null(command),
            "Image": container.image,
            "Volumes": Value::Null,
            "WorkingDir": options.workdir.clone().unwrap_or_else(|| image.working_dir.clone()),
            "Entrypoint": or_null(entrypoint),
            "OnBuild": Value::Null,
            "Labels": container.labels,
            "StopSignal": container.stop_signal,
        });
        let Some(fields) = config.as_object_mut() else {
            return config;
        };
        let published = options.published.iter().map(PortBinding::private).collect();
        let exposed = [options.exposed.clone(), image.exposed_ports.clone(), published].concat();
        if !exposed.is_empty() {
            fields.insert("ExposedPorts".to_owned(), set(&exposed).into());
        }
        let volumes = [self.volumes(false), image.volumes.clone()].concat();
        if !volumes.is_empty() {
            fields.insert("Volumes".to_owned(), set(&volumes).into());
        }
        match options.stop_timeout {
            Some(StopTimeout::After(time)) => fields.insert("StopTimeout".to_owned(), time.as_secs().into()),
            Some(StopTimeout::Never) => fields.insert("StopTimeout".to_owned(), (-1).into()),
            None => None,
        };
        if let Ok(Some(check)) = health_of(options, image) {
            let check = json!({
                "Test": check.test,
                "Interval": check.interval,
                "Timeout": check.timeout,
                "StartPeriod": check.start_period,
                "StartInterval": check.start_interval,
                "Retries": check.retries,
            });
            fields.insert("Healthcheck".to_owned(), check);
        }
        config
    }

    /// The options' variables first, then those of the image that they leave alone, as docker has them.
    fn environment(&self) -> Vec<String> {
        let entries = self.options.env.iter();
        let mut said: BTreeMap<&str, Option<&str>> = BTreeMap::new();
        let mut order = Vec::new();
        for entry in entries {
            let (name, text) = match entry {
                EnvEntry::Set(text) => (name_of(text), Some(text.as_str())),
                EnvEntry::Inherit(name) => (name.as_str(), None),
            };
            if said.insert(name, text).is_none() {
                order.push(name);
            }
        }
        let asked = order.iter().filter_map(|name| said.get(name).copied().flatten());
        let base = &self.options.env_base;
        let kept = |text: &&str| {
            let name = name_of(text);
            !base.unset_all && !said.contains_key(name) && !base.unset.iter().any(|unset| unset == name)
        };
        let of_image: BTreeSet<&str> = self.image.env.iter().map(|text| name_of(text)).collect();
        let host = base
            .of_host
            .iter()
            .filter(|text| !of_image.contains(name_of(text)));
        let image = self.image.env.iter().chain(host).map(String::as_str).filter(kept);
        asked.chain(image).map(ToOwned::to_owned).collect()
    }

    pub(super) fn host_config(&self) -> Value {
        let mut config = self.host_config_of_namespaces();
        let limits = self.host_config_of_limits();
        if let (Value::Object(config), Value::Object(limits)) = (&mut config, limits) {
            config.extend(limits);
            // docker's is absent unless an option set it.
            if !self.all("init").is_empty() {
                config.insert("Init".to_owned(), self.options.init.into());
            }
        }
        config
    }

    fn host_config_of_namespaces(&self) -> Value {
        let options = &self.options;
        let mode = |option: &str, usual: &str| match self.last(option) {
            "" => usual.to_owned(),
            given => given.to_owned(),
        };
        let (policy, count) = match self.last("restart").split_once(':') {
            Some((policy, count)) => (policy, count.parse().unwrap_or(0)),
            None => (self.last("restart"), 0_u64),
        };
        let log_options: BTreeMap<&str, &str> = self
            .all("log-opt")
            .into_iter()
            .filter_map(|option| option.split_once('='))
            .collect();
        let (masked, read_only) = tote_bundle::system_paths(options, &[]);
        json!({
            "MaskedPaths": or_null(masked),
            "ReadonlyPaths": or_null(read_only),
            "Binds": or_null(self.volumes(true)),
            "ContainerIDFile": options.cidfile.clone().unwrap_or_default(),
            "LogConfig": { "Type": mode("log-driver", "json-file"), "Config": log_options },
            "NetworkMode": network_of(&self.entry.container),
            "PortBindings": bindings(options),
            "RestartPolicy": {
                "Name": if policy.is_empty() { "no" } else { policy },
                "MaximumRetryCount": count,
            },
            "AutoRemove": options.rm,
            "VolumeDriver": "",
            "VolumesFrom": self.list("volumes-from"),
            "ConsoleSize": [0, 0],
            "Annotations": options.annotations,
            "CapAdd": self.list("cap-add"),
            "CapDrop": self.list("cap-drop"),
            "CgroupnsMode": mode("cgroupns", "private"),
            "Dns": options.host.dns,
            "DnsOptions": options.host.dns_options,
            "DnsSearch": options.host.dns_search,
            "ExtraHosts": self.list("add-host"),
            "GroupAdd": self.list("group-add"),
            "IpcMode": mode("ipc", "private"),
            "Cgroup": "",
            "Links": Value::Null,
            "OomScoreAdj": options.oom_score_adj.unwrap_or(0),
            "PidMode": mode("pid", ""),
            "Privileged": options.privileged,
            "PublishAllPorts": options.publish_all,
            "ReadonlyRootfs": options.read_only,
            "SecurityOpt": self.list("security-opt"),
            "Tmpfs": self.tmpfs(),
            "UTSMode": mode("uts", ""),
            "UsernsMode": mode("userns", ""),
            "ShmSize": options.shm_size.unwrap_or(64 << 20),
            "Sysctls": options.sysctls,
            "Runtime": "tote",
            "Isolation": if options.vm.is_some() { "vm" } else { "" },
        })
    }

    fn host_config_of_limits(&self) -> Value {
        let options = &self.options;
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
            "StorageOpt": self.storage(),
        })
    }

    /// Returns `StorageOpt`, as given, if it was given in docker's words.
    fn storage(&self) -> Value {
        let given = self
            .last("storage-opt")
            .strip_prefix("size=")
            .map(ToOwned::to_owned);
        let size = given.or_else(|| self.options.disk_size.map(|size| size.to_string()));
        size.map_or(Value::Null, |size| json!({ "size": size }))
    }

    pub(super) fn tmpfs(&self) -> Value {
        let all: Map<String, Value> = self
            .all("tmpfs")
            .into_iter()
            .map(|text| text.split_once(':').unwrap_or((text, "")))
            .map(|(path, options)| (path.to_owned(), options.into()))
            .collect();
        if all.is_empty() { Value::Null } else { all.into() }
    }
}

fn name_of(variable: &str) -> &str {
    variable.split_once('=').map_or(variable, |(name, _)| name)
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
fn bindings(options: &RunOptions) -> Map<String, Value> {
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
