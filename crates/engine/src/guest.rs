//! The first process of a virtual machine's guest, with what this engine does in there.

use rustix::fd::OwnedFd;
use std::process::ExitCode;
use tote_guest::Errands;

/// Is the first process of a virtual machine until the machine ends. Call it in no other process.
#[must_use]
pub fn guest_init() -> ExitCode {
    tote_guest::init(Errands {
        at_root,
        at_disks: tote_life::changes::answer,
    })
}

/// Does what another part of this engine asks for on the host, with the root of the container.
fn at_root(asked: &[u8], root: OwnedFd) -> Result<(), String> {
    match asked.strip_prefix(tote_debug::LOOK) {
        Some(asked) => tote_debug::look_in_guest(asked, root),
        None => crate::copy::copy_in_guest(asked, root),
    }
}
