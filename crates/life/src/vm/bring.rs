//! Files for the spare disk of a machine.

use super::VmFault;
use super::attend::BRING;
use super::enter::visitor;
use crate::container::Entry;
use crate::exec::{Target, converse_with};
use crate::{EngineError, Home};
use rustix::fd::OwnedFd;
use std::io::Read as _;
use tote_bundle::ExecOptions;

/// Most bytes of an answer that are read.
const LONGEST: u64 = 16 << 20;

/// Brings a file to the spare disk of the container's machine, and has the guest do what `asked` says; returns what that writes.
pub fn bring(home: &Home, entry: &Entry, file: OwnedFd, asked: &[u8]) -> Result<Vec<u8>, EngineError> {
    let target = Target::of(home, entry.clone())?;
    let options = ExecOptions {
        interactive: true,
        ..ExecOptions::default()
    };
    let bytes = [tote_guest::AT_ROOT, asked].concat();
    let mut plan = visitor(&target, (BRING, &bytes), &options)?;
    plan.end_with_parent();
    let mut talk = converse_with(target, plan, file)?;
    let mut output = Vec::new();
    let read = talk.output.by_ref().take(LONGEST).read_to_end(&mut output);
    read.map_err(EngineError::file("read the answer of", entry.container.display()))?;
    match talk.finish()? {
        (0, _) => Ok(output),
        (code, said) => Err(VmFault::Exec(VmFault::said(&said), code).into()),
    }
}
