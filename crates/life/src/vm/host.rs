//! The host's part: the sandbox of the machine.

use super::VmFault;
use super::attend::{MACHINE, MEMBER, PLAN, PROGRAM, place};
use super::choose::{KVM, accel, board, program};
use super::guest::{Bytes, WRITES, keeps_writes, serial_of};
use super::kernel;
use super::kernel::{Files, files};
use super::member::{self, Part};
use super::shares;
use super::template::{self, Fitting};
use super::user;
use crate::making::{Made, Making, Purpose};
use crate::network::Joined;
use crate::rootfs::{Source, Stored};
use crate::volume::{Brought, VolumeDisk};
use crate::{EngineError, Home, HostInit};
use std::path::Path;
use tote_bundle::{
    Bind, Capability, ContainerId, DeviceRequest, EnvOptions, Image, ImageConfig, MountRequest, MountSource,
    Propagation, Recursion, RunOptions, SecurityOptions, Sharing, Swap, VmOptions,
};
use tote_networks::TUN;
use tote_runtime::Timings;
use tote_vmm::{Accel, Begin, Disk, Link, Machine, Spare};

/// Memory of a machine for which nothing says how much, and the least that boots, in MiB.
pub(crate) const USUAL: u64 = 512;
pub(crate) const LEAST: u64 = 128;

/// Memory that QEMU takes beside that of the guest, with its translations, in bytes.
const OVERHEAD: u64 = 256 << 20;

/// Makes the guest's plan, in its byte form, once its place in networks is known.
pub(crate) type GuestPlan<'a> = &'a dyn Fn(&Joined) -> Result<Bytes, EngineError>;

/// Plans the sandbox, with the guest's plan in it.
pub(crate) fn plan(
    making: &Making<'_>,
    (vm, part, options): (&VmOptions, &Part, &RunOptions),
    (stored, brought, guest): (Option<&Stored>, &Brought, GuestPlan<'_>),
    timings: Option<&mut Timings>,
) -> Result<Made, EngineError> {
    let dry = making.purpose == Purpose::Plan;
    let kernel = files(making.home, dry)?;
    let shared = shares::server(&brought.shares, vm.sharing, kernel.has_nine_p)?;
    let (way, shares) = shared.unzip();
    let user = user::of(making.home.caller, making.id, way)?;
    let disks = disks(making, options, (stored, &brought.disks), user)?;
    let machine = Machine {
        shares,
        ..machine(making.home, (vm, options), &disks, dry)?
    };
    let begins = !vm.boots && !matches!(part, Part::Member(_));
    let links = options.network.attachments().len();
    let template = begins.then(|| template::fitting(making.home, &kernel, (&machine, links)));
    let template = template.transpose()?.flatten();
    let machine = Machine {
        begin: template.as_ref().map_or(Begin::Boot, Fitting::begin),
        ..machine
    };
    let plan = |joined: &Joined| {
        let guest = part.wrapped(making.id, &disks, guest(joined)?);
        described((making.id, part), (&machine, &disks), joined, guest)
    };
    let mut outer = outside(options, user, &kernel, (&machine, &disks));
    if let Some(template) = &template {
        outer.mounts.push(bind(&template.memory, template::MEMORY, true));
        outer.mounts.push(bind(&template.state, template::STATE, true));
    }
    if let Part::Member(_) = part {
        // The machine is another container's.
        outer.mounts.retain(|mount| {
            let is = |name: &str| mount.destination == place(name).display().to_string();
            ![kernel::VMLINUX, kernel::INITRAMFS, kernel::SYSTEM]
                .into_iter()
                .any(is)
        });
        outer.devices.clear();
        (outer.ipc, outer.uts) = Default::default();
    }
    outer.mounts.extend(shares::outside(&brought.shares));
    if way == Some(Sharing::Virtiofs) {
        shares::equip(&mut outer, making.home.caller)?;
    }
    let beneath = Source::open(making.home, &Image::Host)?;
    let init = HostInit::default();
    let sandbox = Making {
        home: making.home,
        id: making.id,
        name: making.name,
        image: &Image::Host,
        config: ImageConfig::bare(),
        environment: &|_| None,
        kept: making.kept,
        roots_files: making.roots_files,
        init: &init,
        first: making.first,
        purpose: making.purpose,
        files: &plan,
    };
    let mut made = sandbox.plan_with(&beneath, &outer, timings)?;
    made.kernel = Some(part.kernel(kernel.release));
    if way == Some(Sharing::NineP) && vm.sharing.is_none() {
        made.plan.warnings.push(shares::NINE_P_INSTEAD.to_owned());
    }
    made.shares = way.map(Sharing::name);
    made.template = template.map(|template| template.id);
    made.beneath = Some(beneath);
    Ok(made)
}

/// Returns the files of the sandbox: the description of the machine or the member, and the guest's plan.
fn described(
    (id, part): (&ContainerId, &Part),
    (machine, disks): (&Machine, &[Disk]),
    joined: &Joined,
    guest: Vec<u8>,
) -> Result<tote_prepare::files::Files, EngineError> {
    let text = |described: Result<Vec<u8>, serde_json::Error>| described.map_err(VmFault::Description);
    if let Part::Member(_) = part {
        let member = text(serde_json::to_vec(&member::describe(id, disks)))?;
        return Ok(vec![(MEMBER, 0o444, member), (PLAN, 0o444, guest)]);
    }
    let machine = Machine {
        links: joined.taps().map(|(tap, mac)| Link { tap, mac }).collect(),
        ..machine.clone()
    };
    let mut files = vec![
        (MACHINE, 0o444, text(serde_json::to_vec(&machine))?),
        (PLAN, 0o444, guest),
    ];
    if let Part::Still = part {
        // A member's sandbox keeps the description that it had.
        files.push((MEMBER, 0o444, Vec::new()));
    }
    Ok(files)
}

/// Returns the disks of the machine, as they are on this one: the image, the container's writes, and its volumes. The machine's user
/// owns those that it writes to, and may read the others, which several machines may have.
fn disks(
    making: &Making<'_>,
    options: &RunOptions,
    (stored, volumes): (Option<&Stored>, &[VolumeDisk]),
    user: Option<u32>,
) -> Result<Vec<Disk>, EngineError> {
    let (home, dry) = (making.home, making.purpose == Purpose::Plan);
    let mut disks = Vec::new();
    if let Some(stored) = stored {
        disks.push(Disk {
            serial: tote_guest::IMAGE_DISK.to_owned(),
            file: if dry {
                stored.disk_path()
            } else {
                stored.disk(home)?
            },
            readonly: true,
        });
    }
    if keeps_writes(options) {
        let dir = home.container(making.id);
        let file = if dry {
            dir
        } else {
            crate::volume::writes(home, making.id, options)?
        };
        disks.push(Disk {
            serial: WRITES.to_owned(),
            file,
            readonly: false,
        });
    }
    disks.extend(volumes.iter().enumerate().map(|(place, volume)| Disk {
        serial: serial_of(place),
        file: volume.file.clone(),
        readonly: volume.readonly,
    }));
    if let Some(user) = user.filter(|_| !dry) {
        let mut own = disks.iter().filter(|disk| disk.serial != tote_guest::IMAGE_DISK);
        own.try_for_each(|disk| user::admit(disk, user))?;
    }
    Ok(disks)
}

/// Describes the machine; its paths are those of the sandbox.
pub(crate) fn machine(
    home: &Home,
    (vm, options): (&VmOptions, &RunOptions),
    disks: &[Disk],
    dry: bool,
) -> Result<Machine, EngineError> {
    let asked = vm.memory.unwrap_or(options.memory);
    let memory = if asked == 0 {
        USUAL
    } else {
        asked.div_ceil(1 << 20)
    };
    if memory < LEAST {
        return Err(VmFault::Memory {
            given: memory,
            least: LEAST,
        }
        .into());
    }
    let limit = options.nano_cpus.div_ceil(1_000_000_000);
    let processors = vm
        .processors
        .or(u32::try_from(limit).ok())
        .filter(|number| *number > 0);
    let program = program()?;
    Ok(Machine {
        accel: accel(vm, tote_sys::try_kvm)?,
        board: board(home, vm, &program, dry)?,
        grows: options.infra,
        program,
        memory,
        processors: processors.unwrap_or(1),
        kernel: place(kernel::VMLINUX),
        initramfs: place(kernel::INITRAMFS),
        system: kernel::system(place(kernel::SYSTEM)),
        disks: disks
            .iter()
            .map(|disk| Disk {
                file: place(&disk.serial),
                ..disk.clone()
            })
            .collect(),
        spare: Some(Spare {
            serial: tote_guest::TOOLS_DISK.to_owned(),
            order: String::from_utf8_lossy(tote_guest::SWAP).into_owned(),
        }),
        links: Vec::new(),
        shares: None,
        port: tote_guest::PORT.to_owned(),
        begin: Begin::Boot,
    })
}

/// Mounts a file of this machine in the sandbox.
fn bind(source: &Path, name: &str, readonly: bool) -> MountRequest {
    MountRequest {
        destination: place(name).display().to_string(),
        source: MountSource::Bind(Bind {
            path: source.display().to_string(),
            propagation: Propagation::default(),
            recursion: Recursion::default(),
            create: false,
            relabel: None,
        }),
        readonly,
        restrictions: Default::default(),
        treatment: Default::default(),
    }
}

/// Options of the sandbox: those of the container that concern this machine, and nothing to do for an intruder.
fn outside(
    options: &RunOptions,
    user: Option<u32>,
    files: &Files,
    (machine, disks): (&Machine, &[Disk]),
) -> RunOptions {
    RunOptions {
        command: vec![place(PROGRAM).display().to_string()],
        entrypoint: None,
        env: EnvOptions::default(),
        workdir: None,
        // A user's sandbox has a user namespace, in which root is that user outside.
        user: user.map(|user| format!("{user}:{user}")),
        group_add: Vec::new(),
        mounts: vec![
            bind(&files.program, PROGRAM, true),
            bind(&files.vmlinux, kernel::VMLINUX, true),
            bind(&files.initramfs, kernel::INITRAMFS, true),
            bind(&files.system, kernel::SYSTEM, true),
        ]
        .into_iter()
        .chain(
            disks
                .iter()
                .map(|disk| bind(&disk.file, &disk.serial, disk.readonly)),
        )
        .collect(),
        read_only: true,
        driver: None,
        cap_add: Vec::new(),
        cap_drop: vec![Capability::All],
        security: SecurityOptions {
            no_new_privileges: true,
            ..SecurityOptions::default()
        },
        ulimits: Default::default(),
        sysctls: Default::default(),
        shm_size: None,
        devices: nodes(options, machine),
        memory: if options.memory == 0 {
            0
        } else {
            (machine.memory << 20) + OVERHEAD
        },
        memory_swap: Swap::default(),
        memory_reservation: 0,
        disk_size: None,
        tmpfs_size: None,
        init: false,
        umask: None,
        timezone: None,
        infra: false,
        ..options.clone()
    }
}

/// Returns the nodes that QEMU opens: the one of taps, and the one by which the processor executes the guest.
fn nodes(options: &RunOptions, machine: &Machine) -> Vec<DeviceRequest> {
    let tun = (!options.network.attachments().is_empty()).then_some(TUN);
    let kvm = (machine.accel == Accel::Kvm).then_some(KVM);
    let request = |path: &str| DeviceRequest {
        source: path.to_owned(),
        destination: path.to_owned(),
        access: "rwm".to_owned(),
    };
    tun.into_iter().chain(kvm).map(request).collect()
}
