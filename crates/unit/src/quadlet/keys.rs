//! Known keys, and the options that they become.

use super::file::{Kind, Quadlet, QuadletError};

/// Keys of `[Unit]` whose units may be files of this kind.
pub(super) const ORDER: [&str; 9] = [
    "Wants",
    "Requires",
    "Requisite",
    "BindsTo",
    "PartOf",
    "Upholds",
    "Conflicts",
    "Before",
    "After",
];

/// Conversion of a key into an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Last value, unchanged.
    Last,
    /// Each value, unchanged.
    Each,
    /// Each word of each value.
    Words,
    /// Flag without a value.
    Flag,
    /// Conversion by code of its own.
    Own,
}

/// Keys of `[Container]`, with the option of `run` for those that become just that; podman's names.
pub(super) const CONTAINER: &[(&str, &str, How)] = &[
    ("AddCapability", "cap-add", How::Words),
    ("AddDevice", "device", How::Own),
    ("AddHost", "add-host", How::Words),
    ("Annotation", "annotation", How::Words),
    ("CgroupsMode", "cgroups", How::Own),
    ("ContainerName", "name", How::Own),
    ("DNS", "dns", How::Words),
    ("DropCapability", "cap-drop", How::Words),
    ("Entrypoint", "entrypoint", How::Last),
    ("Environment", "env", How::Words),
    ("EnvironmentFile", "env-file", How::Own),
    ("Exec", "", How::Own),
    ("GlobalArgs", "", How::Own),
    ("Group", "", How::Own),
    ("GroupAdd", "group-add", How::Words),
    ("HealthCmd", "health-cmd", How::Last),
    ("HealthInterval", "health-interval", How::Last),
    ("HealthRetries", "health-retries", How::Last),
    ("HealthStartPeriod", "health-start-period", How::Last),
    ("HealthTimeout", "health-timeout", How::Last),
    ("HostName", "hostname", How::Last),
    ("Image", "", How::Own),
    ("Label", "label", How::Words),
    ("LogDriver", "log-driver", How::Last),
    ("LogOpt", "log-opt", How::Words),
    ("Memory", "memory", How::Last),
    ("Mount", "mount", How::Own),
    ("Network", "network", How::Own),
    ("NoNewPrivileges", "", How::Own),
    ("Notify", "sdnotify", How::Own),
    ("PidsLimit", "pids-limit", How::Last),
    ("Pod", "pod", How::Own),
    ("PodmanArgs", "", How::Own),
    ("PublishPort", "publish", How::Each),
    ("Pull", "pull", How::Last),
    ("ReadOnly", "read-only", How::Flag),
    ("Rootfs", "", How::Own),
    ("RunInit", "init", How::Flag),
    ("SeccompProfile", "", How::Own),
    ("ShmSize", "shm-size", How::Last),
    ("StopSignal", "stop-signal", How::Last),
    ("StopTimeout", "stop-timeout", How::Last),
    ("Sysctl", "sysctl", How::Words),
    ("Tmpfs", "tmpfs", How::Each),
    ("ToteArgs", "", How::Own),
    ("Ulimit", "ulimit", How::Words),
    ("User", "", How::Own),
    ("UserNS", "userns", How::Last),
    ("Volume", "volume", How::Own),
    ("WorkingDir", "workdir", How::Last),
];

/// Keys of `[Volume]`.
const VOLUME: &[&str] = &["Label", "VolumeName", "GlobalArgs", "PodmanArgs", "ToteArgs"];

/// Keys of `[Pod]`, with the option of `pod create`.
pub(super) const POD: &[(&str, &str, How)] = &[
    ("AddHost", "add-host", How::Words),
    ("DNS", "dns", How::Words),
    ("GlobalArgs", "", How::Own),
    ("HostName", "hostname", How::Last),
    ("Label", "label", How::Words),
    ("Network", "network", How::Last),
    ("PodName", "name", How::Own),
    ("PodmanArgs", "", How::Own),
    ("ToteArgs", "", How::Own),
    ("UserNS", "userns", How::Last),
];

/// Keys of `[Quadlet]`.
const QUADLET: &[&str] = &["DefaultDependencies"];

/// Refuses keys that would have no effect.
pub(super) fn check(quadlet: &Quadlet) -> Result<(), QuadletError> {
    let section = quadlet.kind.section();
    let refuse = |section: &'static str, known: &dyn Fn(&str) -> bool| {
        let unknown = quadlet.file.entries(section).find(|entry| !known(&entry.key));
        unknown.map_or(Ok(()), |entry| {
            Err(QuadletError::Key {
                line: entry.line,
                key: entry.key.clone(),
                section,
            })
        })
    };
    match quadlet.kind {
        Kind::Container => refuse(section, &|key| CONTAINER.iter().any(|(known, ..)| *known == key))?,
        Kind::Volume => refuse(section, &|key| VOLUME.contains(&key))?,
        Kind::Pod => refuse(section, &|key| POD.iter().any(|(known, ..)| *known == key))?,
    }
    refuse("Quadlet", &|key| QUADLET.contains(&key))
}
