//! Programs that run virtual machines.

use tote_life::vm::{VMM as PROGRAM, vmm_at};

/// Programs that are looked for beside QEMU, with which machines are run.
const OTHERS: [&str; 2] = ["cloud-hypervisor", "firecracker"];

/// Name of the feature that QEMU is.
const QEMU: &str = "qemu";

/// Says of each program whether this machine has it.
pub(super) fn look() -> impl Iterator<Item = (&'static str, String)> {
    let qemu = match vmm_at(PROGRAM) {
        Some(path) => format!("yes, {}", path.display()),
        None => format!("no: {} is not installed", PROGRAM),
    };
    let others = OTHERS.into_iter().map(|name| {
        let found = match vmm_at(name) {
            Some(path) => format!(
                "{} is there, but tote runs machines with QEMU alone",
                path.display()
            ),
            None => "no: it is not installed, and tote runs machines with QEMU alone".to_owned(),
        };
        (name, found)
    });
    std::iter::once((QEMU, qemu)).chain(others)
}
