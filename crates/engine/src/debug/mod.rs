//! `debug`: a process in a running container that brings its own tools.
//!
//! The process has everything of the container but its root: its namespaces, cgroup, user, capabilities, filter and
//! limits. Its root is a tree of tools, in a mount namespace of its own, and the container's tree is `/target` in it.

mod context;
mod error;
mod foreign;
mod noted;

pub use error::DebugError;

use crate::exec::{self, ExecError, Executed, Target};
use crate::rootfs::Source;
use crate::{Caller, EngineError, Home, container};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2};
use tote_bundle::{ExecOptions, Image};
use tote_rootfs::{Storage, Upper};
use tote_sandbox::{Brought, Root, Tools};
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
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Command that becomes the most comfortable shell of the tools.
const SHELL: [&str; 3] = [
    "/bin/sh",
    "-c",
    "for shell in bash zsh; do command -v $shell >/dev/null 2>&1 && exec $shell; done; exec sh",
];

/// Request for a session.
#[derive(Debug)]
pub struct DebugRequest {
    /// Image of the tools.
    pub tools: Image,
    /// Command and its surroundings; without a command a shell of the tools is started.
    pub exec: ExecOptions,
}

/// Runs a process with tools in a running container: one of ours by name, or one of another engine
/// (`docker:NAME`, `podman:NAME`, `pid:N` and so on).
///
/// # Errors
/// [`EngineError`]; the process is gone then.
pub fn debug(
    home: &Home,
    wanted: &str,
    mut request: DebugRequest,
    warn: &mut dyn FnMut(String),
) -> Result<Executed, EngineError> {
    // A session ends with its caller, who holds the tools, so no keys leave it alone.
    request.exec.detach_keys = Some(String::new());
    let keys = exec::detach_keys(&request.exec)?;
    crate::given::read_env_files(&mut request.exec.env)?;
    let mut target = find(home, wanted)?;
    let source = Source::open(home, &request.tools)?;
    adapt(&mut target, &source);
    if request.exec.command.is_empty() {
        request.exec.command = SHELL.map(str::to_owned).into();
    }
    if request.exec.workdir.is_none() {
        request.exec.workdir = Some("/".to_owned());
    }
    let users = exec::users(home, &target, &request.exec)?;
    let tools = Tools {
        root: root(home, &source),
        attach_point: &home.attach_point(),
        brought: brought(&target)?,
        links: &LINKS,
    };
    let namespaces = target.namespaces();
    let plan = exec::plan(&target, &request.exec, users, namespaces, Some(tools))?;
    // The image stays locked by `source` for as long as this process attends.
    exec::visit(home, (target, plan, namespaces), &request.exec, keys, warn)
}

/// Finds the process to join: a bare name is a container of ours, or else one of another engine.
fn find(home: &Home, wanted: &str) -> Result<Target, EngineError> {
    if let Some((engine, name)) = foreign::parse(wanted)? {
        return Ok(context::of_process(foreign::find(engine, name)?, wanted)?);
    }
    match container::find(home, wanted) {
        Ok(entry) => Target::of(home, entry),
        Err(error) if error.is_missing_container() => match foreign::find_anywhere(wanted)? {
            Some(process) => Ok(context::of_process(process, wanted)?),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Gives the process the variables of the tools where those of the container would mislead it.
fn adapt(target: &mut Target, source: &Source) {
    let path = source
        .config()
        .env
        .into_iter()
        .find(|line| line.starts_with("PATH="));
    let env = &mut target.inside.process.env;
    env.retain(|line| !line.starts_with("PATH=") && !line.starts_with("TARGET="));
    // Before the others: `HOME` is changed with the user only where it stands last.
    env.splice(
        0..0,
        [path.unwrap_or_else(|| PATH.to_owned()), format!("TARGET={PLACE}")],
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
