//! Why something cannot be done with a pod.

/// Why something cannot be done with a pod; podman's words where it has some.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// There is none.
    #[error("no pod with name or ID {0} found: no such pod")]
    Missing(String),
    /// A beginning of several ids.
    #[error("more than one pod has an ID that begins with {0}")]
    Ambiguous(String),
    /// The name is a pod's.
    #[error("name {name:?} is in use: pod {pod} already exists")]
    NameTaken {
        /// The name.
        name: String,
        /// Whose it is.
        pod: String,
    },
    /// A namespace that is none to share.
    #[error("invalid kernel namespace to share: {0}. Options are: ipc, net, pid, uts or none")]
    Share(String),
    /// Namespaces are kept by the infra container.
    #[error("cannot set share({0}) namespaces without an infra container")]
    ShareWithoutInfra(String),
    /// What a pod does when its last container ends.
    #[error("invalid pod exit policy: {0:?}: give continue or stop")]
    ExitPolicy(String),
    /// What only an infra container has.
    #[error("cannot set {0} without an infra container")]
    NoInfra(String),
    /// A member's network is the pod's.
    #[error("invalid config provided: network cannot be configured when it is shared with a pod")]
    Network,
    /// A member's host name is the pod's; the words are podman's.
    #[error("cannot set hostname when joining the pod UTS namespace: give --hostname to 'tote pod create'")]
    Hostname,
    /// `--name` and NAME.
    #[error("cannot specify --name and NAME at the same time")]
    TwoNames,
    /// The infra container goes with its pod.
    #[error(
        "container {container} is the infra container of pod {pod} and cannot be removed without removing the pod"
    )]
    Infra {
        /// Its id.
        container: String,
        /// The pod's.
        pod: String,
    },
    /// A member that runs.
    #[error(
        "pod {pod} has containers that are not ready to be removed: cannot remove container {container} as it is {state} - \
         running or paused containers cannot be removed without force"
    )]
    Running {
        /// The pod.
        pod: String,
        /// The first that is in the way.
        container: String,
        /// How it is doing.
        state: &'static str,
    },
    /// What is asked of its processes.
    #[error("pod {0} has no running containers, so it has no processes to show")]
    NotRunning(String),
    /// A container that is somebody else's.
    #[error("container {container} is not in pod {pod}")]
    NoMember {
        /// As it was asked for.
        container: String,
        /// The pod's name.
        pod: String,
    },
    /// Its removal has begun.
    #[error("pod {0} is being removed")]
    Removing(String),
    /// `--pod-id-file` that is there.
    #[error("pod ID file found, make sure the other pod isn't running or delete {0}")]
    IdFile(String),
    /// A filter that is none.
    #[error(
        "invalid filter {0:?}: id=, name=PATTERN, label=KEY[=VALUE], label!=, status=, ctr-ids=, ctr-names=, ctr-number=, \
         ctr-status=, network=, until=TIME"
    )]
    Filter(String),
}

impl PodError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Missing(_)
            | Self::Ambiguous(_)
            | Self::Infra { .. }
            | Self::Running { .. }
            | Self::NotRunning(_)
            | Self::NoMember { .. } => 1,
            _ => 125,
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Running { .. } => Some("stop the pod before, or give --force".to_owned()),
            Self::Infra { pod, .. } => Some(format!("tote pod rm {pod}")),
            _ => None,
        }
    }
}
