//! `--isolation`: a container in the kernel of this machine, or in a small virtual machine with a kernel of its own.

use crate::value::parse_size;
use std::str::FromStr;

/// Way in which the guest's instructions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceleration {
    /// By the processor itself.
    Kvm,
    /// By a translator.
    Tcg,
}

/// Type of the machine that QEMU makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineType {
    /// The smallest one, without PCI.
    Microvm,
    /// A whole PC, which every QEMU has.
    Q35,
}

/// Way in which directories of this machine get into a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// By virtiofsd.
    Virtiofs,
    /// By the VMM itself.
    NineP,
}

impl Sharing {
    /// Returns the name, as the option and `inspect` have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Virtiofs => "virtiofs",
            Self::NineP => "9p",
        }
    }
}

/// Virtual machine of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmOptions {
    /// `accel=`; without it whatever works is used.
    pub accel: Option<Acceleration>,
    /// `machine=`; without it the smallest one that the QEMU of this machine has.
    pub machine: Option<MachineType>,
    /// `memory=`: bytes of the machine's memory; without it `--memory` counts.
    pub memory: Option<u64>,
    /// `cpus=`: number of processors; without it `--cpus` counts.
    pub processors: Option<u32>,
    /// `shares=`; without it virtiofs is used where this machine has it.
    pub sharing: Option<Sharing>,
    /// `template=no`: the machine boots, also where it could go on from a template.
    pub boots: bool,
}

/// Why a value of `--isolation` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsolationError {
    /// The value names no technology.
    #[error("invalid isolation: {0}: only default and vm are supported")]
    Unknown(String),
    /// A part of the value is not one of a virtual machine's.
    #[error(
        "invalid isolation: cannot use {0:?}: give vm, or vm=qemu,accel=kvm|tcg,machine=microvm|q35,memory=SIZE,cpus=NUMBER,shares=virtiofs|9p,template=yes|no"
    )]
    Part(String),
}

/// True for a value that asks for a virtual machine.
#[must_use]
pub fn is_vm(value: &str) -> bool {
    let name = value.split(['=', ',']).next().unwrap_or_default();
    name.eq_ignore_ascii_case("vm")
}

impl FromStr for VmOptions {
    type Err = IsolationError;

    /// Parses `vm`, `vm=qemu`, `vm=KEY=VALUE,…` and `vm,KEY=VALUE,…`.
    fn from_str(text: &str) -> Result<Self, IsolationError> {
        if !is_vm(text) {
            return Err(IsolationError::Unknown(text.to_owned()));
        }
        let mut vm = Self::default();
        let parts = text.get(2..).unwrap_or_default().trim_start_matches(['=', ',']);
        for part in parts.split(',').filter(|part| !part.is_empty()) {
            let wrong = || IsolationError::Part(part.to_owned());
            match part.split_once('=').unwrap_or((part, "")) {
                ("qemu", "") => {}
                ("accel", "kvm") => vm.accel = Some(Acceleration::Kvm),
                ("accel", "tcg") => vm.accel = Some(Acceleration::Tcg),
                ("machine", "microvm") => vm.machine = Some(MachineType::Microvm),
                ("machine", "q35") => vm.machine = Some(MachineType::Q35),
                ("memory", size) => vm.memory = Some(parse_size(size).map_err(|_| wrong())?),
                ("cpus", number) => {
                    let number = number.parse().ok().filter(|number| (1..=1024).contains(number));
                    vm.processors = Some(number.ok_or_else(wrong)?);
                }
                ("shares", "virtiofs") => vm.sharing = Some(Sharing::Virtiofs),
                ("shares", "9p") => vm.sharing = Some(Sharing::NineP),
                ("template", "yes") => vm.boots = false,
                ("template", "no") => vm.boots = true,
                _ => return Err(wrong()),
            }
        }
        Ok(vm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines() {
        for text in ["vm", "VM", "vm=qemu", "vm="] {
            assert_eq!(text.parse(), Ok(VmOptions::default()), "{text}");
        }
        let whole = VmOptions {
            accel: Some(Acceleration::Tcg),
            machine: Some(MachineType::Q35),
            memory: Some(256 << 20),
            processors: Some(2),
            sharing: Some(Sharing::NineP),
            boots: true,
        };
        for text in [
            "vm=qemu,accel=tcg,machine=q35,memory=256m,cpus=2,shares=9p,template=no",
            "vm,shares=virtiofs,template=yes,cpus=2,memory=256m,machine=q35,accel=tcg,template=no,shares=9p",
        ] {
            assert_eq!(text.parse(), Ok(whole.clone()), "{text}");
        }
        for text in [
            "hyperv",
            "vmx",
            "vm=xen",
            "vm,accel=hvf",
            "vm,machine=pc",
            "vm,cpus=0",
            "vm,memory=x",
            "vm,qemu=1",
            "vm,shares=nfs",
            "vm,shares",
            "vm,template",
            "vm,template=maybe",
        ] {
            assert!(text.parse::<VmOptions>().is_err(), "{text}");
        }
    }
}
