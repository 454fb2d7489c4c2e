//! Sessions with tools: a process in a container that brings its own root.
//!
//! Invariants:
//! - Nothing of the container changes: its files, its record and its processes are as they were.
//! - A session has no right that its target does not have, unless the caller gives it by an option; nor one that the caller does not have.
//! - What the container has made decides nothing that the tools run, unless the caller asks for it, and never in a session with more rights.
//!
//! The process has everything of the container but its root: its namespaces, cgroup, user, capabilities, filter and
//! limits. Its root is a tree of tools, in a mount namespace of its own, and the container's tree is `/target` in it. A
//! stopped container, or an image, gets a first process that only waits (`still.rs`).

mod context;
mod devices;
mod effective;
mod engines;
mod environment;
mod error;
mod filter;
mod filters;
mod find;
mod foreign;
mod forward;
mod kept;
mod kubernetes;
mod launch;
mod lint;
mod live;
mod machine;
mod noted;
mod processes;
mod prompt;
mod request;
mod rights;
mod seen;
mod shell;
mod still;
mod view;

pub use error::{DebugError, KeepError};
pub use filters::forget as forget_filters;
pub use forward::DebugForwards;
pub use kept::{KeptTools, forget_kept, kept as kept_tools};
pub use launch::forget as forget_launchers;
pub use request::{DebugRequest, DebugTools};
pub use seen::{LOOK, look_in_guest};
pub use shell::SHELLS as DEBUG_SHELLS;

use find::{Found, find};
use forward::Forwards;
use kept::Layer;
use launch::{ASIDE, Launchers, ToolsTree};
use noted::OtherContainer;
use prompt::Prompt;
use rights::Rights;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use tote_bundle::EnvEntry;
use tote_life::exec::{self, ExecError, Executed, Target};
use tote_life::{container, pod, prepare, proc, run, vm};
use tote_prepare::rootfs::Source;
use tote_prepare::{HostInit, RunRequest, flat, given, making, prepared, rootfs, tree};
use tote_records::{Caller, EngineError, Home};
use tote_rootfs::{Storage, Upper};
use tote_sandbox::{Aside, Root, Tools, WrittenFile};
use tote_spec::NamespaceType;
use view::View;

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
    check(&request)?;
    // A session ends with its caller, who holds the tools, so no keys leave it alone.
    request.exec.detach_keys = Some(String::new());
    let keys = exec::detach_keys(&request.exec)?;
    given::read_env_files(&mut request.exec.env)?;
    let rights = Rights::of(&request);
    rights.check(&request)?;
    let found = find(home, wanted, warn)?;
    rights.warning(&found.target).into_iter().for_each(&mut *warn);
    request.exec.mark = rights.mark(&found.target);
    if found.target.guest.is_some() {
        return machine::debug(home, found, (request, keys), warn);
    }
    let Found {
        mut target,
        command,
        other,
        specs,
        still: _still,
    } = found;
    if request.no_cgroup {
        target.cgroup = String::new();
    }
    let filter = filter::choose(home, &mut target.inside, &specs, &request.exec);
    let toolbox = Toolbox::open(home, &request.tools, warn)?;
    let launchers = (request.target_view)
        .then(|| toolbox.launchers(home))
        .transpose()?;
    let account = (request.effective_user.as_ref())
        .map(|name| effective::apply(name, &target, &mut request.exec))
        .transpose()?;
    let users = exec::users(home, &target, &request.exec)?;
    let own = environment::of_programs(&target, users.as_ref(), &request);
    let mut view = View::new(&target, (&command, &own), launchers.as_ref())?;
    if let Some(account) = account.filter(|_| view.has_accounts()) {
        account.introduce(&mut view.files, |path| toolbox.read(path))?;
    }
    let mut forwards = Forwards::open(home, &request.forwards, (&target, request.target_view))?;
    let variables = view.variables(&target, toolbox.path(), request.env_of_container);
    let variables = [variables, std::mem::take(&mut forwards.env)].concat();
    environment::adapt(&mut target, variables, users.as_ref(), &request);
    let own = complete(&mut request, &view);
    let layer = (request.keep)
        .then(|| toolbox.layer(home, (&target, other.as_ref()), &request.tools, &rights))
        .transpose()?;
    let tools = Tools {
        root: toolbox.root(home, layer.as_ref())?,
        aside: launchers.as_ref().map(|launchers| Aside {
            at: ASIDE,
            layer: &launchers.layer,
        }),
        mapped: maps_layers(&rustix::system::uname().release().to_string_lossy()),
        attach_point: &home.attach_point(),
        brought: view.brought,
        dev: view.dev,
        links: view.links,
        binds: forwards.binds.clone(),
        files: [view.files, std::mem::take(&mut forwards.files), own].concat(),
        filter,
    };
    let namespaces = target.namespaces();
    let plan = exec::plan(&target, &request.exec, users, namespaces, Some(tools))?;
    // The image stays locked by `toolbox`, and the target and the ways stay, for as long as this process attends.
    exec::visit(
        home,
        (*target, plan, namespaces),
        (&request.exec, keys),
        &mut |child| forwards.begin(child),
        warn,
    )
}

/// Refuses options that cannot be given together.
fn check(request: &DebugRequest) -> Result<(), EngineError> {
    if request.script.is_some() && !request.exec.command.is_empty() {
        return Err(DebugError::TwoCommands.into());
    }
    if request.target_view && !request.packages.is_empty() {
        return Err(KeepError::PackagesInTarget.into());
    }
    Ok(())
}

/// Fills in a command and a directory where the request has none. Returns files for the command.
fn complete(request: &mut DebugRequest, view: &View) -> Vec<WrittenFile> {
    let mut files = Vec::new();
    if request.exec.command.is_empty() {
        let preferred = std::env::var("SHELL").ok();
        let (shell, script) = (request.shell.as_deref(), request.script.as_deref());
        let prompt = match script {
            None => Prompt::of_caller(),
            Some(_) => Prompt::default(),
        };
        let shell = shell.or(view.shell);
        request.exec.command = shell::command(shell, script, preferred.as_deref(), &prompt);
        // A value that the user gives wins over that of a file.
        let variable = prompt.variable().map(EnvEntry::Set);
        request.exec.env.file_entries.splice(0..0, variable);
        files = prompt.files();
    }
    if !request.packages.is_empty() {
        let command = std::mem::take(&mut request.exec.command);
        request.exec.command = shell::installing(&request.packages, command);
    }
    request.exec.workdir.get_or_insert_with(|| "/".to_owned());
    files
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
            DebugTools::Container(name) => {
                let found = find(home, name, warn)?;
                if let Some(entry) = found
                    .target
                    .entry
                    .as_ref()
                    .filter(|_| found.target.guest.is_some())
                {
                    vm::check_here(&entry.container, "take tools from")?;
                }
                Self::Container(Box::new(found))
            }
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

    /// Reads a file of the tools; `None` without a file that can be read.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, EngineError> {
        let found = match self {
            Self::Image(source) => tote_rootfs::read_in_root(source.dir()?, path, seen::COPIED),
            Self::Container(found) => tote_rootfs::read_in_root(found.target.root()?, path, seen::COPIED),
        };
        Ok(found.ok().flatten())
    }

    /// Finds the launchers of the tools, for a session in which these are not the root.
    fn launchers(&self, home: &Home) -> Result<Launchers, EngineError> {
        let search = self.path().unwrap_or_else(|| view::PATH.to_owned());
        let own;
        let (root, top, fixed) = match self {
            // Its programs are where this machine has them; what else this machine has is not shown.
            Self::Image(Source::Host(image)) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                own = open("/", flags, Mode::empty()).map_err(|source| EngineError::Kernel {
                    attempt: "open the root directory",
                    source,
                })?;
                (own.as_fd(), image.layer(), None)
            }
            Self::Image(source) => (source.dir()?, source.dir()?, source.tree_key()),
            Self::Container(found) => {
                own = found.target.root()?;
                (own.as_fd(), own.as_fd(), None)
            }
        };
        let tools = ToolsTree {
            root,
            top,
            is_here: matches!(self, Self::Image(Source::Host(_))),
            fixed,
            search,
        };
        Launchers::open(home, &tools)
    }

    /// Opens the layer in which the session's writes stay.
    fn layer(
        &self,
        home: &Home,
        (target, other): (&Target, Option<&OtherContainer>),
        tools: &DebugTools,
        rights: &Rights,
    ) -> Result<Layer, EngineError> {
        let layers = match (&target.entry, other) {
            (Some(entry), _) => kept::of_entry(home, entry)?,
            (None, Some(other)) => kept::of_other(home, other)?,
            (None, None) => return Err(KeepError::NotKept(target.display().to_owned()).into()),
        };
        match (self, tools) {
            (Self::Image(source), DebugTools::Image(image)) => Layer::open(&layers, source, image, rights),
            _ => Err(KeepError::DirectoryKept.into()),
        }
    }

    /// Describes the root: the tools, with an overlay that takes the session's writes.
    fn root(&self, home: &Home, layer: Option<&Layer>) -> Result<Root, EngineError> {
        match self {
            Self::Image(source) => {
                let upper = layer.map_or(Upper::Tmpfs { size: None }, Layer::upper);
                Ok(root(home, source, upper))
            }
            Self::Container(found) => Ok(Root::Of(root_of(&found.target)?)),
        }
    }
}

/// True if a kernel of this release can make an overlay of id-mapped layers, as Linux can since 5.19.
fn maps_layers(release: &str) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    (next(), next()) >= (Some(5), Some(19))
}

/// Returns the value of `PATH`.
fn path_of(env: &[String]) -> Option<&str> {
    env.iter().rev().find_map(|line| line.strip_prefix("PATH="))
}

/// Copies the mount of a container's root, with the rights that its user namespace gives. This process cannot do so once it has
/// entered the user namespace of the container that the session is for.
fn root_of(target: &Target) -> Result<OwnedFd, EngineError> {
    let mut namespaces = tote_sandbox::clone_flag(NamespaceType::Mount);
    if target.namespaces().user {
        namespaces |= tote_sandbox::clone_flag(NamespaceType::User);
    }
    let copied = tote_sys::root_of(target.init.as_fd(), namespaces);
    Ok(copied.map_err(|source| {
        target.or_ended(ExecError::Root {
            id: target.id.clone(),
            source,
        })
    })?)
}

/// Describes the root: the tools, with an overlay that takes the session's writes.
fn root(home: &Home, source: &Source, upper: Upper) -> Root {
    let rootfs = source.rootfs();
    Root::Stored {
        storage: Storage::Overlay {
            lowers: rootfs.lowers,
            own_inodes: rootfs.own_inodes,
            upper,
            volatile: false,
        },
        binds: rootfs.binds,
        // The session may be inspected by the container's root, who must not read root's files of the host there.
        private: matches!(source, Source::Host(_)) && home.caller == Caller::Root,
        nosuid: false,
    }
}

#[cfg(test)]
mod tests {
    use super::maps_layers;

    #[test]
    fn layers_are_mapped_since_a_release() {
        for (release, can) in [
            ("5.18.19-generic", false),
            ("5.19.0", true),
            ("6.1.0-33-amd64", true),
            ("10.0", true),
            ("4.20.1", false),
            ("", false),
        ] {
            assert_eq!(maps_layers(release), can, "{release}");
        }
    }
}
