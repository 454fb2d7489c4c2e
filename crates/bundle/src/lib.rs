//! From docker-style options to the OCI runtime specification.
//!
//! [`RunOptions`] takes the options of `run` one by one, as strings; [`ImageConfig`] holds the image's part, and
//! [`Context`] the facts about the host. [`spec`] turns the three into the `config.json` that docker or podman
//! would give its runtime: same defaults, same rules, and the same words in refusals.
//!
//! Invariants: everything here is a pure function of its arguments. The crate reads no file and no environment, and
//! resolves no path on the host; a caller that has to (for `--env-file`, `--user`, `--device`, `--volume`) passes
//! in the result. Values come from enemies and from people in a hurry: no text makes a parser panic or take more
//! room than the text itself, and every refusal is one line that says what would be right.
//!
//! This crate does *not* ask the kernel: whether a limit can be set, a path exists or a profile is loaded, is found
//! out by the runtime.

mod capability;
mod device;
mod disk;
mod egress;
mod egress_keep;
mod environment;
mod error;
mod exec;
mod health;
mod host;
mod id;
mod id_map;
mod image;
mod isolation;
mod label;
mod lifetime;
mod limit;
mod link_option;
mod mount;
mod name;
mod namespace;
mod network;
mod of_pod;
mod options;
mod path;
mod port;
mod publish;
mod rate;
mod refused;
mod secret;
mod security;
mod spec;
mod user;
mod value;

pub use capability::capabilities_of;
pub use capability::{Capability, CapabilityError};
pub use device::{DeviceError, DeviceRequest, HostDevice};
pub use disk::{DISK_SIZE_LABEL, DiskError, disk_size, disk_size_label};
pub use egress::{EgressEntry, EgressError, EgressPolicy, EgressService, EgressTarget};
pub use egress_keep::{EgressKeep, EgressKeepError};
pub use environment::{EnvBase, EnvEntry, EnvError, EnvOptions, parse_env_file};
pub use error::{LifeError, MountingError, NetworkingError, OptionError, ScalarError, ValueError};
pub use exec::{ExecContext, ExecOptions, exec_process};
pub use health::{HealthError, HealthOptions, Healthcheck, OnFailure};
pub use host::{ContainerAlias, HostAddress, HostEntry, HostError, HostOptions, parse_dns, parse_hostname};
pub use id::{ContainerId, ContainerIdError};
pub use id_map::{IdMapError, IdMapOptions};
pub use image::{DEFAULT_PATH, Image, ImageConfig, ImageError, command_line};
pub use isolation::{Acceleration, IsolationError, MachineType, Sharing, VmOptions, is_vm};
pub use lifetime::{LogChoice, LogDriver, LogError, RestartError, RestartPolicy, SdNotify, SdNotifyError};
pub use limit::{BlockLimits, CpuBudget, DeviceGrant, DeviceLimit, LimitError};
pub use link_option::{LinkOptionError, LinkOptions, LinkSetting};
pub use mount::{
    Bind, CsvError, MountOptionError, MountRequest, MountSource, Propagation, Recursion, Relabel,
    Restrictions, TmpfsError, Treatment, Volume, VolumeError, VolumesFrom, VolumesFromError, parse_inherited,
    parse_mount, parse_tmpfs, parse_volume,
};
pub use name::{Name, NameError};
pub use namespace::{CgroupnsMode, CgroupsMode, IpcMode, KeptIds, ModeError, PidMode, UsernsMode, UtsMode};
pub use network::{
    DEFAULT_NETWORK, FirstAddresses, NetworkAttachment, NetworkMode, NetworkModeError, POD_NETWORK, UNSAID,
};
pub use of_pod::OF_POD;
pub use options::{RunOptions, StopTimeout, Swap};
pub use port::{PortError, parse_expose};
pub use publish::{PortBinding, PublishError, parse_publish};
pub use rate::{NetLimit, RateError};
pub use refused::RefusedError;
pub use secret::{SecretError, SecretForm, SecretRequest};
pub use security::{SeccompChoice, SecurityError, SecurityOptions};
pub use spec::{
    ConflictingLimits, Context, DEFAULT_PIDS, SpecError, block_io, check_limits, health_of, labels_of, spec,
    system_paths, user_of, volumes_of,
};
pub use user::{ResolvedUser, UserError, resolve_groups, resolve_user};
pub use value::{
    BooleanError, CpusError, CpusetError, DurationError, EmptyError, GoDurationError, IntegerError,
    PairError, Signal, SignalError, SizeError, Stream, StreamError, TimezoneError, Ulimit, UlimitError,
    UmaskError, parse_boolean, parse_cpus, parse_cpuset, parse_go_duration, parse_integer, parse_key_value,
    parse_label, parse_seconds, parse_size, parse_sysctl, parse_timezone, parse_umask,
};
