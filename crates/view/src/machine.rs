//! `docker version` and `docker info`, and podman's: scripts test with these whether an engine is there.

use serde_json::{Value, json};
use tote_engine::{MachineFacts, MachineReport, kernel_release, moment};

/// docker's word for an architecture of Rust's.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Version of docker's API whose commands and options the command line has, those of docker 28.0. Scripts compare it
/// before they use an option; nothing here serves that API.
const API: &str = "1.48";

/// Oldest version of the API that docker 28.0 speaks.
const OLDEST_API: &str = "1.24";

/// `docker version`, and podman's: client and server are this program.
#[must_use]
pub fn version_details(version: &str) -> Value {
    let kernel = kernel_release();
    let both = json!({
        "Version": version,
        "ApiVersion": API,
        "APIVersion": API,
        "MinAPIVersion": OLDEST_API,
        "DefaultAPIVersion": API,
        "GitCommit": "",
        "GoVersion": "",
        "BuildTime": "",
        "Built": "",
        "Context": "default",
        "Os": "linux",
        "OsArch": format!("linux/{}", architecture()),
        "Arch": architecture(),
        "Experimental": false,
        "KernelVersion": kernel,
        "Platform": { "Name": "tote" },
        "Engine": { "Version": version },
        "Components": [{ "Name": "Engine", "Version": version, "Details": {
            "ApiVersion": API,
            "Arch": architecture(),
            "BuildTime": "",
            "Experimental": "false",
            "GitCommit": "",
            "GoVersion": "",
            "KernelVersion": kernel,
            "MinAPIVersion": OLDEST_API,
            "Os": "linux",
        } }],
    });
    json!({ "Client": both, "Server": both })
}

/// The version as `docker version` lays it out, for scripts that search it for lines.
#[must_use]
pub fn version_text(version: &str) -> String {
    let place = format!("linux/{}", architecture());
    let oci = tote_engine::OCI_VERSION;
    format!(
        "Client:\n Version:           {version}\n API version:       {API}\n OS/Arch:           {place}\n \
         Context:           default\n\nServer: tote\n Engine:\n  Version:          {version}\n  API version:      {API} \
         (minimum version {OLDEST_API})\n  OS/Arch:          {place}\n  OCI version:      {oci}\n"
    )
}

/// `docker info`, and podman's.
#[must_use]
pub fn machine_details(of: &MachineReport, facts: &MachineFacts, version: &str) -> Value {
    let mut all = counts(of, facts);
    for part in [
        machine(of, facts),
        engine(of, version),
        podmans(of, facts, version),
    ] {
        if let (Value::Object(all), Value::Object(part)) = (&mut all, part) {
            all.extend(part);
        }
    }
    all
}

fn is_v2(of: &MachineReport) -> bool {
    of.cgroups == "v2"
}

/// docker's fields about what is kept.
fn counts(of: &MachineReport, facts: &MachineFacts) -> Value {
    let now = u64::try_from(tote_calendar::now().as_nanos()).unwrap_or_default();
    json!({
        "ID": facts.hostname,
        "Containers": of.containers,
        "ContainersRunning": of.running,
        "ContainersPaused": of.paused,
        "ContainersStopped": of.stopped,
        "Images": of.images,
        "Driver": of.driver,
        "DriverStatus": [],
        "DockerRootDir": of.root,
        "SystemTime": moment(now),
    })
}

/// docker's fields about the machine.
fn machine(of: &MachineReport, facts: &MachineFacts) -> Value {
    let limits = !of.rootless;
    json!({
        "MemoryLimit": limits,
        "SwapLimit": limits,
        "CpuCfsPeriod": limits,
        "CpuCfsQuota": limits,
        "CPUShares": limits,
        "CPUSet": limits,
        "PidsLimit": limits,
        "OomKillDisable": !is_v2(of),
        "CgroupDriver": "cgroupfs",
        "CgroupVersion": if is_v2(of) { "2" } else { "1" },
        "KernelVersion": of.kernel,
        "OperatingSystem": facts.operating_system,
        "OSType": "linux",
        "Architecture": std::env::consts::ARCH,
        "NCPU": facts.processors,
        "MemTotal": facts.memory.total,
        "Name": facts.hostname,
        "Labels": [],
        "Warnings": null,
    })
}

/// docker's fields about the engine.
fn engine(of: &MachineReport, version: &str) -> Value {
    let mut security = vec!["name=seccomp,profile=builtin", "name=cgroupns"];
    if of.rootless {
        security.push("name=rootless");
    }
    let networks = of.features.get("networks").is_some_and(|word| word == "yes");
    let network_drivers = match (networks, of.rootless) {
        (true, false) => vec!["bridge", "host", "ipvlan", "macvlan", "null"],
        (true, true) => vec!["bridge", "host", "null"],
        (false, _) => vec!["host", "null"],
    };
    json!({
        "ServerVersion": version,
        "Debug": false,
        "ExperimentalBuild": false,
        "LoggingDriver": "json-file",
        "IndexServerAddress": "https://index.docker.io/v1/",
        "Plugins": {
            "Volume": ["local"],
            "Network": network_drivers,
            "Authorization": null,
            "Log": ["json-file", "local", "k8s-file", "none"],
        },
        "HttpProxy": "",
        "HttpsProxy": "",
        "NoProxy": "",
        "Runtimes": { "tote": { "path": "tote" } },
        "DefaultRuntime": "tote",
        "InitBinary": "tote",
        "Swarm": { "LocalNodeState": "inactive", "NodeID": "" },
        "LiveRestoreEnabled": true,
        "Isolation": "",
        "SecurityOptions": security,
        "ServerErrors": [],
        "ClientInfo": { "Version": version, "Context": "default", "Plugins": [], "Debug": false },
    })
}

/// podman's objects, with the names that its templates have.
fn podmans(of: &MachineReport, facts: &MachineFacts, version: &str) -> Value {
    let has = |feature: &str| of.features.get(feature).is_some_and(|word| word == "yes");
    let memory = facts.memory;
    let os_arch = format!("linux/{}", architecture());
    json!({
        "Host": {
            "Arch": architecture(),
            "OS": "linux",
            "CgroupManager": "cgroupfs",
            "CgroupsVersion": if is_v2(of) { "v2" } else { "v1" },
            "CPUs": facts.processors,
            "EventLogger": "file",
            "Hostname": facts.hostname,
            "Kernel": of.kernel,
            "LogDriver": "json-file",
            "MemFree": memory.free,
            "MemTotal": memory.total,
            "SwapFree": memory.free_swap,
            "SwapTotal": memory.swap,
            "NetworkBackend": "",
            "OCIRuntime": { "Name": "tote", "Version": version, "Path": "tote" },
            "RemoteSocket": { "Exists": false, "Path": "" },
            "ServiceIsRemote": false,
            "Security": {
                "Rootless": of.rootless,
                "SECCOMPEnabled": has("seccomp"),
                "AppArmorEnabled": has("apparmor"),
                "SELinuxEnabled": has("selinux"),
            },
        },
        "Store": {
            "GraphRoot": of.root,
            "GraphDriverName": of.driver,
            "RunRoot": of.root,
            "VolumePath": facts.volumes,
            "ContainerStore": {
                "Number": of.containers,
                "Running": of.running,
                "Paused": of.paused,
                "Stopped": of.stopped,
            },
            "ImageStore": { "Number": of.images },
        },
        "Version": { "Version": version, "Built": 0, "OsArch": os_arch },
    })
}
