//! `debug`: a process in a container that brings its own tools.
//!
//! The process has everything of the container but its root: its namespaces, cgroup, user, capabilities, filter and
//! limits. Its root is a tree of tools, in a mount namespace of its own, and the container's tree is `/target` in it. A
//! stopped container, or an image, gets a first process that only waits ([`still`]).

mod context;
mod error;
mod find;
mod foreign;
mod forward;
mod lint;
mod noted;
mod processes;
mod shell;
mod still;

pub use error::DebugError;
pub use forward::DebugForwards;
pub use shell::SHELLS as DEBUG_SHELLS;

use crate::exec::{self, ExecError, Executed, Target};
use crate::rootfs::Source;
use crate::{Caller, EngineError, Home};
use find::{Found, find};
use forward::Forwards;
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2};
use tote_bundle::{ExecOptions, Image};
use tote_rootfs::{Storage, Upper};
use tote_sandbox::{Brought, Root, Tools, WrittenFile};
use tote_sys::Errno;

/// Place of the container's tree among the tools.
const PLACE: &str = "/target";

/// Directories of the container that take the place of the tools' own.
const DIRECTORIES: [&str; 3] = ["/proc", "/dev", "/sys"];

/// Files of the container that take the place of the tools' own: they say who and where the process is.
const FILES: [&str; 6] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/localtime",
];

/// Symbolic link for those who know cntr.
const LINKS: [(&str, &str); 1] = [(PLACE, "var/lib/cntr")];

/// Search path of tools that say nothing of it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Origin of the tools.
#[derive(Clone, Debug)]
pub enum DebugTools {
    /// An image.
    Image(Image),
    /// The files of another container, by its name as a target has it.
    Container(String),
}

/// Request for a session.
#[derive(Debug)]
pub struct DebugRequest {
    /// Origin of the tools.
    pub tools: DebugTools,
    /// Command and its surroundings; without a command a shell of the tools is started.
    pub exec: ExecOptions,
    /// Shell of [`DEBUG_SHELLS`] that is started without a command.
    pub shell: Option<String>,
    /// Text that the shell carries out.
    pub script: Option<String>,
    /// True if the process stays in the caller's cgroup.
    pub no_cgroup: bool,
    /// Ways between the session and this machine.
    pub forwards: DebugForwards,
}

/// Runs a process with tools in a container: a running or stopped one of ours by name, one of another engine
/// (`docker:NAME`, `podman:NAME`, `pid:N` and so on), or a throwaway container of an image.
///
/// # Errors
/// [`EngineError`]; the process is gone then.
pub fn debug(
    home: &Home,
    wanted: &str,
    mut request: DebugRequest,
    warn: &mut dyn FnMut(String),
) -> Result<Executed, EngineError> {
    if request.script.is_some() && !request.exec.command.is_empty() {
        return Err(DebugError::TwoCommands.into());
    }
    // A session ends with its caller, who holds the tools, so no keys leave it alone.
    request.exec.detach_keys = Some(String::new());
    let keys = exec::detach_keys(&request.exec)?;
    crate::given::read_env_files(&mut request.exec.env)?;
    let Found {
        mut target,
        command,
        still: _still,
    } = find(home, wanted, warn)?;
    if request.no_cgroup {
        target.cgroup = String::new();
    }
    let toolbox = Toolbox::open(home, &request.tools, warn)?;
    let files = commands(&target, &command)?;
    let mut forwards = Forwards::open(home, &request.forwards, &target)?;
    adapt(&mut target, toolbox.path(), std::mem::take(&mut forwards.env));
    if request.exec.command.is_empty() {
        let preferred = std::env::var("SHELL").ok();
        let (shell, script) = (request.shell.as_deref(), request.script.as_deref());
        request.exec.command = shell::command(shell, script, preferred.as_deref());
    }
    if request.exec.workdir.is_none() {
        request.exec.workdir = Some("/".to_owned());
    }
    let users = exec::users(home, &target, &request.exec)?;
    let tools = Tools {
        root: toolbox.root(home)?,
        attach_point: &home.attach_point(),
        brought: brought(&target)?,
        links: &LINKS,
        binds: forwards.binds.clone(),
        files,
    };
    let namespaces = target.namespaces();
    let plan = exec::plan(&target, &request.exec, users, namespaces, Some(tools))?;
    // The image stays locked by `toolbox`, and the target and the ways stay, for as long as this process attends.
    let begun = &mut || forwards.settle();
    exec::visit(
        home,
        (target, plan, namespaces),
        (&request.exec, keys),
        begun,
        warn,
    )
}

/// The tools, held for as long as they are used.
enum Toolbox<'a> {
    Image(Source),
    Container(Box<Found<'a>>),
}

impl<'a> Toolbox<'a> {
    fn open(home: &'a Home, tools: &DebugTools, warn: &mut dyn FnMut(String)) -> Result<Self, EngineError> {
        Ok(match tools {
            DebugTools::Image(image) => Self::Image(Source::open(home, image)?),
            DebugTools::Container(name) if home.caller == Caller::Root => {
                Self::Container(Box::new(find(home, name, warn)?))
            }
            DebugTools::Container(name) => return Err(DebugError::ToolsOfContainer(name.clone()).into()),
        })
    }

    /// Returns the search path of the tools' own environment.
    fn path(&self) -> Option<String> {
        let env = match self {
            Self::Image(source) => source.config().env,
            Self::Container(found) => found.target.inside.process.env.clone(),
        };
        path_of(&env).map(str::to_owned)
    }

    /// Describes the root: the tools, with an overlay in memory that takes the session's writes.
    fn root(&self, home: &Home) -> Result<Root, EngineError> {
        match self {
            Self::Image(source) => Ok(root(home, source)),
            Self::Container(found) => Ok(Root::Of(found.target.hold()?)),
        }
    }
}

/// Returns the value of `PATH`.
fn path_of(env: &[String]) -> Option<&str> {
    env.iter().rev().find_map(|line| line.strip_prefix("PATH="))
}

/// Writes the small commands of a session.
fn commands(target: &Target, command: &[String]) -> Result<Vec<WrittenFile>, EngineError> {
    let process = &target.inside.process;
    let path = path_of(&process.env);
    let complaints = lint::complaints(target.root()?.as_fd(), command, path, &process.cwd);
    Ok(shell::commands(path, command, &complaints).into())
}

/// Gives the process the variables of the tools where those of the container would mislead it.
fn adapt(target: &mut Target, path: Option<String>, more: Vec<String>) {
    let path = path.unwrap_or_else(|| PATH.to_owned());
    let chroot = target.display().to_owned();
    let env = &mut target.inside.process.env;
    let is_new = |line: &String| {
        let name = line.split_once('=').map_or(line.as_str(), |(name, _)| name);
        let is_of = |other: &String| other.split_once('=').is_some_and(|(known, _)| known == name);
        name != "PATH" && name != "TARGET" && !more.iter().any(is_of)
    };
    env.retain(is_new);
    // Before the others: `HOME` is changed with the user only where it stands last. Debian's shells show the name of a
    // root that is not the machine's in their prompt.
    env.splice(
        0..0,
        [
            format!("PATH={}:{path}", shell::COMMANDS),
            format!("TARGET={PLACE}"),
            format!("debian_chroot={chroot}"),
        ]
        .into_iter()
        .chain(more),
    );
}

/// Describes the root: the tools, with an overlay in memory that takes the session's writes.
fn root(home: &Home, source: &Source) -> Root {
    let rootfs = source.rootfs();
    Root::Stored {
        storage: Storage::Overlay {
            lowers: rootfs.lowers,
            own_inodes: rootfs.own_inodes,
            upper: Upper::Tmpfs { size: None },
            volatile: false,
        },
        binds: rootfs.binds,
        // The session may be inspected by the container's root, who must not read root's files of the host there.
        private: matches!(source, Source::Host(_)) && home.caller == Caller::Root,
    }
}

/// Chooses the parts of the container's tree that are shown among the tools.
fn brought(target: &Target) -> Result<Vec<Brought>, EngineError> {
    let root = target.root()?;
    let mut brought = vec![part(target, "/", PLACE)?];
    for (paths, kind) in [
        (&DIRECTORIES[..], FileType::Directory),
        (&FILES[..], FileType::RegularFile),
    ] {
        for path in paths {
            if is_there(root.as_fd(), path, kind).map_err(|source| ExecError::Root {
                id: target.id.clone(),
                source,
            })? {
                brought.push(part(target, path, path)?);
            }
        }
    }
    Ok(brought)
}

fn part(target: &Target, path: &str, at: &str) -> Result<Brought, EngineError> {
    Ok(Brought {
        process: target.hold()?,
        path: path.to_owned(),
        at: at.to_owned(),
    })
}

/// True if the container has a file of that kind there, and no link: a link would lead to another place in a session.
fn is_there(root: BorrowedFd<'_>, path: &str, kind: FileType) -> Result<bool, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let found = match openat2(root, path, flags, Mode::empty(), resolve) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
        found => rustix::fs::fstat(found?)?,
    };
    Ok(FileType::from_raw_mode(found.st_mode) == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::OwnedFd;

    #[test]
    fn links_and_other_kinds_are_not_brought() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("etc/hosts"), "").unwrap();
        std::os::unix::fs::symlink("hosts", dir.path().join("etc/passwd")).unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let is = |path, kind| is_there(root.as_fd(), path, kind).unwrap();
        assert!(is("/etc/hosts", FileType::RegularFile));
        assert!(is("/etc", FileType::Directory));
        assert!(!is("/etc/hosts", FileType::Directory));
        assert!(!is("/etc/passwd", FileType::RegularFile), "a link");
        assert!(!is("/etc/hosts/x", FileType::RegularFile));
        assert!(!is("/proc", FileType::Directory), "nothing");
    }
}
