//! Names of other engines, and the order in which they are asked.

/// Another engine, or another way to name a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Docker,
    Podman,
    Containerd,
    Nspawn,
    Lxc,
    Lxd,
    Crictl,
    Kubernetes,
    Command,
    Pid,
}

/// Engines, in the order in which a bare name is tried.
pub(super) const ENGINES: [(Engine, &str); 10] = [
    (Engine::Docker, "docker"),
    (Engine::Podman, "podman"),
    (Engine::Containerd, "containerd"),
    (Engine::Nspawn, "nspawn"),
    (Engine::Lxc, "lxc"),
    (Engine::Lxd, "lxd"),
    (Engine::Crictl, "crictl"),
    (Engine::Kubernetes, "k8s"),
    (Engine::Command, "command"),
    (Engine::Pid, "pid"),
];

/// Lists the prefixes.
pub(super) fn names() -> String {
    ENGINES.map(|(_, name)| format!("{name}:")).join(", ")
}

impl Engine {
    /// True if a bare name may be one of this engine's: a text that many commands contain, and a number, are not, and
    /// containers of Kubernetes are those of the engines before.
    pub(super) fn is_tried(self) -> bool {
        !matches!(self, Self::Crictl | Self::Kubernetes | Self::Command | Self::Pid)
    }

    pub(super) fn name(self) -> &'static str {
        ENGINES
            .into_iter()
            .find(|(engine, _)| *engine == self)
            .map_or("", |(_, name)| name)
    }
}
