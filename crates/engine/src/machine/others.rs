//! Facts about the machine in docker's and podman's fields: scripts test with these whether an engine is there.

use super::MachineReport;
use serde_json::{Value, json};
use tote_state::record::now;

/// The machine's operating system as /etc/os-release calls it.
fn operating_system() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("Linux").trim_matches('"').to_owned()
}

/// docker's word for an architecture of Rust's.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Version of docker's API whose commands and options the command line has, those of docker 28.0. Scripts compare it
/// before they use an option; nothing here serves that API.
const API: &str = "1.48";

/// Oldest version of the API that docker 28.0 speaks.
const OLDEST_API: &str = "1.24";

/// `docker version`, and podman's: client and server are this program.
#[must_use]
pub fn dockers_version(version: &str) -> Value {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
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

impl MachineReport {
    /// `docker info`, and podman's.
    #[must_use]
    pub fn as_docker_has_it(&self, version: &str) -> Value {
        let mut all = self.counts();
        for part in [self.machine(), self.engine(version), self.podmans(version)] {
            if let (Value::Object(all), Value::Object(part)) = (&mut all, part) {
                all.extend(part);
            }
        }
        all
    }

    fn is_v2(&self) -> bool {
        self.cgroups == "v2"
    }

    /// docker's fields about what is kept.
    fn counts(&self) -> Value {
        json!({
            "ID": hostname(),
            "Containers": self.containers,
            "ContainersRunning": self.running,
            "ContainersPaused": self.paused,
            "ContainersStopped": self.stopped,
            "Images": self.images,
            "Driver": self.driver,
            "DriverStatus": [],
            "DockerRootDir": self.root,
            "SystemTime": crate::look::moment(now()),
        })
    }

    /// docker's fields about the machine.
    fn machine(&self) -> Value {
        let limits = !self.rootless;
        json!({
            "MemoryLimit": limits,
            "SwapLimit": limits,
            "CpuCfsPeriod": limits,
            "CpuCfsQuota": limits,
            "CPUShares": limits,
            "CPUSet": limits,
            "PidsLimit": limits,
            "OomKillDisable": !self.is_v2(),
            "CgroupDriver": "cgroupfs",
            "CgroupVersion": if self.is_v2() { "2" } else { "1" },
            "KernelVersion": self.kernel,
            "OperatingSystem": operating_system(),
            "OSType": "linux",
            "Architecture": std::env::consts::ARCH,
            "NCPU": crate::processors::processors(),
            "MemTotal": Memory::look().total,
            "Name": hostname(),
            "Labels": [],
            "Warnings": null,
        })
    }

    /// docker's fields about the engine.
    fn engine(&self, version: &str) -> Value {
        let mut security = vec!["name=seccomp,profile=builtin", "name=cgroupns"];
        if self.rootless {
            security.push("name=rootless");
        }
        let networks = self.features.get("networks").is_some_and(|word| word == "yes");
        let network_drivers = match (networks, self.rootless) {
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
    fn podmans(&self, version: &str) -> Value {
        let has = |feature: &str| self.features.get(feature).is_some_and(|word| word == "yes");
        let memory = Memory::look();
        let os_arch = format!("linux/{}", architecture());
        json!({
            "Host": {
                "Arch": architecture(),
                "OS": "linux",
                "CgroupManager": "cgroupfs",
                "CgroupsVersion": if self.is_v2() { "v2" } else { "v1" },
                "CPUs": crate::processors::processors(),
                "EventLogger": "file",
                "Hostname": hostname(),
                "Kernel": self.kernel,
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
                    "Rootless": self.rootless,
                    "SECCOMPEnabled": has("seccomp"),
                    "AppArmorEnabled": has("apparmor"),
                    "SELinuxEnabled": has("selinux"),
                },
            },
            "Store": {
                "GraphRoot": self.root,
                "GraphDriverName": self.driver,
                "RunRoot": self.root,
                "VolumePath": self.root.join("volumes"),
                "ContainerStore": {
                    "Number": self.containers,
                    "Running": self.running,
                    "Paused": self.paused,
                    "Stopped": self.stopped,
                },
                "ImageStore": { "Number": self.images },
            },
            "Version": { "Version": version, "Built": 0, "OsArch": os_arch },
        })
    }
}

/// Bytes of the machine's memory.
struct Memory {
    total: u64,
    free: u64,
    swap: u64,
    free_swap: u64,
}

impl Memory {
    fn look() -> Self {
        let seen = rustix::system::sysinfo();
        let bytes = |count: u64| count.saturating_mul(u64::from(seen.mem_unit));
        Self {
            total: bytes(seen.totalram),
            free: bytes(seen.freeram),
            swap: bytes(seen.totalswap),
            free_swap: bytes(seen.freeswap),
        }
    }
}
