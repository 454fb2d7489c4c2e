//! `--isolation vm`: a container in a small virtual machine.
//!
//! A plan has two parts then. The guest's is the plan of the container itself, as if tote ran in the guest: it travels in its
//! byte form. The host's is the plan of a sandbox from the `host` image, without rights and network, whose program is tote as
//! the attendant of the machine (`vmm`). So everything that the engine does with a container, from its record to its end, it does with
//! that sandbox, with one monitor and one clean-up: the machine lives in the container's PID namespace and cgroup.
//!
//! ```text
//! options ─┬─► guest.rs: spec ─► plan ─► bytes ──┐ /vm/plan
//!          └─► host.rs: options of the sandbox ──┴─► plan ─► attendant ─► QEMU ─► guest
//! ```

mod ask;
mod attend;
mod bring;
mod bundled;
mod choose;
mod copying;
mod disks;
mod enter;
mod guest;
mod host;
mod kernel;
mod member;
mod pooled;
mod processes;
mod shares;
mod still;
mod template;
mod user;

pub use attend::{attend, visit};
pub use bring::bring;
pub use bundled::{ANNOTATION, Bundled, bundled, bundled_process, is_bundled};
pub use choose::vmm_at;
pub use copying::copying;
pub(crate) use disks::{at_disks, at_disks_of_still};
pub use enter::{attend_here, enter, enter_with_tools, sandbox_of, users};
pub use kernel::{VmKernel, VmSource, setup};
pub use processes::{GuestProcesses, processes};
pub use still::StillMachine;
pub use template::{
    VmTemplate, VmTemplateRow, create as create_template, list as templates, prune as prune_templates,
    remove as remove_template,
};
pub use tote_guest::{CONTAINERS, SUPERBLOCK, SUPERBLOCK_AT, TOOLS};
pub use tote_prepare::vm::VmFault;
pub use tote_prepare::vm::{adapt, check_alone, check_here, is_in_vm, settle};
pub(crate) use tote_vmm::KILL_IN_GUEST;
pub use tote_vmm::PROGRAM as VMM;

use crate::EngineError;
use crate::making::{Made, Making, Purpose};
use crate::network::Joined;
use crate::rootfs::Source;
use member::Part;
use std::cell::Cell;
use tote_bundle::RunOptions;
use tote_runtime::Timings;

/// Plans a container, in a virtual machine if its options say so.
pub fn plan(
    making: &Making<'_>,
    source: &Source,
    options: &mut RunOptions,
    timings: Option<&mut Timings>,
) -> Result<Made, EngineError> {
    let Some(vm) = options.vm.clone() else {
        return making.plan(source, options, timings);
    };
    let part = Part::of(making.home, options)?;
    let stored = match source {
        _ if options.infra => None,
        Source::Stored(stored) => Some(&**stored),
        _ => return Err(VmFault::NotStored.into()),
    };
    let dry = making.purpose == Purpose::Plan;
    let brought = crate::volume::brought(making.home, options, dry)?;
    part.check(&brought)?;
    let mut made = making.plan_by(options, timings, |options, timings| {
        let planned = Cell::new(None);
        let guest = |joined: &Joined| {
            let made = guest::plan(making, source, options, (&part, &brought, joined))?;
            let bytes = made.bytes.clone();
            planned.set(Some(made));
            Ok(bytes)
        };
        let mut made = host::plan(making, (&vm, &part, options), (stored, &brought, &guest), timings)?;
        if let Some(planned) = planned.take() {
            made.plan.warnings.extend(planned.warnings);
            made.spec = planned.spec;
        }
        Ok(made)
    })?;
    made.volumes.join(brought.hold);
    Ok(made)
}
