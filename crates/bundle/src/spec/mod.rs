//! Builds the specification out of options, image configuration and facts about the host.

mod context;
mod devices;
mod mounts;
mod namespaces;
mod paths;
mod process;
mod resources;

pub use context::Context;
pub use paths::system_paths;
pub use resources::{DEFAULT_PIDS, block_io, check_limits};

use crate::image::ImageConfig;
use crate::mount::{MountSource, Volume};
use crate::network::NetworkMode;
use crate::options::RunOptions;
use std::collections::{BTreeMap, BTreeSet};
use tote_spec::{Linux, Root, Spec, VERSION};

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
    /// Two options that set the processor time.
    #[error(
        "conflicting options: --cpus and --cpu-period or --cpu-quota cannot both be set: give one of them"
    )]
    CpusAndPeriod,
    /// `--memory-swap` without `--memory`.
    #[error("you should always set the memory limit when using --memory-swap: give --memory too")]
    SwapWithoutMemory,
    /// The total of memory and swap is below the memory limit.
    #[error(
        "minimum memoryswap limit should be larger than memory limit: --memory-swap counts memory and swap together"
    )]
    SwapBelowMemory,
    /// The reservation is above the memory limit.
    #[error(
        "minimum memory limit can not be less than memory reservation limit: give --memory at least --memory-reservation"
    )]
    ReservationAboveMemory,
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
    /// The container of `container:ID` has no process.
    #[error("cannot join the {namespace} namespace of container {peer}: it is not running")]
    Peer {
        /// `pid`, `ipc` or `uts`.
        namespace: &'static str,
        /// The container.
        peer: String,
    },
    /// `--init` without an init executable.
    #[error("--init needs the init executable, which was not found")]
    Init,
}

/// Returns the user that `--user` or else the image names, unresolved; empty is root.
#[must_use]
pub fn user_of<'a>(options: &'a RunOptions, image: &'a ImageConfig) -> &'a str {
    options
        .user
        .as_deref()
        .filter(|user| !user.is_empty())
        .unwrap_or(&image.user)
}

/// Merges the labels: the user's win over the image's.
#[must_use]
pub fn labels_of(options: &RunOptions, image: &ImageConfig) -> BTreeMap<String, String> {
    let mut labels = image.labels.clone();
    labels.extend(options.labels.clone());
    labels
}

/// Lists every volume that the container needs, with its destination: those of the user, then those of the image
/// except where the user mounts something. The caller prepares a directory for each and passes it in
/// [`Context::volumes`].
#[must_use]
pub fn volumes_of(options: &RunOptions, image: &ImageConfig) -> Vec<(String, Volume)> {
    let requested = options.mounts.iter().filter_map(|request| match &request.source {
        MountSource::Volume(volume) => Some((request.destination.clone(), volume.clone())),
        MountSource::Bind(_) | MountSource::Tmpfs(_) => None,
    });
    let anonymous = Volume {
        copy: true,
        ..Volume::default()
    };
    let implied = mounts::image_volumes(options, image);
    requested
        .chain(
            implied
                .into_iter()
                .map(|destination| (destination, anonymous.clone())),
        )
        .collect()
}

/// Builds the whole specification of a container: docker's defaults, overridden by the image and the user.
///
/// The caller adds `linux.seccomp`; [`RunOptions::seccomp`] selects the filter. The SELinux label is not computed
/// either, because it depends on the host's policy.
///
/// # Errors
/// [`SpecError`] if options contradict each other, or `context` lacks what they need.
pub fn spec(options: &RunOptions, image: &ImageConfig, context: &Context<'_>) -> Result<Spec, SpecError> {
    let hostname = namespaces::hostname(options, context)?;
    let (masked_paths, readonly_paths) = system_paths(options, context.masked_paths);
    let namespaces = namespaces::namespaces(options, context)?;
    // A joined user namespace already has its mappings.
    let new_user_namespace = namespaces
        .iter()
        .any(|namespace| namespace.kind == tote_spec::NamespaceType::User && namespace.path.is_none());
    let mappings = |mappings: &[_]| {
        if new_user_namespace {
            mappings.to_vec()
        } else {
            Vec::new()
        }
    };
    let (devices, device_mounts) = devices::devices(options, context)?;
    let mut mounts = mounts::mounts(options, image, context)?;
    mounts.extend(device_mounts);
    Ok(Spec {
        oci_version: VERSION.to_owned(),
        root: Some(Root {
            path: context.root.to_owned(),
            readonly: options.read_only,
        }),
        mounts,
        process: Some(process::process(options, image, context, &hostname.shown)?),
        hostname: hostname.set,
        domainname: namespaces::domainname(options)?,
        hooks: None,
        annotations: options.annotations.clone(),
        linux: Some(Linux {
            namespaces,
            uid_mappings: mappings(context.uid_mappings),
            gid_mappings: mappings(context.gid_mappings),
            devices,
            cgroups_path: context.cgroups_path.map(str::to_owned),
            resources: resources::resources(options, context)?,
            sysctl: sysctls(options, context)?,
            rootfs_propagation: mounts::root_propagation(options),
            masked_paths,
            readonly_paths,
            ..Linux::default()
        }),
    })
}

/// Merges the user's kernel parameters over docker's two defaults for a network namespace of the container's own.
fn sysctls(options: &RunOptions, context: &Context<'_>) -> Result<BTreeMap<String, String>, SpecError> {
    let mut sysctls = BTreeMap::new();
    let host_network = options.network == NetworkMode::Host;
    // In another container's network namespace, that container's options have decided these.
    if options.network.is_own() {
        sysctls.insert("net.ipv4.ip_unprivileged_port_start".to_owned(), "0".to_owned());
        // The kernel refuses groups that a user namespace does not map.
        if !context.has_user_namespace() {
            sysctls.insert("net.ipv4.ping_group_range".to_owned(), "0 2147483647".to_owned());
        }
    }
    let host_ipc = options.ipc == crate::IpcMode::Host;
    for (name, value) in &options.sysctls {
        let dotted = name.replace('/', ".");
        let is_network = dotted.starts_with("net.");
        let shared = if is_network { host_network } else { host_ipc };
        if shared {
            let (namespace, option) = if is_network {
                ("network", "network")
            } else {
                ("ipc", "ipc")
            };
            return Err(SpecError::Sysctl {
                name: name.clone(),
                namespace,
                option,
            });
        }
        // A parameter in both spellings must not be written twice.
        if dotted != *name {
            sysctls.remove(&dotted);
        }
        sysctls.insert(name.clone(), value.clone());
    }
    Ok(sysctls)
}

/// Returns the first path that occurs twice.
fn first_duplicate<'a>(paths: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    paths.into_iter().find(|path| !seen.insert(*path))
}
