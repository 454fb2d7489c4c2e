//! Facts about a container's tree on which a session depends: seen here, or by the guest of the virtual machine that has the tree.

use super::lint;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2, readlinkat};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use tote_sandbox::RootLink;
use tote_sys::Errno;

/// Place of the container's tree among the tools.
pub(super) const PLACE: &str = "/target";

/// Directories of the container that take the place of the tools' own.
const DIRECTORIES: [&str; 3] = ["/proc", "/dev", "/sys"];

/// Files of the container of which the session gets copies in the place of the tools' own. Packages add users by renaming a new
/// file over the old one, which a mount would forbid; and such users are the tools', not the container's.
const COPIES: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// The most of such a file that is copied, in bytes.
pub(super) const COPIED: usize = 1 << 20;

/// Files of the container that take the place of the tools' own: they say where the process is.
const FILES: [&str; 3] = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"];

/// File of the container's time zone. The tools get a link to it: their own leads to one of their zones, which a mount would cover.
const TIME_ZONE: &str = "/etc/localtime";

/// Symbolic link for those who know cntr.
const FOR_CNTR: &str = "var/lib/cntr";

/// Word before a question to a guest.
pub const LOOK: &[u8] = b"look ";

/// Command of the container, which is looked for in its tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    pub(super) command: Vec<String>,
    /// Its search path.
    pub(super) path: Option<String>,
    pub(super) cwd: String,
}

/// Facts about a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seen {
    /// Directories and files that are shown in the place of the tools' own.
    pub(super) shown: Vec<String>,
    /// Files of which the session gets copies.
    pub(super) copies: Vec<(String, Vec<u8>)>,
    /// Links among the tools: text, path, and whether it takes the place of a file.
    links: Vec<(String, String, bool)>,
    /// Faults of the command.
    pub(super) complaints: Vec<String>,
}

impl Seen {
    /// Looks at a tree.
    pub(super) fn of(root: BorrowedFd<'_>, asked: &Asked) -> Result<Self, Errno> {
        let mut seen = Self::default();
        for (paths, kind) in [
            (&DIRECTORIES[..], FileType::Directory),
            (&FILES[..], FileType::RegularFile),
        ] {
            for path in paths {
                if is_there(root, path, kind)? {
                    seen.shown.push((*path).to_owned());
                }
            }
        }
        for path in COPIES {
            match copied(root, path)? {
                Copied::Missing => {}
                Copied::Content(content) => seen.copies.push((path.to_owned(), content)),
                Copied::Closed => seen.shown.push(path.to_owned()),
            }
        }
        let links = links(root)?.into_iter();
        seen.links = links
            .map(|RootLink { text, path, replaces }| (text, path, replaces))
            .collect();
        seen.complaints = lint::complaints(root, &asked.command, asked.path.as_deref(), &asked.cwd);
        Ok(seen)
    }

    pub(super) fn links(&self) -> Vec<RootLink> {
        let links = self.links.iter().cloned();
        links
            .map(|(text, path, replaces)| RootLink { text, path, replaces })
            .collect()
    }
}

/// Answers a question of [`LOOK`] in the guest, about the container with this root.
///
/// # Errors
/// The reason, in one line.
pub fn look_in_guest(asked: &[u8], root: OwnedFd) -> Result<(), String> {
    let asked = serde_json::from_slice(asked).map_err(|error| error.to_string())?;
    let seen = Seen::of(root.as_fd(), &asked)
        .map_err(|errno| format!("cannot look into the root of the container: {errno}"))?;
    let text = serde_json::to_vec(&seen).map_err(|error| error.to_string())?;
    let mut out = std::io::stdout();
    let written = out.write_all(&text).and_then(|()| out.flush());
    written.map_err(|error| format!("cannot say what is in the container: {error}"))
}

pub(super) fn link(text: String, path: &str, replaces: bool) -> RootLink {
    let path = path.to_owned();
    RootLink { text, path, replaces }
}

/// Lists the links among the tools that lead to the container.
fn links(root: BorrowedFd<'_>) -> Result<Vec<RootLink>, Errno> {
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

/// A file of the container.
enum Copied {
    Missing,
    Content(Vec<u8>),
    /// File that cannot be copied, since its owner has closed it to the caller, or it is too long.
    Closed,
}

fn copied(root: BorrowedFd<'_>, path: &str) -> Result<Copied, Errno> {
    if !is_there(root, path, FileType::RegularFile)? {
        return Ok(Copied::Missing);
    }
    Ok(match tote_rootfs::read_in_root(root, path, COPIED) {
        Ok(Some(content)) => Copied::Content(content),
        Ok(None) => Copied::Missing,
        Err(_) => Copied::Closed,
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

    #[test]
    fn facts_pass_as_text() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["etc", "proc", "bin"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("etc/hosts"), "").unwrap();
        std::fs::write(dir.path().join("etc/passwd"), b"a\xff").unwrap();
        std::fs::write(dir.path().join("etc/localtime"), "").unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let asked = Asked {
            command: vec!["absent".to_owned()],
            path: None,
            cwd: "/".to_owned(),
        };
        let seen = Seen::of(root.as_fd(), &asked).unwrap();
        assert_eq!(seen.shown, ["/proc", "/etc/hosts"]);
        assert_eq!(seen.copies, [("/etc/passwd".to_owned(), b"a\xff".to_vec())]);
        assert_eq!(seen.complaints.len(), 1);
        let zone = seen.links().into_iter().find(|link| link.replaces).unwrap();
        assert_eq!(zone.text, "/target/etc/localtime");
        let text = serde_json::to_vec(&seen).unwrap();
        assert_eq!(serde_json::from_slice::<Seen>(&text).unwrap(), seen);
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
