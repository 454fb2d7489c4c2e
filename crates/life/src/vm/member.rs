//! Pods in a virtual machine: the machine is the infra container's, and the other members come into it.
//!
//! On this machine a member is a sandbox as well, in the network namespace of the infra container's, whose program attends
//! the member ([`tote_vmm::join`]). In the guest it joins the namespaces of the infra container, and has disks of its own.

use super::VmFault;
use super::attend::place;
use super::guest::Bytes;
use crate::container::{self, Container, Entry};
use crate::peer::Peers;
use crate::pod::Pod;
use crate::volume::Brought;
use crate::{EngineError, Home};
use std::os::fd::OwnedFd;
use tote_bundle::{ContainerId, IpcMode, NetworkMode, PidMode, RunOptions, UtsMode};
use tote_spec::{NamespaceType, Spec};
use tote_vmm::{Disk, Member};

/// Part that a container has in its machine.
#[derive(Debug)]
pub(crate) enum Part {
    /// Only container of its machine.
    Alone,
    /// Stopped container whose machine is for others, whatever its part was before.
    Still,
    /// Keeper of a pod's namespaces, without an image.
    Infra,
    /// Container of a pod.
    Member(Box<Membership>),
}

/// Pod of a member.
#[derive(Debug)]
pub(crate) struct Membership {
    infra: Entry,
    share: Vec<String>,
}

impl Part {
    /// Finds the part of a container with these options.
    pub(crate) fn of(home: &Home, options: &RunOptions) -> Result<Self, EngineError> {
        let Some(pod) = options.pod.as_deref().filter(|_| !options.infra) else {
            return Ok(if options.infra { Self::Infra } else { Self::Alone });
        };
        let pod = pod
            .parse()
            .ok()
            .map(|id| Pod::read(home, &id))
            .transpose()?
            .flatten();
        let infra = pod.as_ref().and_then(Pod::infra_id);
        let (Some(pod), Some(infra)) = (pod, infra) else {
            return Err(VmFault::NoPod.into());
        };
        check(options, infra.as_str())?;
        let infra = container::find(home, infra.as_str())?;
        if !super::is_in_vm(&infra.container) {
            return Err(VmFault::NoPod.into());
        }
        let share = pod.share;
        Ok(Self::Member(Box::new(Membership { infra, share })))
    }

    /// Refuses directories of this machine for a member: the machine has been made without them.
    pub(crate) fn check(&self, brought: &Brought) -> Result<(), VmFault> {
        match self {
            Self::Member(_) if !brought.shares.is_empty() => Err(VmFault::Option {
                option: "a directory of this machine, and --pod,",
                reason: "the machine of a pod gets disks while it runs, and nothing else: give disk:NAME, or --tmpfs",
            }),
            _ => Ok(()),
        }
    }

    /// Returns the release of the kernel: a member has that of its pod, whatever is in use now.
    pub(crate) fn kernel(&self, in_use: String) -> String {
        match self {
            Self::Member(member) => member.infra.state.kernel.clone().unwrap_or(in_use),
            Self::Alone | Self::Still | Self::Infra => in_use,
        }
    }

    /// Finds out what a member has of its pod: host name, what says its network, and the process that has its shared memory.
    pub(crate) fn peers(
        &self,
        home: &Home,
        options: &RunOptions,
    ) -> Result<(Peers, Option<OwnedFd>), EngineError> {
        let Self::Member(_) = self else {
            return Ok(Default::default());
        };
        let mut peers = Peers::find(home, options)?.0;
        let shm = peers.shm();
        // The guest joins namespaces of its own in their place.
        (peers.network, peers.ipc, peers.uts, peers.pid) = (None, None, None, None);
        Ok((peers, shm))
    }

    /// Changes a member's options to those of a container that is alone in its machine.
    pub(crate) fn alone(&self, options: &mut RunOptions, hostname: Option<&str>) {
        let Self::Member(member) = self else { return };
        options.network = NetworkMode::None;
        (options.ipc, options.pid) = (IpcMode::Private, PidMode::Private);
        options.uts = UtsMode::Private;
        if member.shares("uts") {
            options.host.hostname = hostname.map(str::to_owned);
        }
    }

    /// Takes what a member shares out of its specification: its worker in the guest is there already.
    pub(crate) fn leave(&self, spec: &mut Spec) {
        let Self::Member(member) = self else { return };
        let Some(linux) = &mut spec.linux else { return };
        linux.namespaces.retain(|namespace| match namespace.kind {
            NamespaceType::Network => !member.shares("net"),
            NamespaceType::Ipc => !member.shares("ipc"),
            NamespaceType::Uts => !member.shares("uts"),
            _ => true,
        });
        // They are said of the pod.
        linux.sysctl.clear();
        if member.shares("uts") {
            (spec.hostname, spec.domainname) = (None, None);
        }
    }

    /// Puts the description of a member around its plan.
    pub(crate) fn wrapped(&self, id: &ContainerId, disks: &[Disk], plan: Bytes) -> Vec<u8> {
        let Self::Member(member) = self else {
            return plan.plan;
        };
        let disks: Vec<(String, String)> = disks
            .iter()
            .map(|disk| (serial(id, &disk.serial), disk.serial.clone()))
            .collect();
        let shared = member.share.iter().filter(|shared| *shared != "pid");
        let shared: Vec<String> = shared.cloned().collect();
        tote_guest::member(&disks, &shared, (&plan.plan, plan.joins))
    }
}

impl Membership {
    fn shares(&self, namespace: &str) -> bool {
        self.share.iter().any(|shared| shared == namespace)
    }
}

/// Checks that a member joins no other containers than its pod's own.
fn check(options: &RunOptions, infra: &str) -> Result<(), VmFault> {
    let others = [
        (
            "--network",
            !matches!(&options.network, NetworkMode::Container(name) if name == infra),
        ),
        (
            "--ipc",
            matches!(&options.ipc, IpcMode::Container(name) if name != infra),
        ),
        (
            "--uts",
            matches!(&options.uts, UtsMode::Container(name) if name != infra),
        ),
    ];
    match others.into_iter().find(|(_, is_other)| *is_other) {
        None => Ok(()),
        Some((option, _)) => Err(VmFault::Option {
            option,
            reason: "a container of a pod has no other namespaces than its own, and the pod's",
        }),
    }
}

/// Returns the serial number of a member's disk, which no other one of the machine has.
fn serial(id: &ContainerId, name: &str) -> String {
    format!("{}-{name}", id.short())
}

/// Returns the name of the socket on which a member's attendant hears of visitors.
fn name(id: &ContainerId) -> String {
    format!("{}-{}", tote_vmm::NAME, id.short())
}

/// Returns the name of the socket on which the attendant of this container hears of visitors.
pub(crate) fn attendant(container: Option<&Container>) -> String {
    let member = container.filter(|container| is_member(container));
    member.map_or_else(|| tote_vmm::NAME.to_owned(), |container| name(&container.id))
}

/// Returns the serial number that a disk of this container has in its machine.
pub(crate) fn serial_in_machine(container: &Container, name: &str) -> String {
    if is_member(container) {
        serial(&container.id, name)
    } else {
        name.to_owned()
    }
}

fn is_member(container: &Container) -> bool {
    container.pod.is_some() && !container.is_infra()
}

/// Describes a member; its paths are those of the sandbox.
pub(crate) fn describe(id: &ContainerId, disks: &[Disk]) -> Member {
    Member {
        name: name(id),
        disks: disks
            .iter()
            .map(|disk| Disk {
                serial: serial(id, &disk.serial),
                file: place(&disk.serial),
                readonly: disk.readonly,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pods_own_namespaces_are_joined() {
        let mut options = RunOptions::default();
        options.set("network", "container:infra").unwrap();
        options.set("ipc", "container:infra").unwrap();
        assert!(check(&options, "infra").is_ok());
        let refused = check(&options, "other").unwrap_err().to_string();
        assert!(refused.starts_with("cannot use --network with"), "{refused}");
        options.set("ipc", "container:other").unwrap();
        let refused = check(&options, "infra").unwrap_err().to_string();
        assert!(refused.starts_with("cannot use --ipc with"), "{refused}");
    }

    #[test]
    fn names_of_attendants() {
        assert_eq!(attendant(None), "tote-vm");
        let id: ContainerId = "0123456789abcdef".repeat(4).parse().unwrap();
        let mut container = Container::unknown(&id);
        assert_eq!(attendant(Some(&container)), "tote-vm");
        assert_eq!(serial_in_machine(&container, "writes"), "writes");
        container.pod = Some("pod".to_owned());
        assert_eq!(attendant(Some(&container)), "tote-vm-0123456789ab");
        assert_eq!(serial_in_machine(&container, "writes"), "0123456789ab-writes");
        container.options.push(("infra".to_owned(), "true".to_owned()));
        assert_eq!(attendant(Some(&container)), "tote-vm");
    }

    #[test]
    fn serial_numbers_are_no_longer_than_scsi_allows() {
        let id: ContainerId = "0123456789abcdef".repeat(4).parse().unwrap();
        let disk = Disk {
            serial: "volume99".to_owned(),
            file: "/x".into(),
            readonly: true,
        };
        let member = describe(&id, &[disk]);
        assert_eq!(member.disks[0].serial, "0123456789ab-volume99");
        assert!(member.disks[0].serial.len() <= 36);
        assert_eq!(member.name, "tote-vm-0123456789ab");
    }
}
