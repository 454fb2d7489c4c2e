//! Options that a virtual machine has no use for: each is refused with its reason, before anything is made.

use super::error::VmFault;
use crate::EngineError;
use crate::container::Container;
use crate::rootfs::Source;
use tote_bundle::{
    CgroupnsMode, Image, IpcMode, MountRequest, MountSource, NetworkMode, PidMode, Propagation, RunOptions,
    Treatment, UsernsMode, UtsMode,
};

/// Reason for what comes with a later version.
const LATER: &str = "not supported yet in virtual machines";

/// Reason for namespaces of the host.
const OTHER_KERNEL: &str = "the host's namespaces are those of another kernel";

/// Checks the options of a container in a virtual machine.
///
/// # Errors
/// [`VmFault`].
pub fn settle(image: &Image, options: &RunOptions) -> Result<(), EngineError> {
    if options.vm.is_none() {
        return Ok(());
    }
    if !matches!(image, Image::Stored(_)) && !options.infra {
        return Err(VmFault::NotStored.into());
    }
    if let Some((option, reason)) = refused(options).or_else(|| refused_to_member(options)) {
        return Err(VmFault::Option { option, reason }.into());
    }
    Ok(())
}

/// True for a container in a virtual machine.
pub fn is_in_vm(container: &Container) -> bool {
    container.option("isolation").is_some_and(tote_bundle::is_vm)
}

/// Refuses an attempt to reach into a container that is in a virtual machine.
pub fn check_here(container: &Container, attempt: &'static str) -> Result<(), EngineError> {
    if is_in_vm(container) {
        let container = container.display().to_owned();
        return Err(VmFault::Apart { attempt, container }.into());
    }
    Ok(())
}

/// Refuses an attempt on the processes of a container whose machine has others.
pub fn check_alone(container: &Container, attempt: &'static str) -> Result<(), EngineError> {
    if container.pod.is_some() && !container.is_infra() {
        return check_here(container, attempt);
    }
    Ok(())
}

/// Leaves out what an image has no use for in a virtual machine: its volumes are directories of the disk, which can be written to
/// as everything else.
pub fn adapt(options: &RunOptions, source: &mut Source) {
    if options.vm.is_some() {
        source.forget_volumes();
    }
}

/// True for a mount of what a guest cannot have.
fn is_of_the_host(mount: &MountRequest) -> bool {
    match &mount.source {
        MountSource::Tmpfs(_) | MountSource::Bind(_) => false,
        MountSource::Volume(volume) => volume.name.is_none(),
        MountSource::Image(_) => true,
    }
}

/// True for a mount whose files this machine would have to treat as the container's.
fn is_treated(mount: &MountRequest) -> bool {
    let relabel = match &mount.source {
        MountSource::Volume(volume) => volume.relabel,
        MountSource::Bind(bind) => bind.relabel,
        MountSource::Tmpfs(_) | MountSource::Image(_) => None,
    };
    mount.treatment != Treatment::Shared || relabel.is_some()
}

/// True for a mount into which others are to come while the container runs.
fn is_propagated(mount: &MountRequest) -> bool {
    matches!(&mount.source, MountSource::Bind(bind) if bind.propagation != Propagation::default())
}

/// Returns the first mount that is refused, and why.
fn refused_mount(options: &RunOptions) -> Option<(&'static str, &'static str)> {
    let table = [
        (
            options.mounts.iter().any(is_of_the_host),
            "images and volumes without a name as mounts",
            "give a directory, a volume with a name, disk:NAME, or --tmpfs",
        ),
        (
            options.mounts.iter().any(is_treated),
            "this option of a volume",
            "users and labels are the guest's; ro, noexec and nosuid are supported",
        ),
        (
            options.mounts.iter().any(is_propagated),
            "propagation of mounts",
            "mounts of another kernel do not spread to a guest",
        ),
    ];
    let first = table.into_iter().find(|(is_asked, ..)| *is_asked);
    first.map(|(_, option, reason)| (option, reason))
}

/// Returns the first option that is refused, and why.
fn refused(options: &RunOptions) -> Option<(&'static str, &'static str)> {
    let table = [
        (
            !options.volumes_from.is_empty(),
            "--volumes-from",
            "a disk is one machine's at a time",
        ),
        (!options.secrets.is_empty(), "--secret", LATER),
        (
            !options.devices.is_empty(),
            "--device",
            "a device of the host cannot be in a virtual machine",
        ),
        (
            !options.device_grants.is_empty(),
            "--device-cgroup-rule",
            "a device of the host cannot be in a virtual machine",
        ),
        (
            options.privileged,
            "--privileged",
            "it would give devices of the host, which cannot be in a virtual machine",
        ),
        (
            options.preserve_fds > 0,
            "--preserve-fds",
            "descriptors of the host cannot be in a virtual machine",
        ),
        (
            options.driver.is_some(),
            "--driver",
            "the image is a disk of the machine, and its writes are on another one",
        ),
        (
            !options.writable.is_empty(),
            "--writable",
            "the image is a disk of the machine, and its writes are on another one",
        ),
    ];
    let first = table.into_iter().find(|(is_asked, ..)| *is_asked);
    let first = first.map(|(_, option, reason)| (option, reason));
    refused_mount(options)
        .or_else(|| refused_namespace(options))
        .or(first)
}

/// Returns the first option of a namespace that is refused, and why. Members of a pod join its infra container.
fn refused_namespace(options: &RunOptions) -> Option<(&'static str, &'static str)> {
    let is_member = options.pod.is_some() && !options.infra;
    let table = [
        (
            options.network == NetworkMode::Host,
            "--network host",
            OTHER_KERNEL,
        ),
        (
            matches!(options.network, NetworkMode::Container(_)) && !is_member,
            "--network container:NAME",
            "a guest has a network device of its own",
        ),
        (options.pid != PidMode::default(), "--pid", OTHER_KERNEL),
        (
            match &options.ipc {
                IpcMode::Container(_) => !is_member,
                IpcMode::Shareable => !options.infra,
                mode => *mode != IpcMode::default(),
            },
            "--ipc",
            OTHER_KERNEL,
        ),
        (
            match &options.uts {
                UtsMode::Container(_) => !is_member,
                mode => *mode != UtsMode::default(),
            },
            "--uts",
            OTHER_KERNEL,
        ),
        (
            options.cgroupns == CgroupnsMode::Host,
            "--cgroupns host",
            OTHER_KERNEL,
        ),
        (
            options.userns != UsernsMode::Default || !options.id_maps.is_empty(),
            "--userns",
            "ids in a virtual machine are not those of the host",
        ),
    ];
    let first = table.into_iter().find(|(is_asked, ..)| *is_asked);
    first.map(|(_, option, reason)| (option, reason))
}

/// Returns the first option that is the machine's, and so not one of the containers of a pod, and why.
fn refused_to_member(options: &RunOptions) -> Option<(&'static str, &'static str)> {
    const OF_MACHINE: &str =
        "the machine is the pod's: tote pod create --isolation vm=memory=SIZE,cpus=NUMBER";
    let table = [
        (options.memory > 0, "--memory and --pod", OF_MACHINE),
        (options.nano_cpus > 0, "--cpus and --pod", OF_MACHINE),
        (
            !options.sysctls.is_empty(),
            "--sysctl and --pod",
            "kernel parameters are said of the pod",
        ),
    ];
    let is_member = options.pod.is_some() && !options.infra;
    let first = table.into_iter().find(|(is_asked, ..)| *is_asked && is_member);
    first.map(|(_, option, reason)| (option, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(all: &[(&str, &str)]) -> Result<(), String> {
        let mut options = RunOptions::default();
        for (name, value) in all {
            options.set(name, value).unwrap();
        }
        let image = Image::Stored("debian".to_owned());
        settle(&image, &options).map_err(|error| error.to_string())
    }

    #[test]
    fn each_has_its_reason() {
        for (name, value) in [
            ("volume", "/data:/data:rshared"),
            ("volume", "/data"),
            ("network", "host"),
            ("pid", "host"),
            ("ipc", "host"),
            ("uts", "host"),
            ("userns", "keep-id"),
            ("device", "/dev/null"),
            ("privileged", "true"),
            ("preserve-fds", "1"),
            ("driver", "split"),
        ] {
            let error = settled(&[("isolation", "vm"), (name, value)]).unwrap_err();
            assert!(error.starts_with("cannot use "), "{error}");
            assert!(error.contains(" with --isolation vm: "), "{error}");
            // Without a virtual machine nothing is refused here.
            assert!(settled(&[(name, value)]).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_pod_has_one_machine() {
        let member = [("isolation", "vm"), ("pod", "p"), ("network", "container:i")];
        assert_eq!(settled(&member), Ok(()));
        for (name, value) in [
            ("memory", "300m"),
            ("cpus", "1"),
            ("sysctl", "net.ipv4.ip_forward=1"),
            ("pid", "container:i"),
        ] {
            let refused = settled(&[&member[..], &[(name, value)]].concat()).unwrap_err();
            assert!(refused.starts_with(&format!("cannot use --{name}")), "{refused}");
        }
        // Without a pod another container's namespace stays refused.
        assert!(settled(&[member[0], member[2]]).is_err());
        let infra = [("isolation", "vm"), ("infra", "true"), ("ipc", "shareable")];
        assert_eq!(settled(&infra), Ok(()));
        assert!(settled(&[infra[0], infra[2]]).is_err());
    }

    #[test]
    fn disks_directories_and_memory() {
        for volume in [
            "disk:data:/data",
            "data:/data:ro",
            "/data:/data",
            "/data:/data:ro,noexec",
        ] {
            assert_eq!(settled(&[("isolation", "vm"), ("volume", volume)]), Ok(()));
        }
        for volume in [
            "/data",
            "data:/data:U",
            "data:/data:z",
            "/data:/data:U",
            "/data:/data:O",
        ] {
            assert!(
                settled(&[("isolation", "vm"), ("volume", volume)]).is_err(),
                "{volume}"
            );
        }
        assert_eq!(
            settled(&[("isolation", "vm"), ("tmpfs", "/x"), ("publish", "80:80")]),
            Ok(())
        );
    }
}
