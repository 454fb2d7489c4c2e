//! The host's part: the sandbox of the machine.

use super::VmFault;
use super::attend::{MACHINE, PLAN, PROGRAM, place};
use super::kernel;
use super::kernel::{Files, files};
use crate::making::{Made, Making, Purpose};
use crate::rootfs::{Source, Stored};
use crate::{Caller, EngineError, HostInit};
use std::path::{Path, PathBuf};
use tote_bundle::{
    Acceleration, Bind, Capability, EnvOptions, Image, ImageConfig, MountRequest, MountSource, NetworkMode,
    Propagation, Recursion, RunOptions, SecurityOptions, Swap, VmOptions,
};
use tote_runtime::Timings;
use tote_vmm::{Accel, Machine};

/// Memory of a machine for which nothing says how much, and the least that boots, in MiB.
const USUAL: u64 = 512;
const LEAST: u64 = 128;

/// Memory that QEMU takes beside that of the guest, with its translations, in bytes.
const OVERHEAD: u64 = 256 << 20;

/// Directories of the host's that have the VMM.
const DIRECTORIES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/usr/libexec"];

/// User without rights that root's machines belong to.
pub(crate) const NOBODY: u32 = 65_534;

/// Plans the sandbox, with the guest's plan in it.
pub(crate) fn plan(
    making: &Making<'_>,
    (vm, options): (&VmOptions, &RunOptions),
    stored: &Stored,
    plan: &[u8],
    timings: Option<&mut Timings>,
) -> Result<Made, EngineError> {
    let machine = machine(vm, options)?;
    let dry = making.purpose == Purpose::Plan;
    let kernel = files(making.home, dry)?;
    let disk = if dry {
        stored.disk_path()
    } else {
        stored.disk(making.home)?
    };
    let description = serde_json::to_vec(&machine).map_err(VmFault::Description)?;
    let outer = outside(options, machine.memory, making.home.caller, &kernel, &disk);
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
        init: &init,
        purpose: making.purpose,
        files: vec![(MACHINE, 0o444, description), (PLAN, 0o444, plan.to_vec())],
    };
    let mut made = sandbox.plan_with(&beneath, &outer, timings)?;
    made.kernel = Some(kernel.release);
    made.beneath = Some(beneath);
    Ok(made)
}

/// Describes the machine; its paths are those of the sandbox.
fn machine(vm: &VmOptions, options: &RunOptions) -> Result<Machine, EngineError> {
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
    let accel = match vm.accel {
        Some(Acceleration::Kvm) => {
            let reason = match tote_sys::try_kvm() {
                Ok(()) => "virtual machines of tote do not use it yet".to_owned(),
                Err(fault) => fault.to_string(),
            };
            return Err(VmFault::NoKvm(reason).into());
        }
        _ => Accel::Tcg,
    };
    Ok(Machine {
        program: program()?,
        accel,
        memory,
        processors: processors.unwrap_or(1),
        kernel: place(kernel::VMLINUX),
        initramfs: place(kernel::INITRAMFS),
        disk: place(kernel::DISK),
        port: tote_guest::PORT.to_owned(),
    })
}

/// Finds QEMU on the host, at a path that the sandbox has as well.
fn program() -> Result<PathBuf, EngineError> {
    for directory in DIRECTORIES {
        let path = Path::new(directory).join(tote_vmm::PROGRAM);
        if tote_state::record::is_there(&path)? {
            return Ok(path);
        }
    }
    Err(VmFault::NoVmm(tote_vmm::PROGRAM).into())
}

/// Options of the sandbox: those of the container that concern this machine, and nothing to do for an intruder.
fn outside(options: &RunOptions, memory: u64, caller: Caller, files: &Files, disk: &Path) -> RunOptions {
    let bind = |source: &Path, name: &str| MountRequest {
        destination: place(name).display().to_string(),
        source: MountSource::Bind(Bind {
            path: source.display().to_string(),
            propagation: Propagation::default(),
            recursion: Recursion::default(),
            create: false,
            relabel: None,
        }),
        readonly: true,
        restrictions: Default::default(),
        treatment: Default::default(),
    };
    RunOptions {
        command: vec![place(PROGRAM).display().to_string()],
        entrypoint: None,
        env: EnvOptions::default(),
        workdir: None,
        // A user's sandbox has a user namespace, in which root is that user outside.
        user: (caller != Caller::User).then(|| format!("{NOBODY}:{NOBODY}")),
        group_add: Vec::new(),
        mounts: vec![
            bind(&files.program, PROGRAM),
            bind(&files.vmlinux, kernel::VMLINUX),
            bind(&files.initramfs, kernel::INITRAMFS),
            bind(disk, kernel::DISK),
        ],
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
        network: NetworkMode::None,
        memory: if options.memory == 0 {
            0
        } else {
            (memory << 20) + OVERHEAD
        },
        memory_swap: Swap::default(),
        memory_reservation: 0,
        init: false,
        umask: None,
        timezone: None,
        vm: None,
        ..options.clone()
    }
}
