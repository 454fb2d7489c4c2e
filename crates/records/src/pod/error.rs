//! Errors of pods.

/// Error of the work with a pod; in podman's words if it has some.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// Name of a missing pod.
    #[error("no pod with name or ID {0} found: no such pod")]
    Missing(String),
    /// Prefix of several ids.
    #[error("more than one pod has an ID that begins with {0}")]
    Ambiguous(String),
    /// Name of an existing pod.
    #[error("name {name:?} is in use: pod {pod} already exists")]
    NameTaken {
        /// Requested name.
        name: String,
        /// Id of the pod with that name.
        pod: String,
    },
    /// Namespace that cannot be shared.
    #[error("invalid kernel namespace to share: {0}. Options are: ipc, net, pid, uts or none")]
    Share(String),
    /// Namespaces that only an infra container can keep.
    #[error("cannot set share({0}) namespaces without an infra container")]
    ShareWithoutInfra(String),
    /// Invalid exit policy.
    #[error("invalid pod exit policy: {0:?}: give continue or stop")]
    ExitPolicy(String),
    /// Option that only an infra container has.
    #[error("cannot set {0} without an infra container")]
    NoInfra(String),
    /// Network option for a member, whose network is the pod's.
    #[error("invalid config provided: network cannot be configured when it is shared with a pod")]
    Network,
    /// Pod in a virtual machine with something that it cannot have.
    #[error("cannot create a pod with {0} and --isolation vm: {1}")]
    InMachine(&'static str, &'static str),
    /// Network of a pod, for a container outside pods.
    #[error("cannot use the network of a pod outside of pods")]
    NoPod,
    /// Network of a pod whose members have networks of their own.
    #[error("cannot use the network of pod {0}: its members share none")]
    NoNetwork(String),
    /// Host name for a member, whose host name is the pod's; podman's words.
    #[error("cannot set hostname when joining the pod UTS namespace: give --hostname to 'tote pod create'")]
    Hostname,
    /// Use of both `--name` and NAME.
    #[error("cannot specify --name and NAME at the same time")]
    TwoNames,
    /// Removal of an infra container without its pod.
    #[error(
        "container {container} is the infra container of pod {pod} and cannot be removed without removing the pod"
    )]
    Infra {
        /// Id of the container.
        container: String,
        /// Id of the pod.
        pod: String,
    },
    /// Removal of a pod with a running member.
    #[error(
        "pod {pod} has containers that are not ready to be removed: cannot remove container {container} as it is {state} - \
         running or paused containers cannot be removed without force"
    )]
    Running {
        /// Name of the pod.
        pod: String,
        /// First member that prevents the removal.
        container: String,
        /// State of the member.
        state: &'static str,
    },
    /// Query for processes of a pod without any.
    #[error("pod {0} has no running containers, so it has no processes to show")]
    NotRunning(String),
    /// Container outside the pod.
    #[error("container {container} is not in pod {pod}")]
    NoMember {
        /// Name as requested.
        container: String,
        /// Name of the pod.
        pod: String,
    },
    /// Pod whose removal has begun.
    #[error("pod {0} is being removed")]
    Removing(String),
    /// Existing file of `--pod-id-file`.
    #[error("pod ID file found, make sure the other pod isn't running or delete {0}")]
    IdFile(String),
    /// Invalid filter.
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
            Self::NameTaken { name, .. } => Some(format!(
                "'tote pod rm {name}' removes it, and --replace replaces it"
            )),
            Self::NoPod => Some("give --pod NAME beside --network pod".to_owned()),
            Self::NoNetwork(_) => Some("tote pod create --share +net".to_owned()),
            Self::Infra { pod, .. } => Some(format!("tote pod rm {pod}")),
            _ => None,
        }
    }
}
