//! The tree that a session sees: the tools with the container in a directory of them, or the reverse.

use super::launch::{ENTRIES, Launchers, PLACE as PLACE_OF_TOOLS};
use super::seen::{Asked, PLACE, Seen, link};
use super::{path_of, shell};
use crate::EngineError;
use crate::exec::{ExecError, Target};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};
use tote_sandbox::{Brought, OwnDev, RootLink, Whole, WrittenFile};
use tote_sys::Errno;

/// Search path of tools that say nothing of it.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Parts of a session's tree beside the tools.
pub(super) struct View {
    is_target: bool,
    pub(super) brought: Vec<Brought>,
    /// `/dev` of the tools, unless the container's tree is the root.
    pub(super) dev: Option<OwnDev>,
    pub(super) links: Vec<RootLink>,
    pub(super) files: Vec<WrittenFile>,
    /// Shell that is started unless another is asked for.
    pub shell: Option<&'static str>,
    /// Variables by which the tools find their data.
    env: Vec<String>,
}

impl View {
    /// Looks at the container's tree; with `launchers` it is to be the root, and these are the tools in it. `command` is the container's, and
    /// `env` are the variables of programs of the container.
    ///
    /// # Errors
    /// Fails if its root cannot be read.
    pub(crate) fn new(
        target: &Target,
        (command, env): (&[String], &[String]),
        launchers: Option<&Launchers>,
    ) -> Result<Self, EngineError> {
        let Some(launchers) = launchers else {
            let root = target.root()?;
            let seen = Seen::of(root.as_fd(), &asked(target, command));
            let seen = seen.map_err(|source| unreadable(target, source))?;
            return Self::of_tools(target, (command, env), seen);
        };
        let root = target.root()?;
        let (paths, links) = entries(root.as_fd()).map_err(|source| unreadable(target, source))?;
        let brought = paths
            .iter()
            .map(|path| part(target, path, path))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            is_target: true,
            brought,
            dev: None,
            links,
            files: vec![shell::debugger(shell::COMMANDS_ASIDE, "/.tote/bin/sh", "/")],
            env: launchers.env.clone(),
            // The first one in PATH: the container's own, else that of the tools.
            shell: Some("sh"),
        })
    }

    /// Makes the view with the tools as the root.
    pub(super) fn of_tools(
        target: &Target,
        (command, env): (&[String], &[String]),
        seen: Seen,
    ) -> Result<Self, EngineError> {
        let mut brought = vec![part(target, "/", PLACE)?];
        brought.extend(seen.shown.iter().map(|path| shown(path)));
        let (dev, links) = (Some(seen.dev()), seen.links());
        let mut files = commands((command, env), &seen);
        files.extend(
            seen.copies
                .into_iter()
                .map(|(path, content)| written(&path, content)),
        );
        Ok(Self {
            is_target: false,
            brought,
            dev,
            links,
            files,
            shell: None,
            env: Vec::new(),
        })
    }

    /// True if the session has files of accounts of its own, and not the container's.
    pub(super) fn has_accounts(&self) -> bool {
        !self.is_target
    }

    /// Returns the variables of the session; `path` is the search path of the tools.
    /// In the container's whole environment its own variables for data win.
    pub(super) fn variables(&self, target: &Target, path: Option<String>, whole: bool) -> Vec<String> {
        let path = path.unwrap_or_else(|| PATH.to_owned());
        let (path, place) = if self.is_target {
            let own = path_of(&target.own().process.env).unwrap_or(tote_bundle::DEFAULT_PATH);
            let aside = path.split(':').map(|dir| format!(":{PLACE_OF_TOOLS}{dir}"));
            let aside = format!("{}{}", shell::COMMANDS_ASIDE, aside.collect::<String>());
            (format!("{own}:{aside}"), "/")
        } else {
            (format!("{}:{path}", shell::COMMANDS), PLACE)
        };
        // Debian's shells show the name of a root that is not the machine's in their prompt.
        let own = [
            format!("PATH={path}"),
            format!("TARGET={place}"),
            format!("debian_chroot={}", target.display()),
        ];
        let is_set = |line: &String| {
            let name = line.split_once('=').map(|(name, _)| format!("{name}="));
            let mut set = target.own().process.env.iter();
            name.is_some_and(|name| set.any(|other| other.starts_with(&name)))
        };
        let data = self.env.iter().filter(|line| !(whole && is_set(line)));
        own.into_iter().chain(data.cloned()).collect()
    }
}

fn unreadable(target: &Target, source: Errno) -> ExecError {
    let id = target.id.clone();
    ExecError::Root { id, source }
}

/// Paths of a root's entries, and the links among them.
type Entries = (Vec<String>, Vec<RootLink>);

/// Lists the entries of a root that can be shown in another one: directories, files, and links as they are.
fn entries(root: BorrowedFd<'_>) -> Result<Entries, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat(root, c".", flags, Mode::empty())?;
    let (mut paths, mut links) = (Vec::new(), Vec::new());
    for entry in Dir::new(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        if matches!(name, "." | "..") || Some(name) == PLACE_OF_TOOLS.strip_prefix('/') {
            continue;
        }
        if paths.len() + links.len() >= ENTRIES {
            return Err(Errno::TOOBIG);
        }
        let found = match statat(root, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            found => found?,
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory | FileType::RegularFile => paths.push(format!("/{name}")),
            FileType::Symlink => {
                let text = readlinkat(root, name, Vec::new())?;
                links.push(link(text.to_string_lossy().into_owned(), name, false));
            }
            _ => {}
        }
    }
    paths.sort();
    Ok((paths, links))
}

/// Returns the question about the command of a container.
pub(super) fn asked(target: &Target, command: &[String]) -> Asked {
    let process = &target.own().process;
    Asked {
        command: command.to_vec(),
        path: path_of(&process.env).map(str::to_owned),
        cwd: process.cwd.clone(),
    }
}

/// Writes the small commands of a session.
fn commands((command, env): (&[String], &[String]), seen: &Seen) -> Vec<WrittenFile> {
    let mut files: Vec<WrittenFile> =
        shell::commands((env, seen.env.as_deref()), command, &seen.complaints).into();
    files.push(shell::debugger(shell::COMMANDS, "/bin/sh", PLACE));
    files
}

fn written(path: &str, content: Vec<u8>) -> WrittenFile {
    WrittenFile {
        path: path.to_owned(),
        mode: 0o644,
        content,
    }
}

fn part(target: &Target, path: &str, at: &str) -> Result<Brought, EngineError> {
    Ok(Brought {
        from: Whole::Process(target.hold()?),
        path: path.to_owned(),
        at: at.to_owned(),
    })
}

/// Shows a part of the tree that is at [`PLACE`] at the same path among the tools.
fn shown(path: &str) -> Brought {
    Brought {
        from: Whole::Shown(PLACE),
        path: path.to_owned(),
        at: path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::OwnedFd;

    #[test]
    fn entries_of_a_root() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["usr", ".tote"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("usr/bin", dir.path().join("bin")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let (paths, links) = entries(root.as_fd()).unwrap();
        assert_eq!(paths, ["/file", "/usr"]);
        assert_eq!(links, [link("usr/bin".to_owned(), "bin", false)]);
    }
}
