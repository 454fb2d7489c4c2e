use crate::capability::Capability;
use crate::device::DeviceRequest;
use crate::disk::{disk_size, storage_size};
use crate::egress::EgressPolicy;
use crate::egress_keep::EgressKeep;
use crate::environment::{EnvBase, EnvOptions};
use crate::error::{OptionError, ValueError, set_option};
use crate::health::HealthOptions;
use crate::host::HostOptions;
use crate::id_map::IdMapOptions;
use crate::isolation::{VmOptions, is_vm};
use crate::lifetime::{LogChoice, RestartPolicy, SdNotify};
use crate::limit::{self, BlockLimits, CpuBudget, DeviceGrant};
use crate::mount::{
    MountRequest, VolumesFrom, is_usual_devpts, parse_inherited, parse_mount, parse_tmpfs, parse_volume,
};
use crate::name::Name;
use crate::namespace::{CgroupnsMode, CgroupsMode, IpcMode, PidMode, UsernsMode, UtsMode};
use crate::network::{FirstAddresses, NetworkMode};
use crate::path::clean_absolute;
use crate::port::parse_expose;
use crate::publish::{PortBinding, parse_publish};
use crate::rate::NetLimit;
use crate::refused::{self, RefusedError};
use crate::secret::SecretRequest;
use crate::security::{SeccompChoice, SecurityOptions};
use crate::value::{
    CpusetError, Signal, Stream, Ulimit, not_empty, parse_boolean, parse_cpus, parse_cpuset, parse_integer,
    parse_key_value, parse_label, parse_seconds, parse_size, parse_sysctl, parse_timezone, parse_umask,
    parse_unsigned,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Options of `run` and `create`, and the command that follows the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// The words after the image; not an option, the caller fills it in.
    pub command: Vec<String>,
    /// `--name`
    pub name: Option<Name>,
    /// `--rm`
    pub rm: bool,
    /// `--interactive`: keep standard input open.
    pub interactive: bool,
    /// `--tty`: give the process a pseudo-terminal.
    pub tty: bool,
    /// `--env` and `--env-file`.
    pub env: EnvOptions,
    /// `--unsetenv` and its kin: the variables that the environment begins with.
    pub env_base: EnvBase,
    /// `--workdir`: absolute and clean.
    pub workdir: Option<String>,
    /// `--user`: `name|uid[:group|gid]`, unresolved; see [`crate::resolve_user`].
    pub user: Option<String>,
    /// `--group-add`: names or ids, unresolved; see [`crate::resolve_groups`].
    pub group_add: Vec<String>,
    /// `--entrypoint`; an empty text also removes the image's.
    pub entrypoint: Option<String>,
    /// `--volume`, `--mount` and `--tmpfs`, in order.
    pub mounts: Vec<MountRequest>,
    /// `--requires`: names or ids of containers that are started first.
    pub requires: Vec<String>,
    /// `--volumes-from`, in order. The caller looks up the mounts of these containers and adds them to
    /// [`Self::mounts`].
    pub volumes_from: Vec<VolumesFrom>,
    /// `--secret`, in order.
    pub secrets: Vec<SecretRequest>,
    /// `--read-only`: the root file system cannot be written.
    pub read_only: bool,
    /// `--slim-fallback`: the image is the smaller one of a whole, which stands behind it. Empty as given; the caller
    /// fills in the id of the smaller image.
    pub slim_fallback: Option<String>,
    /// `--driver`: the storage driver's name, as written; the caller knows the valid names.
    pub driver: Option<String>,
    /// `--disk-size`: bytes that the container may write.
    pub disk_size: Option<u64>,
    /// `--tmpfs-size`: bytes that the container may write to memory; 0 means no limit.
    pub tmpfs_size: Option<u64>,
    /// `--writable`: absolute and clean paths that the container can write to while most of its root is read-only.
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
    /// `--uidmap` and `--gidmap`
    pub id_maps: IdMapOptions,
    /// `--cgroupns`
    pub cgroupns: CgroupnsMode,
    /// `--network`; a loopback device only if not given.
    pub network: NetworkMode,
    /// `--network-alias`: names of the container in the first of its networks.
    pub network_aliases: Vec<String>,
    /// `--ip` and its kin: addresses of the container in the first of its networks.
    pub first_addresses: FirstAddresses,
    /// `--net-rate` and `--net-burst`
    pub net_limit: NetLimit,
    /// `--egress`: where the container may connect; `None` is everywhere.
    pub egress: Option<EgressPolicy>,
    /// `--egress-keep`: how long addresses of the policy's names stay open after their answers.
    pub egress_keep: Option<EgressKeep>,
    /// `--pod`: name or id of the pod that the container joins; `new:NAME` creates the pod.
    pub pod: Option<String>,
    /// True if the container only keeps a pod's namespaces; not an option of the command line.
    pub infra: bool,
    /// `--memory`: bytes; 0 means no limit, less than 6 MiB is refused.
    pub memory: u64,
    /// `--memory-swap`: memory and swap together.
    pub memory_swap: Swap,
    /// `--memory-reservation`: bytes; 0 means no reservation.
    pub memory_reservation: u64,
    /// `--cpus`: billionths of a processor; 0 means no limit.
    pub nano_cpus: u64,
    /// `--cpu-period` and its kin.
    pub cpu_budget: CpuBudget,
    /// `--cpu-shares`: relative weight, 1024 is usual; 0 leaves the kernel's default.
    pub cpu_shares: u64,
    /// `--cpuset-cpus`: a list such as `0-3,7`.
    pub cpuset_cpus: Option<String>,
    /// `--cpuset-mems`: a list of memory nodes.
    pub cpuset_mems: Option<String>,
    /// `--memory-swappiness`: 0 to 100; `None` leaves the kernel's default.
    pub memory_swappiness: Option<u64>,
    /// `--oom-kill-disable`: processes wait instead of being killed when the memory limit is reached.
    pub oom_kill_disable: bool,
    /// `--blkio-weight`, `--device-read-bps` and their kin.
    pub block: BlockLimits,
    /// `--device-cgroup-rule`
    pub device_grants: Vec<DeviceGrant>,
    /// `--pids-limit`: maximum number of processes; 0 or less means no limit; `None` is podman's default, 2048.
    pub pids_limit: Option<i64>,
    /// `--init`: a small init as process 1.
    pub init: bool,
    /// `--stop-signal`: a name or a number that was checked, as given.
    pub stop_signal: Option<String>,
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
    /// `--umask` of the first process; `None` is 022.
    pub umask: Option<u32>,
    /// `--tz`: a name below /usr/share/zoneinfo, or `local`; the caller reads the file.
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
    /// `--timeout`: time on the clock after which the caller kills the container; zero means no limit.
    pub timeout: Option<Duration>,
    /// `--cpu-time`: processor time of all its processes together after which the caller kills the container; zero
    /// means no limit.
    pub cpu_time: Option<Duration>,
    /// `--output-limit`: bytes of output after which the caller kills the container; `None` means no limit.
    pub output_limit: Option<u64>,
    /// `--report`: where the watching process writes how the container has ended and what it has used.
    pub report: Option<String>,
    /// `--health-cmd` and its kin, `--no-healthcheck`.
    pub health: HealthOptions,
    /// `--restart`
    pub restart: RestartPolicy,
    /// `--log-driver` and `--log-opt`
    pub log: LogChoice,
    /// `--detach`: the caller returns after the start and is not attached.
    pub detach: bool,
    /// `--attach`; if it is empty, other options decide which streams are attached.
    pub attach: Vec<Stream>,
    /// `--preserve-fds`: number of descriptors from 3 on that the container inherits.
    pub preserve_fds: u32,
    /// `--cgroups`
    pub cgroups: CgroupsMode,
    /// `--cgroup-parent`: a path, or the name of a slice; empty if not given.
    pub cgroup_parent: String,
    /// `--sdnotify`
    pub sdnotify: SdNotify,
    /// `--isolation vm`: the virtual machine that has the container.
    pub vm: Option<VmOptions>,
}

/// Checks a value of `--stop-signal`.
fn signal_text(value: &str) -> Result<String, ValueError> {
    value.parse::<Signal>()?;
    Ok(value.to_owned())
}

/// Splits a list with commas, as podman accepts it.
fn words(value: &str) -> Result<Vec<String>, ValueError> {
    value.split(',').map(|word| Ok(not_empty(word)?)).collect()
}

/// Parses a value of `--slim-fallback`: a boolean, or the id that the caller has filled in.
fn fallback(value: &str) -> Result<Option<String>, ValueError> {
    if value.starts_with("sha256:") {
        return Ok(Some(value.to_owned()));
    }
    Ok(parse_boolean(value)?.then(String::new))
}

/// Value of `--memory-swap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Swap {
    /// Not given, or 0: as much swap as memory, if memory is limited.
    #[default]
    AsMemory,
    /// -1: all the swap there is.
    Unlimited,
    /// Memory and swap together, bytes.
    Total(u64),
}

/// Value of `--stop-timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopTimeout {
    /// -1: wait for ever.
    Never,
    /// Kill after this time.
    After(Duration),
}

const LEAST_MEMORY: u64 = 6 << 20;

impl RunOptions {
    /// Takes a single option by its long name; flags as `true` or `false`. The caller passes options in the order
    /// of the command line: for an option with one value, the last one wins.
    ///
    /// # Errors
    /// [`OptionError`] names the option and the value, in docker's words where docker has some.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        set_option(name, value, |name, value| self.apply(name, value))
    }

    /// Removes the options that would need another container or a device: what is left says what the container's files
    /// are.
    pub fn keep_mounts_only(&mut self) {
        if let NetworkMode::Container(_) | NetworkMode::Networks(_) = self.network {
            self.network = NetworkMode::None;
        }
        (self.pid, self.ipc, self.uts) = (PidMode::default(), IpcMode::default(), UtsMode::default());
        (self.pod, self.tty, self.init) = (None, false, false);
        self.devices.clear();
        self.sysctls.clear();
    }

    /// Returns the system call filter that all options together select: the one of `--security-opt seccomp=`;
    /// without it, none for a privileged container and else the default.
    #[must_use]
    pub fn seccomp(&self) -> SeccompChoice {
        match (&self.security.seccomp, self.privileged) {
            (None | Some(SeccompChoice::Default), true) => SeccompChoice::Unconfined,
            (None, false) => SeccompChoice::Default,
            (Some(choice), _) => choice.clone(),
        }
    }

    /// Applies the option; returns whether the name is known.
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
            || self.first_addresses.set(name, value)?
            || self.net_limit.apply(name, value)?
            || refused::check(name, value)?)
    }

    /// Applies options about the process, its name, and how the engine treats the container.
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
            "group-add" => self.add_group(value)?,
            "entrypoint" => self.entrypoint = Some(value.to_owned()),
            "init" => self.init = parse_boolean(value)?,
            "stop-signal" => self.stop_signal = Some(signal_text(value)?),
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
            "requires" => self.requires.extend(words(value)?),
            "restart" => self.restart = value.parse()?,
            "sdnotify" => self.sdnotify = value.parse()?,
            "detach" => self.detach = parse_boolean(value)?,
            "attach" => self.attach.push(value.parse()?),
            "cidfile" => self.cidfile = Some(not_empty(value)?),
            "timeout" => self.timeout = Some(parse_seconds(value)?),
            "cpu-time" => self.cpu_time = Some(parse_seconds(value)?),
            "output-limit" => self.output_limit = Some(parse_size(value)?).filter(|limit| *limit > 0),
            "report" => self.report = Some(not_empty(value)?),
            "preserve-fds" => self.preserve_fds = parse_unsigned(value, 1 << 20)? as u32,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Applies options about the files, namespaces and privileges of the container.
    fn apply_sandbox(&mut self, name: &str, value: &str) -> Result<bool, ValueError> {
        match name {
            "volume" => self.mount(parse_volume(value)?),
            "mount" if is_usual_devpts(value) => {}
            "mount" => self.mount(parse_mount(value)?),
            "tmpfs" => self.mount(parse_tmpfs(value)?),
            "inherit" => self.mounts.push(parse_inherited(value)?),
            "secret" => self.secrets.push(value.parse()?),
            "volumes-from" => self.volumes_from.push(value.parse()?),
            "isolation" if is_vm(value) => self.vm = Some(value.parse()?),
            "read-only" => self.read_only = parse_boolean(value)?,
            "slim-fallback" => self.slim_fallback = fallback(value)?,
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
            "uidmap" => self.id_maps.add_uids(value)?,
            "gidmap" => self.id_maps.add_gids(value)?,
            "cgroupns" => self.cgroupns = value.parse()?,
            "cgroups" => self.cgroups = value.parse()?,
            "cgroup-parent" => value.clone_into(&mut self.cgroup_parent),
            "network" => self.network.add(value)?,
            "network-alias" => self.network_aliases.push(not_empty(value)?),
            "egress" => self.egress.get_or_insert_default().add(value)?,
            "egress-keep" => self.egress_keep = Some(value.parse()?),
            "pod" => self.pod = Some(not_empty(value)?),
            "infra" => self.infra = parse_boolean(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Adds a group of the program, or keeps the caller's.
    fn add_group(&mut self, value: &str) -> Result<(), ValueError> {
        if value == "keep-groups" {
            let keep = (tote_spec::KEEP_GROUPS.to_owned(), "1".to_owned());
            self.annotations.extend([keep]);
        } else {
            self.group_add.push(not_empty(value)?);
        }
        match self.annotations.contains_key(tote_spec::KEEP_GROUPS) && !self.group_add.is_empty() {
            true => Err(RefusedError::KeepGroups.into()),
            false => Ok(()),
        }
    }

    /// Adds a mount. docker's rule: a mount that is given twice in the same words is mounted once.
    fn mount(&mut self, request: MountRequest) {
        if !self.mounts.contains(&request) {
            self.mounts.push(request);
        }
    }

    /// Applies options that limit resources.
    fn apply_limit(&mut self, name: &str, value: &str) -> Result<bool, ValueError> {
        match name {
            // podman's word for what holds without it: the limits of the caller.
            "ulimit" if value == "host" => self.ulimits.clear(),
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

/// Adds the capabilities of a list with commas, as podman accepts it.
pub(crate) fn add_all(capabilities: &mut Vec<Capability>, value: &str) -> Result<(), ValueError> {
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
