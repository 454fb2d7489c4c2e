//! `--isolation vm`: a container in a small virtual machine.
//!
//! A plan has two parts then. The guest's is the plan of the container itself, as if tote ran in the guest: it travels in its
//! byte form. The host's is the plan of a sandbox from the `host` image, without rights and network, whose program is tote as
//! the attendant of the machine (`vmm`). So everything that the engine does with a container, from its record to its end, it does with
//! that sandbox, and there is no second monitor and no second clean-up: the machine lives in the container's PID namespace and
//! cgroup.
//!
//! ```text
//! options ─┬─► guest.rs: spec ─► plan ─► bytes ──┐ /vm/plan
//!          └─► host.rs: options of the sandbox ──┴─► plan ─► attendant ─► QEMU ─► guest
//! ```

mod attend;
mod error;
mod guest;
mod host;
mod kernel;
mod settle;

pub use attend::attend;
pub use error::VmFault;
pub use kernel::{VmKernel, VmSource, setup};
pub(crate) use settle::settle;
pub use tote_guest::init as guest_init;

use crate::EngineError;
use crate::container::Container;
use crate::making::{Made, Making};
use crate::rootfs::Source;
use tote_bundle::{RunOptions, VmOptions};
use tote_runtime::Timings;

/// Refuses an attempt to reach into a container that is in a virtual machine.
pub(crate) fn check_here(container: &Container, attempt: &'static str) -> Result<(), EngineError> {
    let isolation = container.options.iter().rfind(|(name, _)| name == "isolation");
    if isolation.is_some_and(|(_, value)| tote_bundle::is_vm(value)) {
        let container = container.display().to_owned();
        return Err(VmFault::Apart { attempt, container }.into());
    }
    Ok(())
}

/// Leaves out what an image has no use for in a virtual machine: its volumes are directories of the disk, which can be written to
/// as everything else, and a check of its health would be a process that joins the container.
pub(crate) fn adapt(options: &RunOptions, source: &mut Source) {
    if options.vm.is_some() {
        source.forget_volumes();
    }
}

/// Plans a container in a virtual machine.
pub(crate) fn plan(
    making: &Making<'_>,
    vm: &VmOptions,
    source: &Source,
    options: &RunOptions,
    timings: Option<&mut Timings>,
) -> Result<Made, EngineError> {
    let Source::Stored(stored) = source else {
        return Err(VmFault::NotStored.into());
    };
    let planned = guest::plan(making, source, options)?;
    let mut made = host::plan(making, (vm, options), stored, &planned.bytes, timings)?;
    made.plan.warnings.extend(planned.warnings);
    made.spec = planned.spec;
    Ok(made)
}
