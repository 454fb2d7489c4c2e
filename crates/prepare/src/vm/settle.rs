//! Options that a virtual machine has no use for: each is refused with its reason, before anything is made.

use super::error::VmFault;
use crate::EngineError;
use crate::container::Container;
use crate::rootfs::Source;
use tote_bundle::{
    CgroupnsMode, Image, IpcMode, MountSource, NetworkMode, PidMode, RunOptions, UsernsMode, UtsMode,
};

/// Reason for what comes with a later version.
const LATER: &str = "not supported yet in virtual machines";

/// Reason for namespaces of the host.
const OTHER_KERNEL: &str = "the host's namespaces are those of another kernel";

/// Checks the options of a container in a virtual machine, and gives it the network that it can have; the options of others stay as
/// they are.
pub fn settle(
    image: &Image,
    options: &mut RunOptions,
    given: &mut Vec<(String, String)>,
) -> Result<(), EngineError> {
    if options.vm.is_none() {
        return Ok(());
    }
    if !matches!(image, Image::Stored(_)) {
        return Err(VmFault::NotStored.into());
    }
    if let Some((option, reason)) = refused(options) {
        return Err(VmFault::Option { option, reason }.into());
    }
    if !given.iter().any(|(option, _)| option == "network") {
        given.push(("network".to_owned(), "none".to_owned()));
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

/// Leaves out what an image has no use for in a virtual machine: its volumes are directories of the disk, which can be written to
/// as everything else.
pub fn adapt(options: &RunOptions, source: &mut Source) {
    if options.vm.is_some() {
        source.forget_volumes();
    }
}

/// Returns the first option that is refused, and why.
fn refused(options: &RunOptions) -> Option<(&'static str, &'static str)> {
    let is_shared = |mount: &tote_bundle::MountRequest| !matches!(mount.source, MountSource::Tmpfs(_));
    let table = [
        (
            options.mounts.iter().any(is_shared) || !options.volumes_from.is_empty(),
            "volumes",
            "not supported yet in virtual machines; --tmpfs is",
        ),
        (!options.secrets.is_empty(), "--secret", LATER),
        (
            options.network != NetworkMode::None,
            "--network",
            "only none is supported yet in virtual machines",
        ),
        (
            !options.published.is_empty() || options.publish_all,
            "--publish",
            LATER,
        ),
        (options.egress.is_some(), "--egress", LATER),
        (options.pid != PidMode::default(), "--pid", OTHER_KERNEL),
        (options.ipc != IpcMode::default(), "--ipc", OTHER_KERNEL),
        (options.uts != UtsMode::default(), "--uts", OTHER_KERNEL),
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
        (options.pod.is_some(), "--pod", LATER),
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
            options.disk_size.is_some(),
            "--disk-size",
            "writes are in the machine's memory, which --memory limits",
        ),
        (
            options.driver.is_some(),
            "--driver",
            "the image is a disk of the machine, and writes are in its memory",
        ),
        (
            !options.writable.is_empty(),
            "--writable",
            "the image is a disk of the machine, and writes are in its memory",
        ),
    ];
    let first = table.into_iter().find(|(is_asked, ..)| *is_asked);
    first.map(|(_, option, reason)| (option, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(all: &[(&str, &str)]) -> Result<(RunOptions, Vec<(String, String)>), String> {
        let mut options = RunOptions::default();
        let mut given = Vec::new();
        for (name, value) in all {
            options.set(name, value).unwrap();
            given.push(((*name).to_owned(), (*value).to_owned()));
        }
        let image = Image::Stored("debian".to_owned());
        settle(&image, &mut options, &mut given).map_err(|error| error.to_string())?;
        Ok((options, given))
    }

    #[test]
    fn each_has_its_reason() {
        for (name, value) in [
            ("volume", "/data:/data"),
            ("network", "host"),
            ("publish", "80:80"),
            ("pid", "host"),
            ("ipc", "host"),
            ("uts", "host"),
            ("userns", "keep-id"),
            ("pod", "p"),
            ("device", "/dev/null"),
            ("privileged", "true"),
            ("preserve-fds", "1"),
            ("disk-size", "1g"),
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
    fn what_a_later_start_is_to_know() {
        let (options, given) = settled(&[("isolation", "vm"), ("tmpfs", "/x")]).unwrap();
        assert!(!options.health.none);
        let has = |name: &str| given.iter().any(|(option, _)| option == name);
        assert!(has("network"), "{given:?}");
        let (options, given) = settled(&[("env", "A=b")]).unwrap();
        assert!(!options.health.none && given.len() == 1);
    }
}
