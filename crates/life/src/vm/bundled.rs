//! Bundles of other engines in machines: what `tote oci` makes a container of is then the sandbox of a machine.
//!
//! The bundle's specification is the guest's, and its root and binds are directories that the guest shares. The specification of
//! the sandbox keeps what concerns this machine: namespaces, cgroup, hooks and terminal. So `create`, `start`, `state`, `kill`
//! and `delete` need not know of machines: the attendant is the container's process, and passes signals on.
//!
//! ```text
//! BUNDLE/tote-vm/machine.json, plan, guest.json, user, shares/N  /vm in the sandbox
//! STATE/vm/sandbox/                                             its root: empty directories, for /usr and the rest
//! ```

use super::VmFault;
use super::attend::{MACHINE, PLAN, PROGRAM, place};
use super::choose::{accel, board, program};
use super::enter::{planned, sandbox};
use super::guest::facts;
use super::host::{LEAST, USUAL};
use super::{kernel, shares, user};
use crate::{Caller, EngineError, Home};
use rustix::fs::{Mode, OFlags};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use tote_bundle::{RunOptions, Sharing, VmOptions};
use tote_sandbox::{Joins, Request, Root, Stdin};
use tote_spec::{Capabilities, DeviceRule, Linux, Mount, NamespaceType, Process, Spec, User};
use tote_vmm::{Accel, Begin, Machine};

/// Annotation that asks for a machine: the values are those of `--isolation`.
pub const ANNOTATION: &str = "tote.isolation";

/// Directory of the machine's files, in the bundle.
const OWN: &str = "tote-vm";

/// Specification of the guest's container, for later processes.
const GUEST: &str = "guest.json";

/// User of the machine, for later processes.
const USER: &str = "user";

/// Directories of the sandbox's root.
const DIRECTORIES: [&str; 6] = ["usr", "proc", "sys", "dev", "tmp", "vm"];

/// Names of the host's root that are links into `/usr`, or directories.
const LINKS: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// Bundle, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Bundled<'a> {
    /// Its directory.
    pub dir: &'a Path,
    /// Its root.
    pub rootfs: &'a Path,
    /// Its specification, with a process that is whole.
    pub spec: &'a Spec,
}

/// Makes the sandbox of a machine for a bundle that asks for one, or for each one if `by_name`; returns its specification and its
/// root. `None` for another bundle.
///
/// # Errors
/// [`VmFault`] if the bundle cannot be in a machine.
pub fn bundled(
    home: &Home,
    bundle: Bundled<'_>,
    by_name: bool,
) -> Result<Option<(Spec, PathBuf)>, EngineError> {
    let asked = bundle.spec.annotations.get(ANNOTATION);
    let mut options = RunOptions::default();
    match asked.filter(|value| tote_bundle::is_vm(value)) {
        Some(value) => options.set("isolation", value)?,
        None if by_name => {}
        None => return Ok(None),
    }
    let vm = options.vm.unwrap_or_default();
    if home.caller != Caller::Root {
        return Err(VmFault::Option {
            option: "tote oci of a user",
            reason: "the directories of a bundle belong to ids that only root's machines have",
        }
        .into());
    }
    if let Some((option, reason)) = refused(&vm, bundle.spec) {
        return Err(VmFault::Option { option, reason }.into());
    }
    let files = kernel::files(home, false)?;
    let own = bundle.dir.join(OWN);
    if tote_state::record::is_there(&own)? {
        tote_sys::remove_tree(&own).map_err(VmFault::file("remove", &own))?;
    }
    make(&own)?;
    let (guest, binds) = guest(bundle, &own)?;
    let machine = machine(home, &vm, bundle.spec)?;
    let bytes = plan(&guest)?;
    let write = |name: &str, bytes: &[u8]| write(&own.join(name), bytes);
    let file = |path: &'static str| path.rsplit('/').next().unwrap_or(path);
    write(file(PLAN), &bytes)?;
    write(
        file(MACHINE),
        &serde_json::to_vec(&machine).map_err(VmFault::Description)?,
    )?;
    let id = user::new(home.caller)?.unwrap_or_default();
    write(USER, id.to_string().as_bytes())?;
    write(GUEST, &serde_json::to_vec(&guest).map_err(VmFault::Description)?)?;
    let mut mounts = binds;
    for (source, name) in [
        (&files.program, PROGRAM),
        (&files.vmlinux, kernel::VMLINUX),
        (&files.initramfs, kernel::INITRAMFS),
        (&files.system, kernel::SYSTEM),
    ] {
        write(name, b"")?;
        mounts.push(bind(source, &place(name), &["bind", "ro"]));
    }
    let root = skeleton(home, &mut mounts)?;
    let own = bind(&own, Path::new("/vm"), &["bind", "ro"]);
    // The mounts below this one come after it.
    mounts.insert(0, own);
    Ok(Some((outside(bundle.spec, id, (machine.accel, mounts))?, root)))
}

/// Turns a process that is to be in the container into one of the sandbox that has the guest run it.
///
/// # Errors
/// [`EngineError`] if the plan of the process cannot be made.
pub fn bundled_process(
    bundle: &Path,
    process: Process,
    init: std::os::fd::OwnedFd,
) -> Result<Process, EngineError> {
    let path = bundle.join(OWN).join(GUEST);
    let text = std::fs::read_to_string(&path).map_err(VmFault::file("read", &path))?;
    let guest: Spec = serde_json::from_str(&text).map_err(VmFault::Description)?;
    let terminal = (process.terminal, process.console_size);
    let spec = Spec {
        process: Some(process),
        linux: guest.linux,
        ..Spec::default()
    };
    let bytes = planned((&spec, init), None, None, Stdin::Inherited)?
        .to_bytes()
        .bytes;
    let mut outer = sandbox(Some(user_of(bundle)?)).process;
    outer.args = vec![
        place(PROGRAM).display().to_string(),
        super::attend::VISIT.to_owned(),
    ];
    outer.env = super::attend::packed(&bytes);
    (outer.terminal, outer.console_size) = terminal;
    Ok(outer)
}

/// Reads the user of a bundle's machine.
fn user_of(bundle: &Path) -> Result<u32, VmFault> {
    let path = bundle.join(OWN).join(USER);
    let text = std::fs::read_to_string(&path).map_err(VmFault::file("read", &path))?;
    let invalid = |_| VmFault::file("read", &path)(std::io::ErrorKind::InvalidData.into());
    text.parse().map_err(invalid)
}

/// True for a bundle that is in a machine.
///
/// # Errors
/// [`EngineError::State`] if it cannot be looked at.
pub fn is_bundled(bundle: &Path) -> Result<bool, EngineError> {
    Ok(tote_state::record::is_there(&bundle.join(OWN).join(GUEST))?)
}

/// Makes a directory that the machine's user may enter, whatever the caller's mask says.
fn make(dir: &Path) -> Result<(), VmFault> {
    std::fs::create_dir_all(dir).map_err(VmFault::file("make", dir))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty())
        .and_then(|open| rustix::fs::fchmod(open, Mode::from_raw_mode(0o755)))
        .map_err(|errno| VmFault::file("change the mode of", dir)(errno.into()))
}

/// Makes a file for root alone: the plan has the environment of the program. The attendant reads it by a capability.
fn write(path: &Path, bytes: &[u8]) -> Result<(), VmFault> {
    // A umask takes permissions away and gives none.
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    made.and_then(|mut file| file.write_all(bytes))
        .map_err(VmFault::file("write", path))
}

/// Returns the first option, or part of a specification, that a machine cannot have, and why.
fn refused(vm: &VmOptions, spec: &Spec) -> Option<(&'static str, &'static str)> {
    let joins = |kind| {
        let namespace = spec.namespace(kind);
        namespace.is_some_and(|one| one.path.as_ref().is_some_and(|path| !path.is_empty()))
    };
    let network = spec.namespace(NamespaceType::Network);
    let linux = spec.linux.as_ref();
    let has = |has: fn(&Linux) -> bool| linux.is_some_and(has);
    let table = [
        (
            vm.sharing == Some(Sharing::NineP),
            "shares=9p",
            "files of a bundle have owners, which only virtiofsd can give them",
        ),
        (
            network.is_none(),
            "the network of the host",
            "the host's namespaces are those of another kernel",
        ),
        (
            joins(NamespaceType::Network),
            "a network that is there already",
            "tote oci has no networks in machines yet: give --network none",
        ),
        (
            [NamespaceType::Pid, NamespaceType::Ipc, NamespaceType::Uts]
                .into_iter()
                .any(joins),
            "namespaces of another container",
            "those are of another kernel",
        ),
        (
            spec.namespace(NamespaceType::User).is_some(),
            "a user namespace",
            "ids in a virtual machine are not those of the host",
        ),
        (
            has(|linux| !linux.devices.is_empty() || !linux.net_devices.is_empty()),
            "devices",
            "a device of the host cannot be in a virtual machine",
        ),
        (
            has(|linux| {
                let seccomp = linux.seccomp.as_ref();
                seccomp.is_some_and(|seccomp| seccomp.listener_path.is_some())
            }),
            "an agent for system calls",
            "the calls are those of another kernel",
        ),
    ];
    let first = table.into_iter().find(|(is, ..)| *is);
    first.map(|(_, option, reason)| (option, reason))
}

/// Returns the guest's specification, and the mounts of the sandbox with the directories that it shares.
fn guest(bundle: Bundled<'_>, own: &Path) -> Result<(Spec, Vec<Mount>), EngineError> {
    let shared = own.join(shares::DIRECTORY);
    make(&shared)?;
    let readonly = bundle.spec.root.as_ref().is_some_and(|root| root.readonly);
    let mut binds = vec![(bundle.rootfs.to_owned(), readonly)];
    let mut guest = bundle.spec.clone();
    guest.hooks = None;
    guest
        .mounts
        .retain(|mount| !matches!(mount.kind.as_deref(), Some("cgroup" | "cgroup2")));
    for mount in &mut guest.mounts {
        let is_bind = mount.kind.as_deref() == Some("bind")
            || mount
                .options
                .iter()
                .any(|option| matches!(option.as_str(), "bind" | "rbind"));
        let Some(source) = mount.source.as_mut().filter(|_| is_bind) else {
            continue;
        };
        let readonly = mount.options.iter().any(|option| option == "ro");
        let inside = format!("{}/{}", tote_guest::SHARES, binds.len());
        binds.push((PathBuf::from(std::mem::replace(source, inside)), readonly));
        mount.options.retain(|option| !is_of_host(option));
    }
    if let Some(linux) = &mut guest.linux {
        for namespace in &mut linux.namespaces {
            namespace.path = None;
        }
        linux.namespaces.retain(|one| one.kind != NamespaceType::Cgroup);
        (linux.resources, linux.cgroups_path, linux.rootfs_propagation) = Default::default();
        (linux.intel_rdt, linux.memory_policy, linux.mount_label) = Default::default();
    }
    if let Some(process) = &mut guest.process {
        (process.apparmor_profile, process.selinux_label) = (None, None);
        (process.oom_score_adj, process.scheduler, process.io_priority) = Default::default();
        process.exec_cpu_affinity = None;
    }
    let mut mounts = Vec::with_capacity(binds.len());
    for (number, (source, readonly)) in binds.into_iter().enumerate() {
        let place = shared.join(number.to_string());
        let found = source.metadata().map_err(VmFault::file("look at", &source))?;
        if found.is_dir() {
            make(&place)?;
        } else if found.is_file() {
            write(&place, b"")?;
        } else {
            return Err(VmFault::Special(source).into());
        }
        let target = super::attend::place(shares::DIRECTORY).join(number.to_string());
        let access = if readonly { "ro" } else { "rw" };
        mounts.push(bind(&source, &target, &["rbind", "rprivate", access]));
    }
    Ok((guest, mounts))
}

/// True for an option of a bind that is about the mounts of this machine.
fn is_of_host(option: &str) -> bool {
    let name = option.strip_prefix('r').unwrap_or(option);
    matches!(name, "private" | "shared" | "slave" | "unbindable") || matches!(option, "z" | "Z" | "U")
}

fn bind(source: &Path, destination: &Path, options: &[&str]) -> Mount {
    Mount {
        destination: destination.display().to_string(),
        kind: Some("bind".to_owned()),
        source: Some(source.display().to_string()),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..Mount::default()
    }
}

fn machine(home: &Home, vm: &VmOptions, spec: &Spec) -> Result<Machine, EngineError> {
    let resources = spec.linux.as_ref().and_then(|linux| linux.resources.as_ref());
    let limit = resources.and_then(|resources| resources.memory.as_ref()?.limit);
    let limit = limit
        .and_then(|limit| u64::try_from(limit).ok())
        .filter(|limit| *limit > 0);
    let memory = vm.memory.or(limit).map_or(USUAL, |bytes| bytes.div_ceil(1 << 20));
    if memory < LEAST {
        let (given, least) = (memory, LEAST);
        return Err(VmFault::Memory { given, least }.into());
    }
    let program = program()?;
    Ok(Machine {
        accel: accel(vm, tote_sys::try_kvm)?,
        board: board(home, vm, &program, false)?,
        grows: false,
        program,
        memory,
        processors: vm.processors.unwrap_or(1),
        kernel: place(kernel::VMLINUX),
        initramfs: place(kernel::INITRAMFS),
        system: kernel::system(place(kernel::SYSTEM)),
        disks: Vec::new(),
        // A session of tote debug reaches no container in another engine's machine.
        spare: None,
        links: Vec::new(),
        shares: Some(shares::served()?),
        port: tote_guest::PORT.to_owned(),
        begin: Begin::Boot,
    })
}

/// Plans the container for root of the guest.
fn plan(guest: &Spec) -> Result<Vec<u8>, EngineError> {
    let root = PathBuf::from(tote_guest::SHARES).join("0");
    let request = Request {
        stdin: Stdin::Inherited,
        lifetime: tote_sandbox::Lifetime::OfParent,
        all_processors: true,
        ..Request::bare(guest, &root, facts())
    };
    let plan = tote_sandbox::plan(&request, Root::Bind(root.clone()), Joins::default())?;
    Ok(plan.to_bytes().bytes)
}

/// Makes the root of the sandbox, and adds the mounts of the host's programs.
fn skeleton(home: &Home, mounts: &mut Vec<Mount>) -> Result<PathBuf, EngineError> {
    let root = home.vm().join("sandbox");
    make(&root)?;
    for name in DIRECTORIES {
        make(&root.join(name))?;
    }
    mounts.push(bind(
        Path::new("/usr"),
        Path::new("/usr"),
        &["rbind", "rprivate", "ro"],
    ));
    for name in LINKS {
        let (path, own) = (Path::new("/").join(name), root.join(name));
        match std::fs::read_link(&path) {
            Ok(target) => match symlink(target, &own) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(VmFault::file("make", own)(error).into());
                }
                _ => {} // absence: the host has not all of them
            },
            Err(_) if path.metadata().is_ok_and(|found| found.is_dir()) => {
                make(&own)?;
                mounts.push(bind(&path, &path, &["rbind", "rprivate", "ro"]));
            }
            // The host has not all of them.
            Err(_) => {}
        }
    }
    Ok(root)
}

/// Returns the specification of the sandbox.
fn outside(spec: &Spec, user: u32, (accel, binds): (Accel, Vec<Mount>)) -> Result<Spec, EngineError> {
    let process = spec.process.clone().unwrap_or_default();
    let names = tote_vmm::CAPABILITIES.map(str::to_owned).to_vec();
    let mut linux = spec.linux.clone().unwrap_or_default();
    let devices = super::choose::kvm_node(accel)?;
    if let Some(resources) = &mut linux.resources {
        // Engines deny what they do not name.
        resources.devices.extend(devices.iter().map(|node| DeviceRule {
            allow: true,
            kind: Some("c".to_owned()),
            major: Some(node.major),
            minor: Some(node.minor),
            access: Some("rw".to_owned()),
        }));
    }
    let mount = |place: &str, kind: &str, options: &[&str]| Mount {
        kind: Some(kind.to_owned()),
        source: Some(kind.to_owned()),
        ..bind(Path::new(kind), Path::new(place), options)
    };
    let quiet = ["nosuid", "noexec", "nodev"];
    let system = vec![
        mount("/proc", "proc", &quiet),
        mount("/dev", "tmpfs", &["nosuid", "mode=755", "size=64k"]),
        mount("/tmp", "tmpfs", &["nosuid", "nodev", "mode=1777", "size=64m"]),
    ];
    let mut annotations = spec.annotations.clone();
    annotations
        .entry(ANNOTATION.to_owned())
        .or_insert_with(|| "vm".to_owned());
    Ok(Spec {
        root: Some(tote_spec::Root {
            readonly: true,
            ..spec.root.clone().unwrap_or_default()
        }),
        mounts: system.into_iter().chain(binds).collect(),
        process: Some(Process {
            args: vec![place(PROGRAM).display().to_string()],
            env: Vec::new(),
            cwd: "/".to_owned(),
            user: User {
                uid: user,
                gid: user,
                ..User::default()
            },
            capabilities: Some(Capabilities {
                bounding: names.clone(),
                effective: names.clone(),
                permitted: names.clone(),
                inheritable: names.clone(),
                ambient: names,
            }),
            rlimits: Vec::new(),
            no_new_privileges: true,
            selinux_label: None,
            ..process
        }),
        linux: Some(Linux {
            seccomp: Some(shares::profile()),
            sysctl: Default::default(),
            devices,
            masked_paths: Vec::new(),
            readonly_paths: Vec::new(),
            personality: None,
            ..linux
        }),
        annotations,
        ..spec.clone()
    })
}
