//! The programs of a machine's sandbox: tote as the attendant, and as one who visits it.

use super::VmFault;
use super::pooled::Pooled;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::path::{Path, PathBuf};
use tote_vmm::{Machine, Member, Qemu, Streams, Verdict};

/// Directory of a machine's files in its sandbox.
const DIRECTORY: &str = "/vm";

/// Name of the program by which this one knows that it is an attendant.
pub(crate) const PROGRAM: &str = "tote-vm";

/// Argument by which the program knows that it is a visitor.
pub(crate) const VISIT: &str = "exec";

/// Argument by which it knows that its input is a file for the machine's spare disk.
pub(crate) const BRING: &str = "bring";

/// Beginning of the names of a visitor's variables, which are the pieces of a plan.
const PIECE: &str = "TOTE_PLAN_";

/// Bytes of a plan in one variable: the kernel allows 128 KiB, of a text that is a third longer.
const PIECE_BYTES: usize = 90_000;

/// Files that the plan of the sandbox writes: paths relative to its root.
pub(crate) const MACHINE: &str = "vm/machine.json";
pub(crate) const MEMBER: &str = "vm/member.json";
pub(crate) const PLAN: &str = "vm/plan";

/// Returns the path of a machine's file in its sandbox.
pub(crate) fn place(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Attends the machine that this sandbox is for, until its end; `warn` gets what the container has to do without.
///
/// # Errors
/// [`VmFault`] if this is another sandbox than a machine's.
pub fn attend(warn: &mut dyn FnMut(String)) -> Result<Verdict, VmFault> {
    let plan = read(PLAN)?;
    let mut streams = Streams::own()?;
    if let Some(member) = member()? {
        streams.visitors = Some(tote_vmm::listen(&member.name)?);
        return Ok(tote_vmm::join(&member, &plan, streams, warn));
    }
    let machine: Machine = serde_json::from_slice(&read(MACHINE)?).map_err(VmFault::Description)?;
    streams.visitors = Some(tote_vmm::listen(tote_vmm::NAME)?);
    let vmm = Qemu::default();
    Ok(match Pooled::own(plan, &machine) {
        Ok(pooled) => tote_vmm::attend_later((&vmm, &machine), Box::new(pooled), streams, warn),
        Err(plan) => tote_vmm::attend(&vmm, &machine, &plan, streams, warn),
    })
}

fn read(path: &str) -> Result<Vec<u8>, VmFault> {
    let path = Path::new("/").join(path);
    std::fs::read(&path).map_err(VmFault::file("read", path))
}

/// Returns what this sandbox is for, if the machine is another container's.
fn member() -> Result<Option<Member>, VmFault> {
    let bytes = match read(MEMBER) {
        Err(VmFault::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        bytes => bytes?,
    };
    // A member that is stopped has a machine of its own, in the same sandbox.
    if bytes.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&bytes).map_err(VmFault::Description)
}

/// Writes a plan as the variables of a visitor.
pub(crate) fn packed(plan: &[u8]) -> Vec<String> {
    let pieces = plan.chunks(PIECE_BYTES).enumerate();
    pieces
        .map(|(at, piece)| format!("{PIECE}{at}={}", STANDARD.encode(piece)))
        .collect()
}

/// Reads the plan of this visitor.
fn unpacked(variable: impl Fn(&str) -> Option<String>) -> Result<Vec<u8>, VmFault> {
    let mut plan = Vec::new();
    let mut at = 0;
    while let Some(piece) = variable(&format!("{PIECE}{at}")) {
        plan.extend(STANDARD.decode(piece).map_err(|_| VmFault::Piece(at))?);
        at += 1;
    }
    Ok(plan)
}

/// Runs another process in the container of this sandbox's machine, until its end; `warn` gets what the process has to do
/// without.
///
/// # Errors
/// [`VmFault`] if this is another process than a visitor.
pub fn visit(warn: &mut dyn FnMut(String)) -> Result<Verdict, VmFault> {
    let plan = unpacked(|name| std::env::var(name).ok())?;
    let name = member()?.map(|member| member.name);
    let streams = Streams::own()?;
    if tote_sys::arguments().get(1).is_some_and(|word| word == BRING) {
        return Ok(tote_vmm::bring(name.as_deref(), &plan, streams, warn));
    }
    let name = name.as_deref().unwrap_or(tote_vmm::NAME);
    Ok(tote_vmm::visit(name, &plan, streams, warn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_passes_through_variables() {
        for length in [0, 1, PIECE_BYTES, PIECE_BYTES + 1] {
            let plan: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let packed = packed(&plan);
            assert!(packed.iter().all(|piece| piece.len() < 128 << 10));
            let find = |name: &str| {
                let value = packed
                    .iter()
                    .find_map(|piece| piece.strip_prefix(name)?.strip_prefix('='));
                value.map(str::to_owned)
            };
            assert_eq!(unpacked(find).unwrap(), plan);
        }
        assert!(unpacked(|name| (name == "TOTE_PLAN_0").then(|| "?".to_owned())).is_err());
    }
}
