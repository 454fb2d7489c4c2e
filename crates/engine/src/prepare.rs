//! From a request to a plan.

use crate::cgroup::{self, Planned};
use crate::live::{Live, Record};
use crate::rootfs::Source;
use crate::spec::{files, joins_user_namespace};
use crate::user::{Ids, ids};
use crate::{Caller, EngineError, Home, name, spec, storage};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use tote_bundle::{Capability, ContainerId, Image, RunOptions, SeccompChoice};
use tote_runtime::{Stdio, StdioMode, Timings};
use tote_sandbox::{
    CgroupView, DeviceNodes, Facts, IdMapping, Lifetime, Plan, Request, SecurityModule, Stdin, Switch,
};
use tote_spec::{Linux, NamespaceType, Resources, Spec};
use tote_sys::best_effort;

/// What somebody asks for.
#[derive(Debug)]
pub struct RunRequest {
    /// The image.
    pub image: Image,
    /// Everything else; the command is in it.
    pub options: RunOptions,
}

/// A container that is planned and not yet born.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) id: ContainerId,
    pub(crate) options: RunOptions,
    pub(crate) image: String,
    pub(crate) image_id: Option<String>,
    pub(crate) spec: Spec,
    pub(crate) writable: Vec<String>,
    pub(crate) plan: Plan,
    pub(crate) cgroup: Option<tote_cgroup::Plan>,
    pub(crate) ids: Ids,
    pub(crate) stdio: Stdio,
    pub(crate) record: Option<Record>,
    pub(crate) _source: Source,
    pub(crate) _held: Vec<tote_sys::LoopDevice>,
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
    timings: Option<&mut Timings>,
) -> Result<Prepared, EngineError> {
    prepare_from(home, request, None, dry, timings)
}

/// The same, with a source that is already open; the request's image is only what it is called then.
pub(crate) fn prepare_from(
    home: &Home,
    request: RunRequest,
    source: Option<Source>,
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
        // Others will ask from somewhere else.
        Image::Rootfs(dir) => match std::path::absolute(dir) {
            Ok(dir) => format!("rootfs:{}", dir.display()),
            Err(_) => format!("rootfs:{dir}"),
        },
        Image::Stored(name) => name.clone(),
    };
    live.image.clone_from(&image);
    mark(&mut timings, "parent: note the container");
    let built = note_id(&request.options, &id, dry)
        .and_then(|()| build(home, &id, (request.image, source), request.options, dry, timings));
    match built {
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

/// Writes `--cidfile`; one that exists is another container's.
fn note_id(options: &RunOptions, id: &ContainerId, dry: bool) -> Result<(), EngineError> {
    let Some(path) = options.cidfile.as_ref().filter(|_| !dry) else {
        return Ok(());
    };
    let written = std::fs::File::create_new(path).and_then(|mut file| file.write_all(id.as_str().as_bytes()));
    written.map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => EngineError::CidFile(path.clone()),
        _ => EngineError::File {
            option: "cidfile",
            attempt: "write",
            path: PathBuf::from(path),
            source,
        },
    })
}

fn mark(timings: &mut Option<&mut Timings>, what: &str) {
    if let Some(timings) = timings {
        timings.mark(what);
    }
}

/// Forgets a container and removes what there is of it.
pub(crate) fn discard(home: &Home, id: &ContainerId, given: Option<&str>, record: Record) {
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
    (image, source): (Image, Option<Source>),
    mut options: RunOptions,
    dry: bool,
    mut timings: Option<&mut Timings>,
) -> Result<Prepared, EngineError> {
    check_terminal(&options)?;
    read_env_files(&mut options)?;
    let source = source.map_or_else(|| Source::open(home, &image), Ok)?;
    let config = source.config();
    mark(&mut timings, "parent: open the image");
    let ids = ids(&options, &config, &image, source.dir(), home.caller)?;
    let mut spec = spec::make(home, id, &options, &config, &ids, dry)?;
    mark(&mut timings, "parent: make the spec");
    let device_nodes = device_nodes(&options, home.caller, &ids);
    let Some(linux) = &mut spec.linux else {
        return Err(tote_sandbox::PlanError::Missing("linux").into());
    };
    let default_filter = choose_filter(&options, linux)?;
    let planned = plan_cgroup(home, id, &options, linux, device_nodes)?;
    mark(&mut timings, "parent: plan the cgroup");
    let (stdio, stdio_ops) = stdio(&options)?;
    let files = files(&spec, &options);
    let hard_limit = |resource| tote_sys::hard_limit(resource).ok().map(|limit| limit.hard);
    let facts = Facts {
        hard_limit: &hard_limit,
        ..facts(home, &options, &spec, planned.as_ref(), device_nodes)
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
        stdin: stdin(&options),
        init: options.init,
        lifetime: Lifetime::OfParent,
        preserve_fds: options.preserve_fds,
        switch: Switch::Pivot,
        keyring: None,
        all_processors: false,
        facts,
    };
    let wanted = storage::Wanted {
        options: &options,
        config: &config,
        spec: &spec,
        files: &files,
        dry,
    };
    let (root, held) = storage::root(home, id, &source, &wanted)?;
    let writable = storage::copies(&root);
    mark(&mut timings, "parent: prepare the root");
    let mut plan = tote_sandbox::plan(&request, root, joins(&spec)?)?;
    plan.insert_stdio(stdio_ops);
    mark(&mut timings, "parent: plan");
    Ok(Prepared {
        id: id.clone(),
        options,
        image: String::new(),
        image_id: source.image_id(),
        spec,
        writable,
        plan,
        cgroup: planned.map(|planned| planned.plan),
        ids,
        stdio,
        record: None,
        _source: source,
        _held: held,
    })
}

fn stdin(options: &RunOptions) -> Stdin {
    if options.interactive {
        Stdin::Inherited
    } else {
        Stdin::Null
    }
}

fn choose_filter(options: &RunOptions, linux: &mut Linux) -> Result<bool, EngineError> {
    match options.seccomp() {
        SeccompChoice::Default => return Ok(!options.privileged),
        SeccompChoice::Unconfined => {}
        SeccompChoice::File(path) => linux.seccomp = Some(read_profile(PathBuf::from(path))?),
    }
    Ok(false)
}

fn plan_cgroup(
    home: &Home,
    id: &ContainerId,
    options: &RunOptions,
    linux: &Linux,
    device_nodes: DeviceNodes,
) -> Result<Option<Planned>, EngineError> {
    let mut resources: Resources = linux.resources.clone().unwrap_or_default();
    if device_nodes == DeviceNodes::Bound {
        resources.devices.clear();
    }
    cgroup::without_defaults(&mut resources, home.caller, options.pids_limit.is_some());
    cgroup::plan(id, &resources, options.cpu_time.is_some())
}

fn stdio(options: &RunOptions) -> Result<(Stdio, Vec<tote_sys::Op>), EngineError> {
    let mode = StdioMode {
        interactive: options.interactive,
        terminal: options.tty,
    };
    Stdio::new(mode).map_err(|source| EngineError::Kernel {
        attempt: "make pipes for the container's output",
        source,
    })
}

/// What the plan must know of this host; of the limits it knows nothing yet.
fn facts<'a>(
    home: &Home,
    options: &RunOptions,
    spec: &Spec,
    planned: Option<&'a Planned>,
    device_nodes: DeviceNodes,
) -> Facts<'a> {
    Facts {
        bounding: tote_sys::bounding_capabilities(),
        hard_limit: &|_| None,
        oom_score_adj: options.oom_score_adj.map_or(0, |_| oom_score_adj()),
        cgroup_view: match planned {
            Some(planned) if planned.unified && planned.legacy.is_empty() => CgroupView::Unified,
            Some(planned) if home.caller == Caller::Root => CgroupView::Legacy(&planned.legacy),
            _ => CgroupView::None,
        },
        waits_for_cgroup: planned.is_some(),
        setgroups: crate::user::may_set_groups(spec),
        device_nodes,
        own_executable: own_executable(),
        privileged: home.caller == Caller::Root,
        security_module: SecurityModule::None,
    }
}

pub(crate) fn new_id() -> Result<ContainerId, EngineError> {
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

fn joins(spec: &Spec) -> Result<Vec<(NamespaceType, OwnedFd)>, EngineError> {
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
