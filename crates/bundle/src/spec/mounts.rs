use super::context::Context;
use super::error::SpecError;
use crate::image::ImageConfig;
use crate::mount::{Bind, MountRequest, MountSource, Propagation, Recursion};
use crate::namespace::{IpcMode, PidMode};
use crate::network::NetworkMode;
use crate::options::RunOptions;
use crate::path::{clean_absolute, first_duplicate};
use std::collections::BTreeSet;
use tote_spec::Mount;

const DEFAULT_SHM_SIZE: u64 = 64 << 20;

fn mount(destination: &str, kind: &str, source: &str, options: &[&str]) -> Mount {
    Mount {
        destination: destination.to_owned(),
        kind: Some(kind.to_owned()),
        source: Some(source.to_owned()),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..Mount::default()
    }
}

/// Lists all mounts: docker's own unless the user mounts something in their place, then the user's. Parents come
/// before their children.
pub(super) fn mounts(
    options: &RunOptions,
    image: &ImageConfig,
    context: &Context<'_>,
) -> Result<Vec<Mount>, SpecError> {
    if let Some(path) = first_duplicate(options.mounts.iter().map(|request| request.destination.as_str())) {
        return Err(SpecError::DuplicateMount(path.to_owned()));
    }
    let mut requested = Vec::new();
    for request in &options.mounts {
        requested.push(requested_mount(request, context)?);
    }
    for destination in image_volumes(options, image) {
        let directory = volume_directory(&destination, context)?;
        requested.push(bind_mount(
            &destination,
            directory,
            Propagation::Rprivate,
            Recursion::Enabled,
            false,
        ));
    }
    requested.sort_by_key(|mount| mount.destination.matches('/').count());
    let overrides: BTreeSet<&str> = requested.iter().map(|mount| mount.destination.as_str()).collect();
    let mut mounts = default_mounts(options, context);
    mounts.retain(|mount| {
        let below_dev = mount.destination.starts_with("/dev/") && overrides.contains("/dev");
        !below_dev && !overrides.contains(mount.destination.as_str())
    });
    mounts.extend(requested);
    Ok(mounts)
}

/// Lists the image's volumes except where the user mounts something; clean, each once. docker's rule: an entry that
/// is not an absolute path below the root is skipped.
pub(super) fn image_volumes(options: &RunOptions, image: &ImageConfig) -> BTreeSet<String> {
    let taken = |path: &String| options.mounts.iter().any(|request| request.destination == *path);
    image
        .volumes
        .iter()
        .filter_map(|path| clean_absolute(path))
        .filter(|path| path != "/" && !taken(path) && !is_the_runtimes(path))
        .collect()
}

/// True if `path` is one of the runtime's own mounts or lies below one. An image must not have files mounted there:
/// they would decide what the engine opens as a device.
fn is_the_runtimes(path: &str) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|top| {
        path.strip_prefix(top)
            .is_some_and(|below| below.is_empty() || below.starts_with('/'))
    })
}

fn default_mounts(options: &RunOptions, context: &Context<'_>) -> Vec<Mount> {
    let mut mounts = vec![proc(options, context)];
    mounts.push(mount(
        "/dev",
        "tmpfs",
        "tmpfs",
        &["nosuid", "strictatime", "mode=755", "size=65536k"],
    ));
    mounts.push(devpts(context));
    mounts.push(sys(options, context));
    mounts.push(cgroup(options));
    let quiet = ["nosuid", "noexec", "nodev"];
    let host_ipc = options.ipc == IpcMode::Host;
    // The message queues' file system belongs to the IPC namespace; only the owner of that namespace can mount it.
    mounts.push(if host_ipc {
        mount(
            "/dev/mqueue",
            "bind",
            "/dev/mqueue",
            &["rbind", "nosuid", "noexec", "nodev"],
        )
    } else {
        mount("/dev/mqueue", "mqueue", "mqueue", &quiet)
    });
    match &options.ipc {
        IpcMode::None => {}
        IpcMode::Host => {
            mounts.push(mount(
                "/dev/shm",
                "bind",
                "/dev/shm",
                &["rbind", "nosuid", "noexec", "nodev", "rprivate"],
            ));
        }
        // The plan has the other container's own mount in the place of this one for `container:ID`.
        IpcMode::Container(_) | IpcMode::Private | IpcMode::Shareable => {
            let mut shm = mount(
                "/dev/shm",
                "tmpfs",
                "shm",
                &["nosuid", "noexec", "nodev", "mode=1777"],
            );
            shm.options
                .push(format!("size={}", options.shm_size.unwrap_or(DEFAULT_SHM_SIZE)));
            mounts.push(shm);
        }
    }
    mounts
}

/// Returns the mount of `/proc`. A user namespace cannot mount the proc of a PID namespace that it does not own, so
/// it gets the host's.
fn proc(options: &RunOptions, context: &Context<'_>) -> Mount {
    if context.has_user_namespace() && options.pid == PidMode::Host {
        mount("/proc", "bind", "/proc", &["rbind", "nosuid", "noexec", "nodev"])
    } else {
        mount("/proc", "proc", "proc", &["nosuid", "noexec", "nodev"])
    }
}

fn devpts(context: &Context<'_>) -> Mount {
    let options = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"];
    let mut devpts = mount("/dev/pts", "devpts", "devpts", &options);
    // The group tty of every distribution.
    if context.maps_gid(5) {
        devpts.options.push("gid=5".to_owned());
    }
    devpts
}

/// Returns the mount of `/sys`. As for `/proc`: sysfs belongs to the network namespace, which must be owned to
/// mount it, and a step of a user's build has the user namespace of the build.
fn sys(options: &RunOptions, context: &Context<'_>) -> Mount {
    let is_below_the_machine = context.has_user_namespace() || context.rootless;
    let mut sys = if is_below_the_machine && options.network == NetworkMode::Host {
        mount(
            "/sys",
            "bind",
            "/sys",
            &["rbind", "rprivate", "nosuid", "noexec", "nodev"],
        )
    } else {
        mount("/sys", "sysfs", "sysfs", &["nosuid", "noexec", "nodev"])
    };
    if !options.privileged {
        sys.options.push("ro".to_owned());
    }
    sys
}

fn cgroup(options: &RunOptions) -> Mount {
    let mut cgroup = mount(
        "/sys/fs/cgroup",
        "cgroup",
        "cgroup",
        &["nosuid", "noexec", "nodev"],
    );
    if !options.privileged {
        cgroup.options.push("ro".to_owned());
    }
    cgroup
}

fn requested_mount(request: &MountRequest, context: &Context<'_>) -> Result<Mount, SpecError> {
    let destination = &request.destination;
    let mut made = match &request.source {
        MountSource::Bind(Bind {
            path,
            propagation,
            recursion,
            ..
        }) => bind_mount(destination, path, *propagation, *recursion, request.readonly),
        MountSource::Volume(volume) => {
            let directory = volume_directory(destination, context)?;
            let bind = bind_mount(
                destination,
                directory,
                Propagation::Rprivate,
                Recursion::Enabled,
                request.readonly,
            );
            Mount {
                subpath: volume.subpath.clone(),
                ..bind
            }
        }
        MountSource::Image(_) => bind_mount(
            destination,
            volume_directory(destination, context)?,
            Propagation::Rprivate,
            Recursion::Disabled,
            request.readonly,
        ),
        MountSource::Tmpfs(options) => Mount {
            options: options.clone(),
            ..mount(destination, "tmpfs", "tmpfs", &[])
        },
    };
    made.options
        .extend(request.restrictions.options().map(str::to_owned));
    Ok(made)
}

fn volume_directory<'a>(destination: &str, context: &Context<'a>) -> Result<&'a str, SpecError> {
    context
        .volumes
        .get(destination)
        .map(String::as_str)
        .ok_or_else(|| SpecError::Volume(destination.to_owned()))
}

fn bind_mount(
    destination: &str,
    source: &str,
    propagation: Propagation,
    recursion: Recursion,
    readonly: bool,
) -> Mount {
    let bind = if recursion == Recursion::Disabled {
        "bind"
    } else {
        "rbind"
    };
    let mut bind = mount(destination, "bind", source, &[bind]);
    if readonly {
        // As docker since version 25: a read-only tree has no writable mounts in it.
        let word = if recursion == Recursion::Enabled {
            "rro"
        } else {
            "ro"
        };
        bind.options.push(word.to_owned());
    }
    bind.options.push(propagation.as_str().to_owned());
    bind
}

/// Returns the propagation that the root mount needs, so that the propagation of the mounts below it has an effect.
pub(super) fn root_propagation(options: &RunOptions) -> Option<String> {
    let spreads = |wanted: [Propagation; 2]| {
        options
            .mounts
            .iter()
            .any(|request| matches!(&request.source, MountSource::Bind(bind) if wanted.contains(&bind.propagation)))
    };
    if spreads([Propagation::Shared, Propagation::Rshared]) {
        Some("shared".to_owned())
    } else if spreads([Propagation::Slave, Propagation::Rslave]) {
        Some("rslave".to_owned())
    } else {
        None
    }
}
