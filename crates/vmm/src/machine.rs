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

/// A machine that runs one container. Its paths are those of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Program of the VMM.
    pub program: PathBuf,
    /// Way in which it executes instructions.
    pub accel: Accel,
    /// Memory in MiB.
    pub memory: u64,
    /// Number of processors.
    pub processors: u32,
    /// The kernel, an ELF file.
    pub kernel: PathBuf,
    /// Its initramfs.
    pub initramfs: PathBuf,
    /// Disk with the image, read-only.
    pub disk: PathBuf,
    /// Name of the serial port that is the channel.
    pub port: String,
}
