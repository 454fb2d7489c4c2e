//! Options, image configuration and host facts together: the specification.

mod context;
mod devices;
mod mounts;
mod namespaces;
mod paths;
mod process;
mod resources;

pub use context::Context;
pub use resources::{DEFAULT_PIDS, block_io, check_limits};

use crate::image::ImageConfig;
use crate::mount::{MountSource, Volume};
use crate::network::NetworkMode;
use crate::options::RunOptions;
use std::collections::{BTreeMap, BTreeSet};
use tote_spec::{Linux, Root, Spec, VERSION};

/// Why options, image and host do not make a container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Neither the user nor the image says what to run.
    #[error("no command specified: give one behind the image")]
    NoCommand,
    /// The image's working directory.
    #[error("the working directory '{0}' is invalid, it needs to be an absolute path")]
    Workdir(String),
    /// Two things in one place.
    #[error("duplicate mount point: {0}: give each destination once")]
    DuplicateMount(String),
    /// A volume that nobody prepared.
    #[error("no directory was prepared for the volume at {0}")]
    Volume(String),
    /// `--device` for what is not there.
    #[error("error gathering device information while adding custom device {0:?}: no device node is there")]
    Device(String),
    /// `--hostname` without a UTS namespace.
    #[error("conflicting options: --hostname and --uts host: the host's name would change")]
    Hostname,
    /// `--domainname` without a UTS namespace.
    #[error(
        "conflicting options: --domainname needs a host name of the container's own: leave it out, or --uts"
    )]
    Domainname,
    /// `--publish` in another's network; docker's words.
    #[error("conflicting options: port publishing and the container type network mode")]
    Published,
    /// `--expose` in another's network; docker's words.
    #[error("conflicting options: port exposing and the container type network mode")]
    Exposed,
    /// Lines for a file that is not to be; podman's words.
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
    /// Two wishes that exclude each other; docker's words.
    #[error("--no-healthcheck conflicts with --health-* options")]
    Health,
    /// Two ways to say how much processor time.
    #[error(
        "conflicting options: --cpus and --cpu-period or --cpu-quota cannot both be set: give one of them"
    )]
    CpusAndPeriod,
    /// Swap without memory.
    #[error("you should always set the memory limit when using --memory-swap: give --memory too")]
    SwapWithoutMemory,
    /// Less swap than memory.
    #[error(
        "minimum memoryswap limit should be larger than memory limit: --memory-swap counts memory and swap together"
    )]
    SwapBelowMemory,
    /// More reserved than allowed.
    #[error(
        "minimum memory limit can not be less than memory reservation limit: give --memory at least --memory-reservation"
    )]
    ReservationAboveMemory,
    /// An id without a mapping.
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
    /// What belongs to a network that is another container's; docker's words.
    #[error("conflicting options: {0} and the network mode")]
    NetworkConflict(&'static str),
    /// `--network container:ID` without its process; docker's words.
    #[error("cannot join network of a non running container: {0}")]
    NetworkPeer(String),
    /// `container:ID` without its process.
    #[error("cannot join the {namespace} namespace of container {peer}: it is not running")]
    Peer {
        /// `pid`, `ipc` or `uts`.
        namespace: &'static str,
        /// The container.
        peer: String,
    },
    /// `--init` without an init.
    #[error("--init needs the init executable, which was not found")]
    Init,
}

/// The user that the container's `--user` or image names, unresolved; empty is root.
#[must_use]
pub fn user_of<'a>(options: &'a RunOptions, image: &'a ImageConfig) -> &'a str {
    options
        .user
        .as_deref()
        .filter(|user| !user.is_empty())
        .unwrap_or(&image.user)
}

/// The labels of the image and, over them, the user's.
#[must_use]
pub fn labels_of(options: &RunOptions, image: &ImageConfig) -> BTreeMap<String, String> {
    let mut labels = image.labels.clone();
    labels.extend(options.labels.clone());
    labels
}

/// Every volume that the container needs, with its destination: the user's, then those of the image at whose place the
/// user mounts nothing. The caller prepares a directory for each and gives it in [`Context::volumes`].
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

/// The whole specification of a container: docker's defaults, with what the user and the image say over them.
///
/// `linux.seccomp` is left out: [`RunOptions::seccomp`] says which filter the caller is to put there. Neither is the
/// SELinux label computed, which needs the host's policy.
///
/// # Errors
/// [`SpecError`] for what contradicts itself, or is not in `context`.
pub fn spec(options: &RunOptions, image: &ImageConfig, context: &Context<'_>) -> Result<Spec, SpecError> {
    let hostname = namespaces::hostname(options, context)?;
    let (masked_paths, readonly_paths) = paths::system_paths(options, context);
    let namespaces = namespaces::namespaces(options, context)?;
    // A user namespace that is joined brings its mappings with it.
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

/// The user's kernel parameters over docker's two for a network namespace of its own.
fn sysctls(options: &RunOptions, context: &Context<'_>) -> Result<BTreeMap<String, String>, SpecError> {
    let mut sysctls = BTreeMap::new();
    let host_network = options.network == NetworkMode::Host;
    // In another's they are set, or not, as that one wanted it.
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
        // One parameter in both spellings must not be written twice.
        if dotted != *name {
            sysctls.remove(&dotted);
        }
        sysctls.insert(name.clone(), value.clone());
    }
    Ok(sysctls)
}

/// The first path that comes twice.
fn first_duplicate<'a>(paths: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    paths.into_iter().find(|path| !seen.insert(*path))
}
