//! The engines: the programs they need, how they are started with a runtime, and how cases call them.

use super::image;
use super::place::{Place, make, write};
use super::rootless;
use super::tables::{self, Case};
use crate::enclosure::path;
use crate::program::{program, read};
use anyhow::{Context, Result};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// PATH of engines: Debian's directories only, without those for local programs.
pub(crate) const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Engine {
    Podman,
    /// podman, run by an ordinary user.
    Rootless,
    Docker,
    Containerd,
}

impl Engine {
    pub(super) const ALL: [Engine; 4] = [
        Engine::Podman,
        Engine::Rootless,
        Engine::Docker,
        Engine::Containerd,
    ];

    pub(super) fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|engine| engine.name() == name);
        found.with_context(|| {
            format!("dropin: no engine {name:?}, but podman, podman-user, docker and containerd")
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Engine::Podman => "podman",
            Engine::Rootless => "podman-user",
            Engine::Docker => "docker",
            Engine::Containerd => "containerd",
        }
    }

    /// Returns a needed program that is not installed.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let programs: &[_] = match self {
            Engine::Podman => &["podman", "conmon"],
            Engine::Rootless => &["podman", "conmon", "newuidmap"],
            Engine::Docker => &["dockerd", "docker", "containerd", "containerd-shim-runc-v2"],
            Engine::Containerd => &["containerd", "ctr", "containerd-shim-runc-v2", "script"],
        };
        programs.iter().copied().find(|name| find(name).is_none())
    }

    pub(crate) fn version(self) -> Result<String> {
        let name = match self {
            Engine::Docker => "dockerd",
            Engine::Rootless => "podman",
            other => other.name(),
        };
        let text = read(program(name).env("PATH", PATH).arg("--version"))?;
        Ok(text.trim().to_owned())
    }

    pub(super) fn cases(self) -> impl Iterator<Item = &'static Case> {
        let tables: [&[Case]; 2] = match self {
            Engine::Podman => [tables::DOCKERS_WORDS, tables::PODMAN],
            Engine::Rootless => [tables::DOCKERS_WORDS, tables::PODMAN_OF_A_USER],
            Engine::Docker => [tables::DOCKERS_WORDS, tables::DOCKER],
            Engine::Containerd => [tables::CONTAINERD, &[]],
        };
        // An ordinary user may have no cgroup; then nothing would keep this container from the machine's whole
        // memory.
        let is_safe = move |case: &&Case| self != Engine::Rootless || case.name != "out of memory";
        tables.into_iter().flatten().filter(is_safe)
    }

    /// Writes the engine's configuration, and returns the daemons to start, in this order, each with a script that
    /// succeeds once it answers.
    pub(super) fn daemons(
        self,
        place: &Place,
        directory: &Path,
        runtime: &Path,
    ) -> Result<Vec<(Command, &'static str)>> {
        make(directory)?;
        match self {
            Engine::Podman => {
                write(&directory.join("containers.conf"), CONTAINERS_CONF)?;
                Ok(Vec::new())
            }
            Engine::Rootless => {
                write(&directory.join("containers.conf"), CONTAINERS_CONF)?;
                rootless::furnish(place, directory, runtime)?;
                Ok(Vec::new())
            }
            Engine::Docker => Ok(vec![
                (containerd(place, directory)?, "ctr version"),
                (dockerd(place, directory, runtime, Networks::None)?, "E version"),
            ]),
            Engine::Containerd => Ok(vec![(containerd(place, directory)?, "ctr version")]),
        }
    }

    /// Returns variables and functions for the cases, which precede `tables::PRELUDE`.
    pub(super) fn prelude(self, directory: &Path, runtime: &Path) -> Result<String> {
        let own = rootless::own_runtime(directory, runtime);
        let runtime = if self == Engine::Rootless { &own } else { runtime };
        let (directory, runtime) = (path(directory)?, path(runtime)?);
        Ok(match self {
            Engine::Podman | Engine::Rootless => format!(
                "I=busybox\nE() {{ podman --root {directory}/root --runroot {directory}/run --storage-driver vfs \
                 --cgroup-manager cgroupfs --events-backend file --runtime {runtime} \"$@\"; }}\n"
            ),
            Engine::Docker => "I=busybox\nE() { docker \"$@\"; }\n".to_owned(),
            Engine::Containerd => format!("I={}\nRUNTIME='{runtime}'\n", image::NAME),
        })
    }

    /// Returns the script that loads the image into the engine.
    pub(super) fn load(self) -> &'static str {
        match self {
            Engine::Podman | Engine::Rootless | Engine::Docker => {
                "E import --change 'CMD [\"sh\"]' $W/rootfs.tar busybox"
            }
            Engine::Containerd => "ctr image import $W/oci.tar",
        }
    }

    /// Returns the script that removes objects that a case may have left; it fails if some remain.
    pub(super) fn clean(self) -> &'static str {
        match self {
            Engine::Podman | Engine::Rootless => "E rm --all --force --time 0; E volume prune --force",
            Engine::Docker => "E ps -aq | xargs -r docker rm --force --volumes; E volume prune --force",
            Engine::Containerd => {
                "for box in $(ctr task list -q); do
                     ctr task kill -s KILL $box || true
                     eventually eval \"! ctr task list | grep '^$box .*RUNNING'\"
                     ctr task delete -f $box || true
                 done
                 for box in $(ctr container list -q); do ctr container delete $box; done"
            }
        }
    }

    /// Builds the command that runs a program as the engine's user; the caller adds the arguments of timeout(1).
    pub(super) fn timeout(self) -> Command {
        match self {
            Engine::Rootless => {
                let mut command = rootless::command();
                command.arg("timeout");
                command
            }
            _ => program("timeout"),
        }
    }

    /// Returns the script that ends processes that the engine keeps without a daemon.
    pub(super) fn end(self) -> &'static str {
        match self {
            // This ends the process that holds the user namespace.
            Engine::Rootless => "E system migrate",
            _ => ":",
        }
    }

    /// Returns the environment of the engine's programs.
    pub(crate) fn environment(self, directory: &Path) -> Vec<(&'static str, String)> {
        match self {
            Engine::Podman => vec![containers_conf(directory)],
            Engine::Rootless => {
                let runtime_directory = rootless::runtime_directory(directory);
                vec![
                    containers_conf(directory),
                    ("HOME", directory.display().to_string()),
                    ("XDG_RUNTIME_DIR", runtime_directory.display().to_string()),
                ]
            }
            _ => vec![("CONTAINERD_ADDRESS", CONTAINERD.to_owned())],
        }
    }
}

/// Configuration of podman. The limits are below podman's defaults, because root may lack CAP_SYS_RESOURCE.
const CONTAINERS_CONF: &str = r#"[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
log_driver = "k8s-file"
init_path = "/usr/bin/tini-static"
[engine]
events_logger = "file"
lock_type = "shm"
"#;

fn containers_conf(directory: &Path) -> (&'static str, String) {
    (
        "CONTAINERS_CONF",
        directory.join("containers.conf").display().to_string(),
    )
}

const CONTAINERD: &str = "/run/containerd/containerd.sock";

pub(crate) fn containerd(place: &Place, directory: &Path) -> Result<Command> {
    let root = path(directory)?;
    let configuration = format!(
        "version = 2\nroot = \"{root}/containerd\"\nstate = \"/run/containerd\"\n\
         disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
         [grpc]\naddress = \"{CONTAINERD}\"\n\
         [plugins.\"io.containerd.internal.v1.opt\"]\npath = \"{root}/opt\"\n"
    );
    let file = directory.join("containerd.toml");
    write(&file, &configuration)?;
    let mut command = daemon(place, "containerd");
    command.arg("--config").arg(file);
    Ok(command)
}

/// Networks that docker may make in the present network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Networks {
    /// None, and no rule of a firewall.
    None,
    All,
}

pub(crate) fn dockerd(
    place: &Place,
    directory: &Path,
    runtime: &Path,
    networks: Networks,
) -> Result<Command> {
    let mut configuration = json!({
        "data-root": directory.join("docker"),
        "hosts": ["unix:///run/docker.sock"],
        "containerd": CONTAINERD,
        "runtimes": {"tested": {"path": runtime}},
        "default-runtime": "tested",
    });
    if networks == Networks::None {
        configuration["bridge"] = json!("none");
        for option in ["iptables", "ip6tables", "ip-forward"] {
            configuration[option] = json!(false);
        }
    }
    let file = directory.join("daemon.json");
    write(&file, &configuration.to_string())?;
    let mut command = daemon(place, "dockerd");
    command.arg("--config-file").arg(file);
    Ok(command)
}

fn daemon(place: &Place, name: &str) -> Command {
    let mut command = program(name);
    command
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", place.work.join("home"))
        .env("TMPDIR", place.work.join("tmp"));
    command
}

/// Finds a program in [`PATH`].
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    PATH.split(':')
        .map(|directory| Path::new(directory).join(name))
        .find(|path| path.metadata().is_ok_and(|found| found.is_file()))
}
