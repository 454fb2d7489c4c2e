//! Known keys, and the options that they become.

use super::file::{Kind, Quadlet, Unused};

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
    ("DNSOption", "dns-option", How::Words),
    ("DNSSearch", "dns-search", How::Words),
    ("DropCapability", "cap-drop", How::Words),
    ("Entrypoint", "entrypoint", How::Last),
    ("Environment", "env", How::Words),
    ("EnvironmentFile", "env-file", How::Own),
    ("EnvironmentHost", "env-host", How::Flag),
    ("Exec", "", How::Own),
    ("ExposeHostPort", "expose", How::Each),
    ("GIDMap", "gidmap", How::Each),
    ("GlobalArgs", "", How::Own),
    ("Group", "", How::Own),
    ("GroupAdd", "group-add", How::Words),
    ("HealthCmd", "health-cmd", How::Last),
    ("HealthInterval", "health-interval", How::Last),
    ("HealthOnFailure", "health-on-failure", How::Last),
    ("HealthRetries", "health-retries", How::Last),
    ("HealthStartPeriod", "health-start-period", How::Last),
    ("HealthTimeout", "health-timeout", How::Last),
    ("HostName", "hostname", How::Last),
    ("IP", "ip", How::Last),
    ("IP6", "ip6", How::Last),
    ("Image", "", How::Own),
    ("Label", "label", How::Words),
    ("LogDriver", "log-driver", How::Last),
    ("LogOpt", "log-opt", How::Words),
    ("Mask", "", How::Own),
    ("Memory", "memory", How::Last),
    ("Mount", "mount", How::Own),
    ("Network", "network", How::Own),
    ("NetworkAlias", "network-alias", How::Words),
    ("NoNewPrivileges", "", How::Own),
    ("Notify", "sdnotify", How::Own),
    ("PidsLimit", "pids-limit", How::Last),
    ("Pod", "pod", How::Own),
    ("PodmanArgs", "", How::Own),
    ("PublishPort", "publish", How::Each),
    ("Pull", "pull", How::Last),
    ("ReadOnly", "read-only", How::Flag),
    ("ReloadCmd", "", How::Own),
    ("ReloadSignal", "", How::Own),
    ("Rootfs", "", How::Own),
    ("RunInit", "init", How::Flag),
    ("SeccompProfile", "", How::Own),
    ("Secret", "secret", How::Each),
    ("SecurityLabelDisable", "", How::Own),
    ("ShmSize", "shm-size", How::Last),
    ("StartWithPod", "", How::Own),
    ("StopSignal", "stop-signal", How::Last),
    ("StopTimeout", "stop-timeout", How::Last),
    ("Sysctl", "sysctl", How::Words),
    ("Timezone", "tz", How::Last),
    ("Tmpfs", "tmpfs", How::Each),
    ("ToteArgs", "", How::Own),
    ("UIDMap", "uidmap", How::Each),
    ("Ulimit", "ulimit", How::Words),
    ("Unmask", "", How::Own),
    ("User", "", How::Own),
    ("UserNS", "userns", How::Last),
    ("Volume", "volume", How::Own),
    ("WorkingDir", "workdir", How::Last),
];

/// Keys of `[Volume]`.
const VOLUME: &[&str] = &[
    "Device",
    "Driver",
    "GlobalArgs",
    "Group",
    "Label",
    "Options",
    "PodmanArgs",
    "ToteArgs",
    "Type",
    "User",
    "VolumeName",
];

/// Keys of `[Network]`, with the option of `network create`.
pub(super) const NETWORK: &[(&str, &str, How)] = &[
    ("Driver", "driver", How::Last),
    ("Gateway", "gateway", How::Each),
    ("GlobalArgs", "", How::Own),
    ("IPRange", "ip-range", How::Each),
    ("IPv6", "ipv6", How::Flag),
    ("Internal", "internal", How::Flag),
    ("Label", "label", How::Words),
    ("NetworkName", "", How::Own),
    ("Options", "opt", How::Words),
    ("PodmanArgs", "", How::Own),
    ("Subnet", "subnet", How::Each),
    ("ToteArgs", "", How::Own),
];

/// Keys of `[Pod]`, with the option of `pod create`.
pub(super) const POD: &[(&str, &str, How)] = &[
    ("AddHost", "add-host", How::Words),
    ("DNS", "dns", How::Words),
    ("DNSOption", "dns-option", How::Words),
    ("DNSSearch", "dns-search", How::Words),
    ("ExitPolicy", "exit-policy", How::Last),
    ("GlobalArgs", "", How::Own),
    ("HostName", "hostname", How::Last),
    ("IP", "ip", How::Last),
    ("IP6", "ip6", How::Last),
    ("Label", "label", How::Words),
    ("Network", "network", How::Own),
    ("NetworkAlias", "network-alias", How::Words),
    ("PodName", "name", How::Own),
    ("PodmanArgs", "", How::Own),
    ("PublishPort", "publish", How::Each),
    ("ShmSize", "shm-size", How::Last),
    ("ToteArgs", "", How::Own),
    ("UserNS", "userns", How::Last),
];

/// Keys of `[Quadlet]`.
const QUADLET: &[&str] = &["DefaultDependencies"];

/// Keys of podman's that have no effect, with the reason or another way.
const ADVICE: &[(&str, &str)] = &[
    (
        "AutoUpdate",
        "tote updates nothing by itself: Pull=newer or always looks for a newer image at each start",
    ),
    ("ContainersConfModule", "tote does not read containers.conf"),
    ("Copy", "a new volume has the files of the image in any case"),
    (
        "DisableDNS",
        "members of a network always find each other by name",
    ),
    (
        "DNS",
        "DNS= of a container names servers for all names that are no containers'",
    ),
    (
        "HealthStartupCmd",
        "HealthStartPeriod= is a time in which checks that fail do not count",
    ),
    (
        "HealthStartupInterval",
        "HealthStartPeriod= is a time in which checks that fail do not count",
    ),
    (
        "HttpProxy",
        "variables of proxies do not come into containers: give those that you want with Environment=",
    ),
    ("IPAMDriver", "a network gives out its addresses itself"),
    ("ReadOnlyTmpfs", "Tmpfs= mounts what is to be writable"),
    (
        "Retry",
        "a request that fails on the way is tried again without it",
    ),
    (
        "RetryDelay",
        "a request that fails on the way is tried again without it",
    ),
];

/// Lists the keys that have no effect.
pub(super) fn unused(quadlet: &Quadlet) -> Vec<Unused> {
    let section = quadlet.kind.section();
    let among = |table: &[(&str, &str, How)], key: &str| table.iter().any(|(known, ..)| *known == key);
    let is_known = |key: &str| match quadlet.kind {
        Kind::Container => among(CONTAINER, key),
        Kind::Volume => VOLUME.contains(&key),
        Kind::Pod => among(POD, key),
        Kind::Network => among(NETWORK, key),
    };
    let of_section = |section: &'static str, known: &dyn Fn(&str) -> bool| {
        let entries = quadlet.file.entries(section).filter(|entry| !known(&entry.key));
        let unused = entries.map(|entry| Unused {
            line: entry.line,
            key: entry.key.clone(),
            section,
            advice: ADVICE
                .iter()
                .find_map(|(key, advice)| (*key == entry.key).then_some(*advice)),
        });
        unused.collect::<Vec<_>>()
    };
    let mut all = of_section(section, &is_known);
    all.extend(of_section("Quadlet", &|key| QUADLET.contains(&key)));
    all
}
