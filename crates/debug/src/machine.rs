//! Sessions in containers that are in virtual machines.
//!
//! The tools are an image on the machine's spare disk, which the attendant exchanges while the machine runs. The guest performs the same
//! plan as this machine would, with its own view of the container's tree.

use super::find::Found;
use super::live::{Files, Live, Part};
use super::seen::{LOOK, Seen};
use super::view::{self, View};
use super::{DebugRequest, DebugTools, complete, environment, filter};
use crate::exec::{self, Executed, Target};
use crate::vm::{self, CONTAINERS, SUPERBLOCK, SUPERBLOCK_AT, TOOLS, VmFault};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use tote_prepare::rootfs::Source;
use tote_records::{Caller, EngineError, Home};
use tote_rootfs::{Storage, Upper};
use tote_runtime::DetachKeys;
use tote_sandbox::{Root, Tools};

/// Tools as a disk.
struct Disk {
    file: OwnedFd,
    superblock: [u8; SUPERBLOCK],
    /// Search path of the tools.
    path: Option<String>,
    /// Server of files that are not one image.
    _live: Option<Live>,
    /// The image, which stays as long as this is held.
    _source: Source,
}

/// Runs a process with tools in the container of a virtual machine.
///
/// # Errors
/// [`EngineError`]; the process is gone then.
// Inlined, its variables would be in the frame of every session.
#[inline(never)]
pub(super) fn debug(
    home: &Home,
    found: Found<'_>,
    (mut request, keys): (DebugRequest, DetachKeys),
    warn: &mut dyn FnMut(String),
) -> Result<Executed, EngineError> {
    let Found {
        mut target, command, ..
    } = found;
    refuse(&request)?;
    if request.no_cgroup {
        target.cgroup = String::new();
    }
    let filter = filter::choose(home, target.own_mut(), &[], &request.exec);
    let disk = Disk::open(home, &request.tools)?;
    let seen = look(home, &target, &command, &disk)?;
    let users = exec::users(home, &target, &request.exec)?;
    let own = environment::of_programs(&target, users.as_ref(), &request);
    let view = View::of_tools(&target, (&command, &own), seen)?;
    let variables = view.variables(&target, disk.path.clone(), request.env_of_container);
    environment::adapt(&mut target, variables, users.as_ref(), &request);
    let own = complete(&mut request, &view);
    let tools = Tools {
        root: Root::Stored {
            storage: Storage::Overlay {
                lowers: vec![TOOLS.into()],
                own_inodes: None,
                upper: Upper::Tmpfs { size: None },
                volatile: false,
            },
            binds: Vec::new(),
            private: false,
            nosuid: false,
        },
        aside: None,
        attach_point: Path::new(CONTAINERS),
        brought: view.brought,
        dev: view.dev,
        links: view.links,
        binds: Vec::new(),
        files: [view.files, own].concat(),
        // The guest's container has the ids of its kernel.
        mapped: false,
        filter,
    };
    let namespaces = target.namespaces();
    let guest = target.own().clone();
    let plan = vm::enter_with_tools((&target, &guest), &request.exec, users, (tools, &disk.superblock))?;
    exec::visit(
        home,
        (*target, plan, namespaces),
        (&request.exec, keys),
        &mut |_| {},
        warn,
    )
}

/// Refuses what reaches across the border of the machine.
fn refuse(request: &DebugRequest) -> Result<(), VmFault> {
    let wrong = |option, reason| Err(VmFault::Option { option, reason });
    if request.target_view {
        return wrong(
            "--view target",
            "the programs that start the tools there are files of this machine",
        );
    }
    if request.forwards.is_any() {
        return wrong(
            "--forward and --port-forward",
            "sockets of this machine are not in a virtual machine",
        );
    }
    if request.effective_user.is_some() {
        return wrong(
            "--effective-user",
            "users of this machine own nothing in a virtual machine",
        );
    }
    if request.keep {
        return wrong(
            "--keep",
            "what is written among the tools is in the virtual machine's memory",
        );
    }
    Ok(())
}

/// Has the machine get the tools, and its guest look at the container's tree.
fn look(home: &Home, target: &Target, command: &[String], disk: &Disk) -> Result<Seen, EngineError> {
    let gone = || exec::ExecError::NotRunning(target.id.clone());
    let entry = target.entry.as_ref().ok_or_else(gone)?;
    let asked = serde_json::to_vec(&view::asked(target, command)).map_err(VmFault::Description)?;
    let file = disk
        .file
        .try_clone()
        .map_err(EngineError::file("hold", "the tools"))?;
    let said = vm::bring(home, entry, file, &[LOOK, &asked].concat())?;
    let seen = serde_json::from_slice(&said);
    Ok(seen.map_err(|error| VmFault::Guest(format!("it has no good answer: {error}")))?)
}

impl Disk {
    fn open(home: &Home, tools: &DebugTools) -> Result<Self, EngineError> {
        let DebugTools::Image(image) = tools else {
            return Err(VmFault::Option {
                option: "tools of another container",
                reason: "only an image, a directory or this machine can be their disk",
            }
            .into());
        };
        let source = Source::open(home, image)?;
        let path = super::path_of(&source.config().env).map(str::to_owned);
        let (file, superblock, live) = match &source {
            Source::Stored(stored) => {
                let (file, superblock) = Self::read(&stored.disk(home)?)?;
                (file, superblock, None)
            }
            source => {
                let (live, socket, head) = Live::begin(files(home, source)?)?;
                let at = SUPERBLOCK_AT as usize;
                let superblock = head.get(at..).and_then(|rest| rest.first_chunk());
                (socket, superblock.copied().unwrap_or([0; SUPERBLOCK]), Some(live))
            }
        };
        Ok(Self {
            file,
            superblock,
            path,
            _live: live,
            _source: source,
        })
    }

    fn read(path: &Path) -> Result<(OwnedFd, [u8; SUPERBLOCK]), EngineError> {
        let failed = |attempt| EngineError::file(attempt, path);
        let file = File::open(path).map_err(failed("open"))?;
        let mut superblock = [0; SUPERBLOCK];
        file.read_exact_at(&mut superblock, SUPERBLOCK_AT)
            .map_err(failed("read"))?;
        Ok((file.into(), superblock))
    }
}

/// Lists the files of tools that are not an image of the store. Of this machine's, the container's root gets only what every user
/// may read: it may look into the session.
fn files(home: &Home, source: &Source) -> Result<Files, EngineError> {
    let held = |dir: std::os::fd::BorrowedFd<'_>| {
        let held = dir.try_clone_to_owned();
        held.map_err(EngineError::file("hold", "the tools"))
    };
    let is_host = matches!(source, Source::Host(_));
    let mut parts = vec![Part {
        root: held(source.dir()?)?,
        at: None,
        public: is_host,
    }];
    for bind in source.rootfs().binds {
        let root = File::open(&bind.source).map_err(EngineError::file("open", &bind.source))?;
        parts.push(Part {
            root: root.into(),
            at: Some(bind.target.to_string_lossy().trim_start_matches('/').to_owned()),
            public: is_host,
        });
    }
    let own = (home.caller == Caller::User).then(|| {
        (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        )
    });
    Files::of(parts, own)
}
