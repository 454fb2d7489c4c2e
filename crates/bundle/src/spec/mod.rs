//! Builds the specification out of options, image configuration and facts about the host.

mod context;
mod devices;
mod error;
mod health;
mod mounts;
mod namespaces;
mod paths;
mod process;
mod resources;

pub use context::Context;
pub use error::{ConflictingLimits, SpecError};
pub use health::health_of;
pub use paths::system_paths;
pub use resources::{DEFAULT_PIDS, block_io, check_limits};

use crate::image::ImageConfig;
use crate::mount::{MountSource, Volume};
use crate::network::NetworkMode;
use crate::options::RunOptions;
use std::collections::BTreeMap;
use tote_spec::{Linux, Root, Spec, VERSION};

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
        MountSource::Bind(_) | MountSource::Tmpfs(_) | MountSource::Image(_) => None,
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
            resources: Some(resources::resources(options, context)?),
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
