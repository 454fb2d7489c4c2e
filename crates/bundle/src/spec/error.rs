mod limits;

pub use limits::ConflictingLimits;
/// Why options, image and host cannot be turned into a specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Neither the user nor the image names a program.
    #[error("no command specified: give one behind the image")]
    NoCommand,
    /// The image's working directory is not absolute.
    #[error("the working directory '{0}' is invalid, it needs to be an absolute path")]
    Workdir(String),
    /// Two mounts have one destination.
    #[error("duplicate mount point: {0}: give each destination once")]
    DuplicateMount(String),
    /// The context has no directory for the volume.
    #[error("no directory was prepared for the volume at {0}")]
    Volume(String),
    /// `--device` names no device node.
    #[error("error gathering device information while adding custom device {0:?}: no device node is there")]
    Device(String),
    /// `--hostname` without a UTS namespace of the container's own.
    #[error("conflicting options: --hostname and --uts host: the host's name would change")]
    Hostname,
    /// `--domainname` without a UTS namespace of the container's own.
    #[error(
        "conflicting options: --domainname needs a host name of the container's own: leave it out, or --uts"
    )]
    Domainname,
    /// `--publish` in another's network; docker's words.
    #[error("conflicting options: port publishing and the container type network mode")]
    Published,
    /// `--expose` in another container's network; docker's words.
    #[error("conflicting options: port exposing and the container type network mode")]
    Exposed,
    /// `--add-host` has lines for a file that `--no-hosts` leaves out; podman's words.
    #[error("--no-hosts and --add-host cannot be set together")]
    NoHosts,
    /// `--sysctl` for a namespace that is the host's.
    #[error("sysctl {name:?} not allowed in host {namespace} namespace: leave out --{option} host")]
    Sysctl {
        /// The parameter.
        name: String,
        /// `network` or `ipc`.
        namespace: &'static str,
        /// The option that shares the namespace.
        option: &'static str,
    },
    /// `--no-healthcheck` together with options of a check; docker's words.
    #[error("--no-healthcheck conflicts with --health-* options")]
    Health,
    /// An id that the user namespace does not map.
    #[error(
        "{kind} id {id} is not mapped in the container's user namespace: more ids need ranges in /etc/{file}"
    )]
    NotMapped {
        /// `user` or `group`.
        kind: &'static str,
        /// The id in the container.
        id: u32,
        /// `subuid` or `subgid`.
        file: &'static str,
    },
    /// `--group-add` where setgroups(2) is forbidden.
    #[error("--group-add needs setgroups(2), which a user namespace without ranges in /etc/subgid forbids")]
    Setgroups,
    /// An option of a network namespace that belongs to another container; docker's words.
    #[error("conflicting options: {0} and the network mode")]
    NetworkConflict(&'static str),
    /// The container of `--network container:ID` has no process; docker's words.
    #[error("cannot join network of a non running container: {0}")]
    NetworkPeer(String),
    /// The IPC namespace of a container that keeps it to itself; docker's words.
    #[error(
        "cannot join the IPC namespace of container {0}: non-shareable IPC (hint: create that container with --ipc shareable)"
    )]
    PrivateIpc(String),
    /// The container of `container:ID` has no process.
    #[error("cannot join the {namespace} namespace of container {peer}: it is not running")]
    Peer {
        /// `pid`, `ipc` or `uts`.
        namespace: &'static str,
        /// The container.
        peer: String,
    },
    /// Limits contradict each other.
    #[error(transparent)]
    Limits(#[from] ConflictingLimits),
}
