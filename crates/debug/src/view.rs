//! The tree that a session sees: the tools with the container in a directory of them, or the reverse.

use super::launch::{ENTRIES, Launchers, PLACE as PLACE_OF_TOOLS};
use super::seen::{Asked, Seen};
use super::{path_of, shell};
use crate::EngineError;
use crate::exec::{ExecError, Target};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat, statat};
use tote_sandbox::{Brought, RootLink, Whole, WrittenFile};
use tote_sys::Errno;

/// Place of the container's tree among the tools.
pub(super) const PLACE: &str = "/target";

/// Directories of the container that take the place of the tools' own.
pub(super) const DIRECTORIES: [&str; 3] = ["/proc", "/dev", "/sys"];

/// Files of the container of which the session gets copies in the place of the tools' own. Packages add users by renaming a new
/// file over the old one, which a mount would forbid; and such users are the tools', not the container's.
pub(super) const COPIES: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// The most of such a file that is copied, in bytes.
const COPIED: usize = 1 << 20;

/// Files of the container that take the place of the tools' own: they say where the process is.
pub(super) const FILES: [&str; 3] = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"];

/// File of the container's time zone. The tools get a link to it: their own leads to one of their zones, which a mount would cover.
const TIME_ZONE: &str = "/etc/localtime";

/// Symbolic link for those who know cntr.
const FOR_CNTR: &str = "var/lib/cntr";

/// Search path of tools that say nothing of it.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Parts of a session's tree beside the tools.
pub(super) struct View {
    is_target: bool,
    pub(super) brought: Vec<Brought>,
    pub(super) links: Vec<RootLink>,
    pub(super) files: Vec<WrittenFile>,
    /// Shell that is started unless another is asked for.
    pub shell: Option<&'static str>,
    /// Variables by which the tools find their data.
    env: Vec<String>,
}

impl View {
    /// Looks at the container's tree; with `launchers` it is to be the root, and these are the tools in it.
    ///
    /// # Errors
    /// Fails if its root cannot be read.
    pub(crate) fn new(
        target: &Target,
        command: &[String],
        launchers: Option<&Launchers>,
    ) -> Result<Self, EngineError> {
        let Some(launchers) = launchers else {
            let root = target.root()?;
            let seen = Seen::of(root.as_fd(), &asked(target, command));
            let seen = seen.map_err(|source| unreadable(target, source))?;
            return Self::of_tools(target, command, seen);
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
            links,
            files: vec![shell::debugger(shell::COMMANDS_ASIDE, "/.tote/bin/sh", "/")],
            env: launchers.env.clone(),
            // The first one in PATH: the container's own, else that of the tools.
            shell: Some("sh"),
        })
    }

    /// Makes the view with the tools as the root.
    pub(super) fn of_tools(target: &Target, command: &[String], seen: Seen) -> Result<Self, EngineError> {
        let mut brought = vec![part(target, "/", PLACE)?];
        brought.extend(seen.shown.iter().map(|path| shown(path)));
        let links = seen.links();
        let mut files = commands(target, command, &seen.complaints);
        files.extend(
            seen.copies
                .into_iter()
                .map(|(path, content)| written(&path, content)),
        );
        Ok(Self {
            is_target: false,
            brought,
            links,
            files,
            shell: None,
            env: Vec::new(),
        })
    }

    /// Returns the variables of the session; `path` is the search path of the tools.
    pub(super) fn variables(&self, target: &Target, path: Option<String>) -> Vec<String> {
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
        let data = self.env.iter().filter(|line| !is_set(line)).cloned();
        own.into_iter().chain(data).collect()
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
fn commands(target: &Target, command: &[String], complaints: &[String]) -> Vec<WrittenFile> {
    let path = path_of(&target.own().process.env);
    let mut files: Vec<WrittenFile> = shell::commands(path, command, complaints).into();
    files.push(shell::debugger(shell::COMMANDS, "/bin/sh", PLACE));
    files
}

/// A file of the container.
pub(super) enum Copied {
    Missing,
    Content(Vec<u8>),
    /// File that cannot be copied, since its owner has closed it to the caller, or it is too long.
    Closed,
}

pub(super) fn copied(root: BorrowedFd<'_>, path: &str) -> Result<Copied, Errno> {
    if !is_there(root, path, FileType::RegularFile)? {
        return Ok(Copied::Missing);
    }
    Ok(match tote_rootfs::read_in_root(root, path, COPIED) {
        Ok(Some(content)) => Copied::Content(content),
        Ok(None) => Copied::Missing,
        Err(_) => Copied::Closed,
    })
}

fn written(path: &str, content: Vec<u8>) -> WrittenFile {
    WrittenFile {
        path: path.to_owned(),
        mode: 0o644,
        content,
    }
}

fn link(text: String, path: &str, replaces: bool) -> RootLink {
    let path = path.to_owned();
    RootLink { text, path, replaces }
}

/// Lists the links among the tools that lead to the container.
pub(super) fn links(root: BorrowedFd<'_>) -> Result<Vec<RootLink>, Errno> {
    let mut links = vec![link(PLACE.to_owned(), FOR_CNTR, false)];
    for path in [TIME_ZONE].iter().chain(&FILES) {
        let text = match linked(root, path)? {
            Some(text) => text,
            None if *path == TIME_ZONE && is_there(root, path, FileType::RegularFile)? => {
                format!("{PLACE}{path}")
            }
            None => continue,
        };
        links.push(link(text, path, true));
    }
    Ok(links)
}

/// Returns the path by which the session reaches a file of `/etc` that is a link in the container: of a time zone, the path says the
/// name. `None` for other files, and for a link that leads out of the container's tree or to anything but a file.
fn linked(root: BorrowedFd<'_>, path: &str) -> Result<Option<String>, Errno> {
    let open = |flags, resolve| {
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        match openat2(
            root,
            path,
            flags,
            Mode::empty(),
            resolve | ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        ) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            found => found.map(Some),
        }
    };
    let Some(own) = open(OFlags::NOFOLLOW, ResolveFlags::NO_SYMLINKS)? else {
        return Ok(None);
    };
    let kind = |file: &OwnedFd| Ok::<_, Errno>(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode));
    if kind(&own)? != FileType::Symlink {
        return Ok(None);
    }
    let is_file = match open(OFlags::empty(), ResolveFlags::empty())? {
        Some(found) => kind(&found)? == FileType::RegularFile,
        None => false,
    };
    let text = readlinkat(&own, "", Vec::new())?;
    let Some(text) = text.to_str().ok().filter(|_| is_file) else {
        return Ok(None);
    };
    // The files are directly in /etc.
    let below = text.strip_prefix("../").unwrap_or(text);
    Ok(match text.strip_prefix('/') {
        _ if below.split('/').any(|part| part == "..") => None,
        Some(_) => Some(format!("{PLACE}{text}")),
        None if below == text => Some(format!("{PLACE}/etc/{text}")),
        None => Some(format!("{PLACE}/{below}")),
    })
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

/// True if the container has a file of that kind there, and no link: a link would lead to another place in a session.
pub(super) fn is_there(root: BorrowedFd<'_>, path: &str, kind: FileType) -> Result<bool, Errno> {
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

    #[test]
    fn a_time_zone_is_known_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in ["etc", "usr/share/zoneinfo/Asia"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        std::fs::write(at("usr/share/zoneinfo/Asia/Tokyo"), "").unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let zone = || {
            let found = links(root.as_fd()).unwrap();
            let zone = found.into_iter().find(|link| link.path == TIME_ZONE);
            zone.map(|link| link.text)
        };
        assert_eq!(zone(), None);
        let tokyo = "/target/usr/share/zoneinfo/Asia/Tokyo";
        for (text, expected) in [
            ("/usr/share/zoneinfo/Asia/Tokyo", Some(tokyo)),
            ("../usr/share/zoneinfo/Asia/Tokyo", Some(tokyo)),
            ("zone", Some("/target/etc/zone")),
            ("/usr/share/zoneinfo/Asia/Edo", None),
            ("/usr/share/zoneinfo/Asia", None),
            ("../../usr/share/zoneinfo/Asia/Tokyo", None),
            ("/usr/../usr/share/zoneinfo/Asia/Tokyo", None),
        ] {
            std::os::unix::fs::symlink(text, at("etc/localtime")).unwrap();
            std::fs::write(at("etc/zone"), "").unwrap();
            assert_eq!(zone().as_deref(), expected, "{text}");
            std::fs::remove_file(at("etc/localtime")).unwrap();
        }
        std::fs::write(at("etc/localtime"), "").unwrap();
        assert_eq!(zone().as_deref(), Some("/target/etc/localtime"));
        assert_eq!(links(root.as_fd()).unwrap().len(), 2, "no other file is a link");
        std::os::unix::fs::symlink("../usr/share/zoneinfo/Asia/Tokyo", at("etc/resolv.conf")).unwrap();
        let last = links(root.as_fd()).unwrap().pop();
        assert_eq!(last, Some(link(tokyo.to_owned(), "/etc/resolv.conf", true)));
    }
}
