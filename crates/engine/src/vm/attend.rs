//! The program of a machine's sandbox: tote as the attendant.

use super::VmFault;
use std::path::{Path, PathBuf};
use tote_vmm::{Machine, Qemu, Streams, Verdict};

/// Directory of a machine's files in its sandbox.
const DIRECTORY: &str = "/vm";

/// Name of the program by which this one knows that it is an attendant.
pub(super) const PROGRAM: &str = "tote-vm";

/// Files that the plan of the sandbox writes: paths relative to its root.
pub(super) const MACHINE: &str = "vm/machine.json";
pub(super) const PLAN: &str = "vm/plan";

/// Returns the path of a machine's file in its sandbox.
pub(super) fn place(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Attends the machine that this sandbox is for, until its end; `warn` gets what the container has to do without.
///
/// # Errors
/// [`VmFault`] if this is no sandbox of a machine.
pub fn attend(warn: &mut dyn FnMut(String)) -> Result<Verdict, VmFault> {
    let root = Path::new("/");
    let read = |path: &str| {
        let path = root.join(path);
        std::fs::read(&path).map_err(VmFault::file("read", path))
    };
    let machine: Machine = serde_json::from_slice(&read(MACHINE)?).map_err(VmFault::Description)?;
    let plan = read(PLAN)?;
    let streams = Streams::own()?;
    Ok(tote_vmm::attend(&Qemu, &machine, &plan, streams, warn))
}
