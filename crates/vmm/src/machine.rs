//! Description of a machine.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Way in which the guest's instructions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// By the processor, through `/dev/kvm`.
    Kvm,
    /// By QEMU's translator, in a process without any right.
    Tcg,
}

impl Accel {
    /// Returns the name, as QEMU has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// Type of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Board {
    /// The smallest one: devices of virtio are in memory, without PCI.
    Microvm,
    /// A PC with PCI, for a QEMU that was built without the other.
    Q35,
}

impl Board {
    /// Returns the name, as QEMU has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Microvm => "microvm",
            Self::Q35 => "q35",
        }
    }

    /// Returns the end of the names of QEMU's virtio devices on this board.
    pub(crate) fn bus(self) -> &'static str {
        match self {
            Self::Microvm => "device",
            Self::Q35 => "pci",
        }
    }
}

/// Disk of a machine: a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Serial number: letters and digits, 20 at most.
    pub serial: String,
    /// The file.
    pub file: PathBuf,
    /// True if the guest cannot write to it.
    pub readonly: bool,
}

/// Network device of a machine, whose other side is a tap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name of the tap.
    pub tap: String,
    /// Hardware address that the guest has.
    pub mac: String,
}

/// Directories of the host that the guest sees, each by its name in one directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// Program that serves them by virtiofs; without one the VMM does so itself, by 9p, with the rights that it has.
    pub server: Option<PathBuf>,
    /// The directory with all of them.
    pub directory: PathBuf,
    /// Name by which the guest finds them.
    pub tag: String,
}

/// Disk that is empty at first, and has a file of a visitor's later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spare {
    /// Serial number.
    pub serial: String,
    /// Bytes before what the guest is to do, if it has to hold the disk for an exchange of its content before.
    pub order: String,
}

/// Number of disks and of network devices of a machine that is saved. A machine that goes on from it may have fewer: the others are placeholders
/// then, which the guest leaves alone. Each of them has the first disk, and the guest keeps it. These numbers do not count the spare disk: it is
/// empty when a guest is saved and when one goes on, so all of them have the same one, at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Number of disks, without the spare one.
    pub disks: u8,
    /// Number of network devices.
    pub links: u8,
}

/// Machine that was saved, or is to be: its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// File that is its memory.
    pub memory: PathBuf,
    /// File with the state of its devices.
    pub state: PathBuf,
    /// Its devices.
    pub layout: Layout,
}

/// Way in which a machine begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Begin {
    /// Its kernel boots.
    #[default]
    Boot,
    /// Its kernel boots, and the machine is saved when its guest is ready.
    Save {
        /// The files.
        template: Template,
        /// Word of the kernel's command line by which its first process knows.
        word: String,
        /// Serial number of the first disk.
        first: String,
    },
    /// The machine goes on from a template.
    Resume(Template),
}

impl Begin {
    /// Returns the files of a machine that is to be saved, or was.
    #[must_use]
    pub fn template(&self) -> Option<&Template> {
        match self {
            Self::Boot => None,
            Self::Save { template, .. } | Self::Resume(template) => Some(template),
        }
    }
}

/// A machine that runs one container, or those of a pod. Its paths are those of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Program of the VMM.
    pub program: PathBuf,
    /// Way in which it executes instructions.
    pub accel: Accel,
    /// Type of the machine.
    pub board: Board,
    /// True if disks come and go while it runs.
    pub grows: bool,
    /// Memory in MiB.
    pub memory: u64,
    /// Number of processors.
    pub processors: u32,
    /// The kernel, an ELF file.
    pub kernel: PathBuf,
    /// Its initramfs.
    pub initramfs: PathBuf,
    /// Disk with the program that the guest goes on with.
    pub system: Disk,
    /// Further disks, each with a serial number by which the guest finds it.
    pub disks: Vec<Disk>,
    /// Disk for files of visitors.
    pub spare: Option<Spare>,
    /// Network devices.
    pub links: Vec<Link>,
    /// Directories of the host.
    pub shares: Option<Shares>,
    /// Name of the serial port that is the channel.
    pub port: String,
    /// Way in which it begins.
    pub begin: Begin,
}
