use crate::capability::Capability;
use crate::device::DeviceRequest;
use crate::disk::{disk_size, storage_size};
use crate::environment::{EnvBase, EnvOptions};
use crate::error::{OptionError, ValueError, not_empty, set_option};
use crate::health::HealthOptions;
use crate::host::HostOptions;
use crate::lifetime::{LogChoice, RestartPolicy, SdNotify};
use crate::limit::{self, BlockLimits, CpuBudget, DeviceGrant};
use crate::mount::{MountRequest, VolumesFrom, parse_inherited, parse_mount, parse_tmpfs, parse_volume};
use crate::name::Name;
use crate::namespace::{CgroupnsMode, CgroupsMode, IpcMode, PidMode, UsernsMode, UtsMode};
use crate::network::NetworkMode;
use crate::path::clean_absolute;
use crate::port::parse_expose;
use crate::publish::{PortBinding, parse_publish};
use crate::refused::{self, RefusedError};
use crate::security::{SeccompChoice, SecurityOptions};
use crate::value::{
    CpusetError, Signal, Stream, Ulimit, parse_boolean, parse_cpus, parse_cpuset, parse_integer,
    parse_key_value, parse_label, parse_seconds, parse_size, parse_sysctl, parse_timezone, parse_umask,
    parse_unsigned,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a user asks of a container: the options of `run` and `create`, and the command behind the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// The words behind the image; not an option, the caller fills it in.
    pub command: Vec<String>,
    /// `--name`
    pub name: Option<Name>,
    /// `--rm`
    pub rm: bool,
    /// `--interactive`: keep standard input open.
    pub interactive: bool,
    /// `--tty`: give it a pseudo-terminal.
    pub tty: bool,
    /// `--env` and `--env-file`.
    pub env: EnvOptions,
    /// `--unsetenv` and its kin: what these begin with.
    pub env_base: EnvBase,
    /// `--workdir`: absolute and clean.
    pub workdir: Option<String>,
    /// `--user`: `name|uid[:group|gid]`, unresolved; see [`crate::resolve_user`].
    pub user: Option<String>,
    /// `--group-add`: names or ids, unresolved; see [`crate::resolve_groups`].
    pub group_add: Vec<String>,
    /// `--entrypoint`; empty: none, not even the image's.
    pub entrypoint: Option<String>,
    /// `--volume`, `--mount` and `--tmpfs`, in order.
    pub mounts: Vec<MountRequest>,
    /// `--volumes-from`, in order. What those containers have is in [`Self::mounts`] as soon as the caller has looked.
    pub volumes_from: Vec<VolumesFrom>,
    /// `--read-only`: the root cannot be written.
    pub read_only: bool,
    /// `--driver`: the storage driver's name, as written; the caller knows which there are.
    pub driver: Option<String>,
    /// `--disk-size`: bytes that the container may write.
    pub disk_size: Option<u64>,
    /// `--tmpfs-size`: bytes that the container may write to memory; 0 is no limit.
    pub tmpfs_size: Option<u64>,
    /// `--writable`: absolute and clean paths that a container writes to where most of its root is read-only.
    pub writable: Vec<String>,
    /// `--cap-add`
    pub cap_add: Vec<Capability>,
    /// `--cap-drop`
    pub cap_drop: Vec<Capability>,
    /// `--privileged`
    pub privileged: bool,
    /// `--security-opt`
    pub security: SecurityOptions,
    /// `--device`
    pub devices: Vec<DeviceRequest>,
    /// `--ulimit`, by name; the last one of a name wins.
    pub ulimits: BTreeMap<&'static str, Ulimit>,
    /// `--sysctl`, by name.
    pub sysctls: BTreeMap<String, String>,
    /// `--shm-size`: bytes of `/dev/shm`; `None` is docker's 64 MiB.
    pub shm_size: Option<u64>,
    /// `--pid`
    pub pid: PidMode,
    /// `--ipc`
    pub ipc: IpcMode,
    /// `--uts`
    pub uts: UtsMode,
    /// `--userns`
    pub userns: UsernsMode,
    /// `--cgroupns`
    pub cgroupns: CgroupnsMode,
    /// `--network`; none where nothing is said.
    pub network: NetworkMode,
    /// `--pod`: the pod whose member it is, by name or id; with `new:` before a name that is made.
    pub pod: Option<String>,
    /// Whether it only keeps a pod's namespaces; no option of a command line.
    pub infra: bool,
    /// `--memory`: bytes; 0 is no limit, less than 6 MiB is refused.
    pub memory: u64,
    /// `--memory-swap`: memory and swap together.
    pub memory_swap: Swap,
    /// `--memory-reservation`: bytes; 0 is none.
    pub memory_reservation: u64,
    /// `--cpus`: billionths of a processor; 0 is no limit.
    pub nano_cpus: u64,
    /// `--cpu-period` and its kin.
    pub cpu_budget: CpuBudget,
    /// `--cpu-shares`: relative weight, 1024 is usual; 0 leaves the kernel's.
    pub cpu_shares: u64,
    /// `--cpuset-cpus`: a list such as `0-3,7`.
    pub cpuset_cpus: Option<String>,
    /// `--cpuset-mems`: a list of memory nodes.
    pub cpuset_mems: Option<String>,
    /// `--memory-swappiness`: 0 to 100; `None` leaves the kernel's.
    pub memory_swappiness: Option<u64>,
    /// `--oom-kill-disable`: processes wait where memory is out.
    pub oom_kill_disable: bool,
    /// `--blkio-weight`, `--device-read-bps` and their kin.
    pub block: BlockLimits,
    /// `--device-cgroup-rule`
    pub device_grants: Vec<DeviceGrant>,
    /// `--pids-limit`: at most this many; 0 or less is no limit; `None` is podman's default, 2048.
    pub pids_limit: Option<i64>,
    /// `--init`: a small init as process 1.
    pub init: bool,
    /// `--stop-signal`
    pub stop_signal: Option<Signal>,
    /// `--stop-timeout`
    pub stop_timeout: Option<StopTimeout>,
    /// `--hostname`, `--dns` and their kin.
    pub host: HostOptions,
    /// `--expose`, each port as `80/tcp`.
    pub exposed: Vec<String>,
    /// `--publish`
    pub published: Vec<PortBinding>,
    /// `--publish-all`: as if each exposed port were published at a free one.
    pub publish_all: bool,
    /// `--umask`: of the first process; `None` is 022.
    pub umask: Option<u32>,
    /// `--tz`: a name below /usr/share/zoneinfo, or `local`; the caller reads it.
    pub timezone: Option<String>,
    /// `--oom-score-adj`: -1000 to 1000; `None` leaves the caller's own.
    pub oom_score_adj: Option<i32>,
    /// `--label`, by name.
    pub labels: BTreeMap<String, String>,
    /// `--label-file`: paths as written; the caller reads each and gives its text to [`Self::add_label_files`].
    pub label_files: Vec<String>,
    /// `--annotation`, by name.
    pub annotations: BTreeMap<String, String>,
    /// `--cidfile`: where the caller writes the id.
    pub cidfile: Option<String>,
    /// `--timeout`: wall clock after which the caller kills the container; zero is none.
    pub timeout: Option<Duration>,
    /// `--cpu-time`: processor time, of all its processes together, after which the caller kills it; zero is none.
    pub cpu_time: Option<Duration>,
    /// `--health-cmd` and its kin, `--no-healthcheck`.
    pub health: HealthOptions,
    /// `--restart`
    pub restart: RestartPolicy,
    /// `--log-driver` and `--log-opt`
    pub log: LogChoice,
    /// `--detach`: nobody is attached from the start.
    pub detach: bool,
    /// `--attach`; what is attached where nothing is said depends on other options.
    pub attach: Vec<Stream>,
    /// `--preserve-fds`: how many descriptors from 3 on the container gets.
    pub preserve_fds: u32,
    /// `--cgroups`
    pub cgroups: CgroupsMode,
    /// `--cgroup-parent`: a path, or the name of a slice; empty where it is not given.
    pub cgroup_parent: String,
    /// `--sdnotify`
    pub sdnotify: SdNotify,
}

/// `--memory-swap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Swap {
    /// Not said, or 0: as much swap as memory, where memory is limited.
    #[default]
    AsMemory,
    /// -1: all the swap there is.
    Unlimited,
    /// Memory and swap together, bytes.
    Total(u64),
}

/// `--stop-timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopTimeout {
    /// -1: wait for ever.
    Never,
    /// Kill after this time.
    After(Duration),
}

const LEAST_MEMORY: u64 = 6 << 20;

impl RunOptions {
    /// Takes one option, by its long name; flags as `true` or `false`. Options are to come in the order of the command
    /// line: of those that hold one value, the last wins.
    ///
    /// # Errors
    /// [`OptionError`] names the option and the value, in docker's words where it has some.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        set_option(name, value, |name, value| self.apply(name, value))
    }

    /// The system call filter that all options together ask for: what `--security-opt seccomp=` says, else none where
    /// privileged, else the default.
    #[must_use]
    pub fn seccomp(&self) -> SeccompChoice {
        match (&self.security.seccomp, self.privileged) {
            (None | Some(SeccompChoice::Default), true) => SeccompChoice::Unconfined,
            (None, false) => SeccompChoice::Default,
            (Some(choice), _) => choice.clone(),
        }
    }

    /// Whether the name was an option's.
    fn apply(&mut self, name: &str, value: &str) -> Result<bool, ValueError> {
        Ok(self.apply_process(name, value)?
            || self.apply_sandbox(name, value)?
            || self.apply_limit(name, value)?
            || self.health.apply(name, value)?
            || self.log.apply(name, value)?
            || self.cpu_budget.apply(name, value)?
            || self.block.apply(name, value)?
            || self.env.apply(name, value)?
            || self.env_base.apply(name, value)?
            || self.host.apply(name, value)?
            || refused::check(name, value)?)
    }

    /// Who runs what, and how the engine treats it.
    fn apply_process(&mut self, name: &str, value: &str) -> Result<bool, ValueError> {
        match name {
            "name" => self.name = Some(value.parse()?),
            "rm" => self.rm = parse_boolean(value)?,
            "interactive" => self.interactive = parse_boolean(value)?,
            "tty" => self.tty = parse_boolean(value)?,
            "workdir" => {
                let clean = clean_absolute(value).ok_or_else(|| ValueError::Workdir(value.to_owned()))?;
                self.workdir = Some(clean);
            }
            "user" => self.user = Some(value.to_owned()),
            "group-add" if value == "keep-groups" => return Err(RefusedError::KeepGroups.into()),
            "group-add" => self.group_add.push(not_empty(value)?),
            "entrypoint" => self.entrypoint = Some(value.to_owned()),
            "init" => self.init = parse_boolean(value)?,
            "stop-signal" => self.stop_signal = Some(value.parse()?),
            "stop-timeout" => {
                let seconds = parse_integer(value, -1..=i64::from(i32::MAX))?;
                self.stop_timeout = Some(match u64::try_from(seconds) {
                    Ok(seconds) => StopTimeout::After(Duration::from_secs(seconds)),
                    Err(_) => StopTimeout::Never,
                });
            }
            "expose" => self.exposed.extend(parse_expose(value)?),
            "publish" => self.published.extend(parse_publish(value)?),
            "publish-all" => self.publish_all = parse_boolean(value)?,
            "umask" => self.umask = Some(parse_umask(value)?),
            "tz" => self.timezone = parse_timezone(value)?,
            "label" => self.labels.extend([parse_label(value)?]),
            "label-file" => self.label_files.push(not_empty(value)?),
            "annotation" => self.annotations.extend([parse_key_value(value)?]),
            "restart" => self.restart = value.parse()?,
            "sdnotify" => self.sdnotify = value.parse()?,
            "detach" => self.detach = parse_boolean(value)?,
            "attach" => self.attach.push(value.parse()?),
            "cidfile" => self.cidfile = Some(not_empty(value)?),
            "timeout" => self.timeout = Some(parse_seconds(value)?),
            "cpu-time" => self.cpu_time = Some(parse_seconds(value)?),
            "preserve-fds" => self.preserve_fds = parse_unsigned(value, 1 << 20)? as u32,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What it sees and may do.
    fn apply_sandbox(&mut self, name: &str, value: &str) -> Result<bool, ValueError> {
        match name {
            "volume" => self.mount(parse_volume(value)?),
            "mount" => self.mount(parse_mount(value)?),
            "tmpfs" => self.mount(parse_tmpfs(value)?),
            "inherit" => self.mounts.push(parse_inherited(value)?),
            "volumes-from" => self.volumes_from.push(value.parse()?),
            "read-only" => self.read_only = parse_boolean(value)?,
            "driver" => self.driver = Some(not_empty(value)?),
            "disk-size" => self.disk_size = Some(disk_size(value)?),
            "storage-opt" => self.disk_size = Some(disk_size(storage_size(value)?)?),
            "tmpfs-size" => self.tmpfs_size = Some(parse_size(value)?),
            "writable" => {
                let clean = clean_absolute(value).ok_or_else(|| ValueError::Writable(value.to_owned()))?;
                self.writable.push(clean);
            }
            "cap-add" => add_all(&mut self.cap_add, value)?,
            "cap-drop" => add_all(&mut self.cap_drop, value)?,
            "privileged" => self.privileged = parse_boolean(value)?,
            "security-opt" => self.security.set(value)?,
            "device" => self.devices.push(value.parse()?),
            "sysctl" => self.sysctls.extend([parse_sysctl(value)?]),
            "shm-size" => self.shm_size = Some(parse_size(value)?),
            "pid" => self.pid = value.parse()?,
            "ipc" => self.ipc = value.parse()?,
            "uts" => self.uts = value.parse()?,
            "userns" => self.userns = value.parse()?,
            "cgroupns" => self.cgroupns = value.parse()?,
            "cgroups" => self.cgroups = value.parse()?,
            "cgroup-parent" => value.clone_into(&mut self.cgroup_parent),
            "network" => self.network.add(value)?,
            "pod" => self.pod = Some(not_empty(value)?),
            "infra" => self.infra = parse_boolean(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Adds a mount. A mount that is asked for twice in the same words is there once, as docker has it.
    fn mount(&mut self, request: MountRequest) {
        if !self.mounts.contains(&request) {
            self.mounts.push(request);
        }
    }

    /// How much of everything it gets.
    fn apply_limit(&mut self, name: &str, value: &str) -> Result<bool, ValueError> {
        match name {
            "ulimit" => {
                let ulimit: Ulimit = value.parse()?;
                self.ulimits.insert(ulimit.name, ulimit);
            }
            "memory" => self.memory = memory(value)?,
            "memory-swap" => {
                self.memory_swap = match value {
                    "-1" => Swap::Unlimited,
                    _ => match parse_size(value)? {
                        0 => Swap::AsMemory,
                        total => Swap::Total(total),
                    },
                }
            }
            "memory-reservation" => self.memory_reservation = memory(value)?,
            "memory-swappiness" => self.memory_swappiness = limit::swappiness(value)?,
            "oom-kill-disable" => self.oom_kill_disable = parse_boolean(value)?,
            "device-cgroup-rule" => self.device_grants.push(value.parse()?),
            "cpus" => self.nano_cpus = parse_cpus(value)?,
            "cpu-shares" => self.cpu_shares = parse_unsigned(value, i64::MAX)?,
            "cpuset-cpus" => self.cpuset_cpus = cpuset(value)?,
            "cpuset-mems" => self.cpuset_mems = cpuset(value)?,
            "pids-limit" => self.pids_limit = Some(parse_integer(value, -1..=i64::MAX)?),
            "oom-score-adj" => {
                // The range proves that the number fits.
                self.oom_score_adj = Some(parse_integer(value, -1000..=1000)? as i32);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Names between commas, as podman takes them.
fn add_all(capabilities: &mut Vec<Capability>, value: &str) -> Result<(), ValueError> {
    for name in value.split(',') {
        capabilities.push(name.parse()?);
    }
    Ok(())
}

fn memory(value: &str) -> Result<u64, ValueError> {
    match parse_size(value)? {
        1..LEAST_MEMORY => Err(ValueError::LittleMemory),
        bytes => Ok(bytes),
    }
}

fn cpuset(value: &str) -> Result<Option<String>, CpusetError> {
    (!value.is_empty()).then(|| parse_cpuset(value)).transpose()
}
