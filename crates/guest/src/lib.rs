//! The first process of a virtual machine: it loads modules, mounts the disk, and performs the plans that come over the
//! channel with the same code as a host does.
//!
//! ```text
//! process 1 (agent)         worker, one for each process           container
//! ─────────────────         ─────────────────────────────          ─────────
//! channel ◄──► pipes ─────────────────────────────────────────►  0, 1, 2
//!   plan ─────────────────► Plan::from_bytes, runtime::run ─────►  birth, program
//!         ◄── reports ───── born, runs, warnings, how it ended
//! ```
//! A worker does for its container what `tote run` does on a host: it is the container's parent, runs the errands, and tells
//! how it ended. The agent only passes bytes and signals on, so no container holds up another.
//!
//! Invariants:
//!
//! - Containers have one implementation: births are `runtime`'s.
//! - The agent keeps no more than the windows of the channel allow.
//! - The machine ends when the host says so, when the host is gone, or when process 1 fails; nothing in it is kept.
//!
//! Not in this crate: how the plan was made, and what the host does with the output.

mod agent;
mod disks;
mod error;
mod machine;
mod member;
mod port;
mod processes;
mod report;
mod session;
mod spare;
mod template;
mod terminal;
mod tools;
mod waiting;
mod worker;

pub use disks::{AT_DISKS, Disks, DisksFn, at_disks};
pub use machine::{
    CONTAINERS, DISKS, IMAGE, IMAGE_DISK, NINE_P, PCI, PORT, SHARES, SHARES_TAG, VIRTIO_SCSI, VIRTIOFS,
};
pub use member::member;
pub use processes::{PROCESSES, parse_listing};
pub use template::TEMPLATE;
pub use tools::{SUPERBLOCK, SUPERBLOCK_AT, SWAP, TOOLS, TOOLS_DISK, WITH_TOOLS};
pub use waiting::waiting;
pub use worker::{AT_ROOT, Errands, RootFn};

use std::os::fd::AsFd as _;
use std::process::ExitCode;
use tote_sys::best_effort;

/// Is the first process of a virtual machine until the machine ends; `errands` are done in the place of plans. Call it in
/// no other process.
#[must_use]
pub fn init(errands: Errands) -> ExitCode {
    if let Err(error) = serve(errands) {
        let text = format!("tote: the guest cannot go on: {}\n", tote_sys::chain(&error));
        // The console is the only place for it.
        best_effort(rustix::io::write(
            rustix::stdio::stderr().as_fd(),
            text.as_bytes(),
        ));
    }
    // The host takes a restart for the end.
    best_effort(rustix::system::reboot(rustix::system::RebootCommand::Restart));
    ExitCode::FAILURE
}

fn serve(errands: Errands) -> Result<(), error::GuestError> {
    let machine = machine::Machine::prepare()?;
    let spare = if template::is_asked() {
        Some(template::sleep(&machine.port, errands)?)
    } else {
        None
    };
    machine.mount(spare.is_some())?;
    agent::serve((machine.port, spare), errands)
}
