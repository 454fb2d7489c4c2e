//! Work of a guest with the disks of a container: of one that runs, beside it, and of one that is stopped, in a machine of its own.

use super::VmFault;
use super::enter::way;
use super::guest::{Bytes, WRITES};
use super::host;
use super::member::{Part, serial_in_machine};
use crate::container::{Container, Entry};
use crate::exec::{Conversation, Target, converse_apart, converse_as, refuse_paused};
use crate::making::{Making, Purpose, no_files};
use crate::network::Joined;
use crate::rootfs::Source;
use crate::volume::Brought;
use crate::{EngineError, Home, HostInit};
use std::io::Write as _;
use tote_bundle::{CgroupsMode, RunOptions, VmOptions};
use tote_runtime::{Creation, Witness};
use tote_sys::{Child, best_effort};
use tote_vmm::Streams;

/// Has the guest of a container that runs do what is asked for with the container's disks; with `holds`, its writes wait meanwhile.
pub(crate) fn at_disks(
    home: &Home,
    entry: &Entry,
    holds: bool,
    asked: &[u8],
) -> Result<Conversation, EngineError> {
    let target = Target::of(home, entry.clone())?;
    refuse_paused(&target)?;
    let serials = [tote_guest::IMAGE_DISK, WRITES].map(|name| serial_in_machine(&entry.container, name));
    let order = tote_guest::at_disks((&serials[0], &serials[1]), holds, asked);
    let (socket, name) = way(&target)?;
    converse_apart(move || {
        let verdict = Streams::own().map(|streams| {
            // The guest has nothing to warn of.
            tote_vmm::visit_by((socket, &name), &order, streams, &mut |_| {})
        });
        let (code, message) = match verdict {
            Ok(verdict) => (verdict.code, verdict.message),
            Err(error) => (125, Some(tote_sys::chain(&error))),
        };
        // A reader that has gone needs no reason.
        best_effort(std::io::stderr().write_all(message.unwrap_or_default().as_bytes()));
        code
    })
}

/// Boots a machine with the disks of a stopped container, and without its program, network and volumes, which does what is asked for
/// and ends.
pub(crate) fn at_disks_of_still(
    home: &Home,
    entry: &Entry,
    asked: &[u8],
) -> Result<Conversation, EngineError> {
    let container = &entry.container;
    let order = tote_guest::at_disks((tote_guest::IMAGE_DISK, WRITES), false, asked);
    let source = Source::open(home, &container.source()?)?;
    let options = options(container)?;
    let mut prepared = {
        let Source::Stored(stored) = &source else {
            return Err(VmFault::NotStored.into());
        };
        let init = HostInit::default();
        let making = Making {
            home,
            id: &container.id,
            name: &container.name,
            image: &container.source()?,
            config: source.config(),
            environment: &|_| None,
            kept: true,
            init: &init,
            purpose: Purpose::Later,
            files: &no_files,
        };
        let guest = |_: &Joined| {
            Ok(Bytes {
                plan: order.clone(),
                joins: false,
            })
        };
        let vm = options.vm.clone().unwrap_or_default();
        let brought = Brought::default();
        let made = host::plan(
            &making,
            (&vm, &Part::Alone, &options),
            (Some(&**stored), &brought, &guest),
            None,
        )?;
        made.prepared((container.clone(), true), options, source, init)
    };
    let maps = prepared.ids.maps.take();
    converse_as(&mut prepared.plan, |plan| {
        let maps = maps.as_ref().filter(|_| plan.user_namespace.is_none());
        born(Creation {
            plan,
            cgroup: None,
            maps,
            network: None,
        })
    })
}

/// Returns the options of the machine: those without which it would be another one, and no limits, since it is this command's.
fn options(container: &Container) -> Result<RunOptions, EngineError> {
    let own = container.run_options()?;
    let vm = own.vm.map(|vm| VmOptions {
        memory: None,
        processors: None,
        ..vm
    });
    Ok(RunOptions {
        vm,
        disk_size: own.disk_size,
        cgroups: CgroupsMode::Disabled,
        ..RunOptions::default()
    })
}

fn born(creation: Creation<'_>) -> Result<Child, EngineError> {
    let witness = Witness {
        record: &mut |_, _| Ok(()),
        network: &mut |_| Ok(()),
        hooks: &mut || Ok(()),
        root: &mut |_| Ok(()),
        console: &mut |_| Ok(()),
        listener: &mut |_| Ok(()),
        warn: &mut |_| {},
        stays: &mut || {},
    };
    Ok(tote_runtime::create(creation, witness)?.child)
}
