//! `tote run`: from a request to the end of the container.

use crate::live::{Live, Record};
use crate::rootfs::Source;
use crate::user::{Ids, ids, spec_mappings};
use crate::{Caller, EngineError, Home, cgroup, device, name, process, volume};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tote_bundle::{
    Capability, ContainerId, Context, Image, ImageConfig, IpcMode, PidMode, RunOptions, SeccompChoice, spec,
};
use tote_runtime::{Foreground, Observer, Outcome, Stdio, StdioMode, Timings};
use tote_sandbox::{CgroupView, DeviceNodes, Facts, IdMapping, Lifetime, Plan, Request, Stdin};
use tote_spec::{ConsoleSize, NamespaceType, Spec};
use tote_sys::best_effort;

/// What somebody asks for.
#[derive(Debug)]
pub struct RunRequest {
    /// The image.
    pub image: Image,
    /// Everything else; the command is in it.
    pub options: RunOptions,
}

/// How a container in the foreground ended, and what to tell about it.
#[derive(Debug)]
pub struct Finished {
    /// docker's exit code.
    pub exit_code: u8,
    /// One line for people, where the exit code alone would leave them guessing.
    pub reason: Option<String>,
}

/// A container that is planned and not yet born.
#[derive(Debug)]
pub struct Prepared {
    id: ContainerId,
    options: RunOptions,
    image: String,
    spec: Spec,
    plan: Plan,
    cgroup: Option<tote_cgroup::Plan>,
    ids: Ids,
    stdio: Stdio,
    record: Option<Record>,
    _source: Source,
}

impl Prepared {
    /// The plan; printing it is what `--plan` does.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The plan of its cgroup, if it needs one.
    #[must_use]
    pub fn cgroup(&self) -> Option<&tote_cgroup::Plan> {
        self.cgroup.as_ref()
    }
}

/// Plans a container, and makes what its plan rests on: directories, its place among the live ones, its name.
///
/// # Errors
/// [`EngineError`]; nothing of the container is left then.
pub fn prepare(
    home: &Home,
    request: RunRequest,
    dry: bool,
    mut timings: Option<&mut Timings>,
) -> Result<Prepared, EngineError> {
    let id = new_id()?;
    let options = &request.options;
    let mut live = Live {
        name: options.name.as_ref().map(ToString::to_string),
        rm: true, // until it has run there is nothing to keep
        ..Live::default()
    };
    let mut record = None;
    if !dry {
        let mut made = Record::create(home, &id)?;
        if let Some(name) = &options.name {
            let written = made.write(&live);
            if let Err(error) = written.and_then(|()| name::take(home, name, &id)) {
                made.remove();
                return Err(error);
            }
        }
        record = Some(made);
    }
    let image = match &request.image {
        Image::Host => "host".to_owned(),
        Image::Rootfs(dir) => format!("rootfs:{dir}"),
    };
    live.image.clone_from(&image);
    mark(&mut timings, "parent: note the container");
    match build(home, &id, request.image, request.options, dry, timings) {
        Ok(mut prepared) => {
            prepared.image = image;
            prepared.record = record;
            Ok(prepared)
        }
        Err(error) => {
            if let Some(record) = record {
                discard(home, &id, live.name.as_deref(), record);
            }
            Err(error)
        }
    }
}

fn mark(timings: &mut Option<&mut Timings>, what: &str) {
    if let Some(timings) = timings {
        timings.mark(what);
    }
}

fn discard(home: &Home, id: &ContainerId, given: Option<&str>, record: Record) {
    // What cannot be removed now is cleared by the next command, which finds the record unlocked.
    best_effort(crate::tree::remove(home, id));
    if let Some(given) = given.and_then(|given| given.parse().ok()) {
        name::release(home, &given, id);
    }
    record.remove();
}

fn build(
    home: &Home,
    id: &ContainerId,
    image: Image,
    mut options: RunOptions,
    dry: bool,
    mut timings: Option<&mut Timings>,
) -> Result<Prepared, EngineError> {
    check_terminal(&options)?;
    read_env_files(&mut options)?;
    let config = ImageConfig::bare();
    let source = Source::open(home, &image)?;
    mark(&mut timings, "parent: open the image");
    let ids = ids(&options, &config, &image, source.dir(), home.caller)?;
    let mut spec = make_spec(home, id, &options, &config, &ids, dry)?;
    mark(&mut timings, "parent: make the spec");
    let device_nodes = device_nodes(&options, home.caller, &ids);
    let Some(linux) = &mut spec.linux else {
        return Err(tote_sandbox::PlanError::Missing("linux").into());
    };
    let mut resources = linux.resources.clone().unwrap_or_default();
    if device_nodes == DeviceNodes::Bound {
        resources.devices.clear();
    }
    cgroup::without_defaults(&mut resources, home.caller, options.pids_limit.is_some());
    let planned = cgroup::plan(id, &resources, options.cpu_time.is_some())?;
    mark(&mut timings, "parent: plan the cgroup");
    let default_filter = match options.seccomp() {
        SeccompChoice::Default => !options.privileged,
        SeccompChoice::Unconfined => false,
        SeccompChoice::File(path) => {
            linux.seccomp = Some(read_profile(PathBuf::from(path))?);
            false
        }
    };
    let mode = StdioMode {
        interactive: options.interactive,
        terminal: options.tty,
    };
    let failed = |source| EngineError::Kernel {
        attempt: "make pipes for the container's output",
        source,
    };
    let (stdio, stdio_ops) = Stdio::new(mode).map_err(failed)?;
    let files = files(&spec, &options);
    let hard_limit = |resource| tote_sys::hard_limit(resource).ok().map(|limit| limit.hard);
    let facts = Facts {
        bounding: tote_sys::bounding_capabilities(),
        hard_limit: &hard_limit,
        oom_score_adj: if options.oom_score_adj.is_some() {
            oom_score_adj()
        } else {
            0
        },
        cgroup_view: match &planned {
            Some(planned) if planned.unified && planned.legacy.is_empty() => CgroupView::Unified,
            Some(planned) if home.caller == Caller::Root => CgroupView::Legacy(&planned.legacy),
            _ => CgroupView::None,
        },
        waits_for_cgroup: planned.is_some(),
        setgroups: crate::user::may_set_groups(&spec),
        device_nodes,
        own_executable: own_executable(),
    };
    mark(&mut timings, "parent: look at the host");
    let request = Request {
        spec: &spec,
        attach_point: &home.attach_point(),
        files: &files,
        device_sources: &BTreeMap::new(),
        id_mapping: if joins_user_namespace(&spec) {
            IdMapping::None
        } else {
            ids.mapping
        },
        default_filter,
        stdin: if options.interactive {
            Stdin::Inherited
        } else {
            Stdin::Null
        },
        init: options.init,
        lifetime: Lifetime::OfParent,
        preserve_fds: options.preserve_fds,
        facts,
    };
    let root = source.root(home, id, options.rm || dry)?;
    mark(&mut timings, "parent: prepare the root");
    let mut plan = tote_sandbox::plan(&request, root, joins(&spec)?)?;
    plan.insert_stdio(stdio_ops);
    mark(&mut timings, "parent: plan");
    Ok(Prepared {
        id: id.clone(),
        options,
        image: String::new(),
        spec,
        plan,
        cgroup: planned.map(|planned| planned.plan),
        ids,
        stdio,
        record: None,
        _source: source,
    })
}

fn make_spec(
    home: &Home,
    id: &ContainerId,
    options: &RunOptions,
    config: &ImageConfig,
    ids: &Ids,
    dry: bool,
) -> Result<Spec, EngineError> {
    let environment = |name: &str| std::env::var(name).ok();
    let (uid_mappings, gid_mappings) = spec_mappings(ids.mapping, ids.maps.as_ref());
    let volumes = if dry {
        tote_bundle::volumes_of(options, config)
            .into_iter()
            .map(|(destination, _)| (destination, home.volumes().display().to_string()))
            .collect()
    } else {
        volume::prepare(home, id, options, config)?
    };
    let devices = device::devices(options)?;
    let peer = |name: &str| crate::live::find(home, name).map(|live| live.pid);
    let pid_peer = if let PidMode::Container(name) = &options.pid {
        peer(name)?
    } else {
        None
    };
    let ipc_peer = if let IpcMode::Container(name) = &options.ipc {
        peer(name)?
    } else {
        None
    };
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let size = if options.tty {
        tote_runtime::terminal_size()
    } else {
        None
    };
    let context = Context {
        added_gids: &ids.added_gids,
        rootless: home.caller != Caller::Root,
        uid_mappings: &uid_mappings,
        gid_mappings: &gid_mappings,
        setgroups: !matches!(ids.mapping, IdMapping::Own(_)),
        machine_hostname: Some(&hostname),
        terminal_size: size.map(|(height, width)| ConsoleSize { height, width }),
        pid_peer,
        ipc_peer,
        volumes: &volumes,
        devices: &devices,
        ..Context::new(id, "rootfs", &ids.user, &environment)
    };
    // PID 1 is a process of the plan's, not an executable that is bound into the container.
    let without_init = RunOptions {
        init: false,
        ..options.clone()
    };
    let mut spec = spec(&without_init, config, &context)?;
    // A namespace of another container's can be joined only by root of the user namespace that it belongs to.
    if let Some(peer) = pid_peer.or(ipc_peer).filter(|_| home.caller != Caller::Root) {
        join_user_namespace(&mut spec, peer);
    }
    if home.caller == Caller::NestedRoot && !crate::user::maps_group(TTY) {
        for mount in spec
            .mounts
            .iter_mut()
            .filter(|mount| mount.kind.as_deref() == Some("devpts"))
        {
            mount.options.retain(|option| *option != format!("gid={TTY}"));
        }
        if let Some(linux) = spec
            .linux
            .as_mut()
            .filter(|_| !options.sysctls.contains_key(PING))
        {
            linux.sysctl.remove(PING);
        }
    }
    Ok(spec)
}

fn join_user_namespace(spec: &mut Spec, peer: u32) {
    let Some(linux) = &mut spec.linux else { return };
    linux.uid_mappings.clear();
    linux.gid_mappings.clear();
    for namespace in linux
        .namespaces
        .iter_mut()
        .filter(|namespace| namespace.kind == NamespaceType::User)
    {
        namespace.path = Some(format!("/proc/{peer}/ns/user"));
    }
}

fn joins_user_namespace(spec: &Spec) -> bool {
    spec.namespace(NamespaceType::User)
        .is_some_and(|namespace| namespace.path.is_some())
}

/// What docker sets where it can; a user namespace has not all the groups of its range.
const PING: &str = "net.ipv4.ping_group_range";

/// The group of terminals, in every distribution.
const TTY: u32 = 5;

/// Runs a prepared container to its end. What it leaves is what was asked to stay.
///
/// # Errors
/// [`EngineError`]; nothing of the container is left then.
pub fn run(
    home: &Home,
    prepared: Prepared,
    mut timings: Option<&mut Timings>,
    warn: &mut dyn FnMut(String),
) -> Result<Finished, EngineError> {
    let Prepared {
        id,
        options,
        image,
        spec,
        plan,
        cgroup,
        ids,
        stdio,
        record,
        _source,
    } = prepared;
    let Some(mut record) = record else {
        return Err(EngineError::NoContainer(id.to_string()));
    };
    plan.warnings.iter().cloned().for_each(&mut *warn);
    let mut live = Live {
        name: options.name.as_ref().map(ToString::to_string),
        image,
        command: spec
            .process
            .as_ref()
            .map_or_else(Vec::new, |process| process.args.clone()),
        stop_signal: options.stop_signal.map(|signal| signal.to_string()),
        rm: options.rm,
        ..Live::default()
    };
    // Off the way to the program: written while the new process mounts.
    let mut born = |pid: u32, groups: Option<String>| {
        live.pid = Some(pid);
        live.start_time = process::start_time(pid);
        live.cgroup = groups;
        // Without it the container is still found by its id; only its process id is not.
        best_effort(record.write(&live));
    };
    // And this while the program runs.
    let mut runs = || {
        crate::live::sweep(home);
    };
    let follow = options.tty && rustix::termios::isatty(rustix::stdio::stdin());
    let raw = if follow && options.interactive {
        Some(tote_runtime::RawMode::enter()?)
    } else {
        None
    };
    let foreground = Foreground {
        plan: &plan,
        cgroup: cgroup.as_ref(),
        maps: ids.maps.as_ref().filter(|_| plan.user_namespace.is_none()),
        stdio,
        interactive: options.interactive,
        follow_size: follow,
        timeout: options.timeout.filter(|timeout| *timeout != Duration::ZERO),
        cpu_time: options.cpu_time.filter(|limit| *limit != Duration::ZERO),
    };
    let observer = Observer {
        born: &mut born,
        runs: &mut runs,
        warn,
    };
    let result = tote_runtime::run(foreground, timings.as_deref_mut(), observer);
    drop(raw);
    if options.rm || result.is_err() {
        discard(home, &id, live.name.as_deref(), record);
    } else {
        crate::kept::write(home, &id, &spec, &live, result.as_ref().ok())?;
        record.remove();
    }
    if let Some(timings) = timings {
        timings.mark("parent: forget the container");
    }
    let (outcome, ooms) = result?;
    Ok(finished(outcome, ooms, &options))
}

fn finished(outcome: Outcome, ooms: u64, options: &RunOptions) -> Finished {
    let oom = (ooms > 0).then(|| {
        let limit = if options.memory > 0 {
            format!(" (limit {} bytes)", options.memory)
        } else {
            String::new()
        };
        format!("out of memory{limit}: the kernel killed {ooms} of the container's processes")
    });
    match outcome {
        Outcome::Exited(code) => Finished {
            exit_code: u8::try_from(code & 0xff).unwrap_or(1),
            reason: oom,
        },
        Outcome::Signaled(signal) => Finished {
            exit_code: u8::try_from(128 + signal).unwrap_or(255),
            reason: oom,
        },
        Outcome::TimedOut => Finished {
            exit_code: 124,
            reason: options
                .timeout
                .map(|limit| format!("the time limit of {} s is over", limit.as_secs_f64())),
        },
        Outcome::CpuTimeOver => Finished {
            exit_code: 124,
            reason: options
                .cpu_time
                .map(|limit| format!("the processor time of {} s is used up", limit.as_secs_f64())),
        },
    }
}

fn new_id() -> Result<ContainerId, EngineError> {
    let mut bytes = [0; 32];
    let failed = |source| EngineError::Kernel {
        attempt: "make an id",
        source,
    };
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(failed)?;
    Ok(ContainerId::from_bytes(bytes))
}

/// docker's rule: input from something else than a terminal cannot be given to one.
fn check_terminal(options: &RunOptions) -> Result<(), EngineError> {
    let fits = !options.tty || !options.interactive || rustix::termios::isatty(rustix::stdio::stdin());
    if fits {
        Ok(())
    } else {
        Err(EngineError::NotATerminal)
    }
}

fn read_env_files(options: &mut RunOptions) -> Result<(), EngineError> {
    for path in std::mem::take(&mut options.env_files) {
        let text = std::fs::read_to_string(&path).map_err(|source| EngineError::File {
            option: "env-file",
            attempt: "read",
            path: PathBuf::from(&path),
            source,
        })?;
        options.add_env_file(&text)?;
        options.env_files.push(path);
    }
    Ok(())
}

fn read_profile(path: PathBuf) -> Result<tote_spec::Seccomp, EngineError> {
    let text = std::fs::read_to_string(&path).map_err(|source| EngineError::File {
        option: "security-opt",
        attempt: "read",
        path: path.clone(),
        source,
    })?;
    serde_json::from_str(&text).map_err(|source| EngineError::Profile { path, source })
}

/// Bind mounts keep device nodes harmless as long as the container cannot mount: whoever may gets the device rules of a
/// cgroup instead, which only root of the machine can set.
fn device_nodes(options: &RunOptions, caller: Caller, ids: &Ids) -> DeviceNodes {
    let may_mount = options.privileged
        || options.cap_add.iter().any(|capability| match capability {
            Capability::All => true,
            Capability::One(name) => *name == "CAP_SYS_ADMIN",
        });
    let in_user_namespace = ids.mapping != IdMapping::None;
    if may_mount && caller == Caller::Root && !in_user_namespace {
        DeviceNodes::Made
    } else {
        DeviceNodes::Bound
    }
}

/// Files that are the container's own, where it has no mount of its own there.
fn files(spec: &Spec, options: &RunOptions) -> Vec<(&'static str, Vec<u8>)> {
    let mounted = |path: &str| spec.mounts.iter().any(|mount| mount.destination == path);
    let mut files = Vec::with_capacity(3);
    if let Some(hostname) = spec.hostname.as_deref().filter(|_| !mounted("/etc/hostname")) {
        files.push(("etc/hostname", format!("{hostname}\n").into_bytes()));
    }
    if !mounted("/etc/hosts") {
        files.push((
            "etc/hosts",
            crate::etc::hosts(spec.hostname.as_deref(), &options.add_hosts).into_bytes(),
        ));
    }
    if !mounted("/etc/resolv.conf")
        && let Some(text) = crate::etc::resolv_conf(options)
    {
        files.push(("etc/resolv.conf", text.into_bytes()));
    }
    files
}

fn joins(spec: &Spec) -> Result<Vec<(NamespaceType, rustix::fd::OwnedFd)>, EngineError> {
    let mut joins = Vec::new();
    for namespace in spec.namespaces() {
        if let Some(path) = &namespace.path {
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
            let fd = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(|source| {
                EngineError::Kernel {
                    attempt: "open the namespace to join",
                    source,
                }
            })?;
            joins.push((namespace.kind, fd));
        }
    }
    Ok(joins)
}

fn oom_score_adj() -> i32 {
    std::fs::read_to_string("/proc/self/oom_score_adj")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// Device and inode of this very executable.
fn own_executable() -> Option<(u64, u64)> {
    rustix::fs::stat("/proc/self/exe")
        .ok()
        .map(|stat| (stat.st_dev, stat.st_ino))
}
