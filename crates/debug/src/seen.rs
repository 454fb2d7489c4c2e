//! Facts about a container's tree on which a session depends: seen here, or by the guest of the virtual machine that has the tree.

use super::devices;
use super::environment::home_of;
use super::lint;
use super::prompt::visible;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, fstat, openat, readlinkat, statat};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use tote_sandbox::{DeviceOf, OwnDev, RootLink};
use tote_sys::Errno;

/// Place of the container's tree among the tools.
pub(super) const PLACE: &str = "/target";

/// Directories of the container that take the place of the tools' own: file systems of the kernel's, which is looked at when they are shown.
const DIRECTORIES: [&str; 2] = ["/proc", "/sys"];

/// Files of the container of which the session gets copies in the place of the tools' own. Packages add users by renaming a new
/// file over the old one, which a mount would forbid; and such users are the tools', not the container's. A copy has the names, and
/// nothing that leads a tool to a file of the container.
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
    /// Devices of the container beside those that every container has: path below `/dev`, whether it is a block device, and number.
    #[serde(default)]
    devices: Vec<(String, bool, u64)>,
    /// Faults of the command.
    pub(super) complaints: Vec<String>,
    /// Program of the container that starts another one with further variables, env(1).
    #[serde(default)]
    pub(super) env: Option<String>,
}

/// Directories in which env(1) is looked for.
const OF_ENV: &str = "/usr/bin:/bin";

impl Seen {
    /// Looks at a tree.
    pub(super) fn of(root: BorrowedFd<'_>, asked: &Asked) -> Result<Self, Errno> {
        let mut seen = Self::default();
        let places = Places::open(root)?;
        for path in DIRECTORIES {
            if places.kind(path)? == Some(FileType::Directory) {
                seen.shown.push(path.to_owned());
            }
        }
        seen.devices = devices::of(root)?;
        seen.links.push((PLACE.to_owned(), FOR_CNTR.to_owned(), false));
        for path in [TIME_ZONE].iter().chain(&FILES) {
            let text = match places.kind(path)? {
                Some(FileType::Symlink) => places.linked(path)?,
                Some(FileType::RegularFile) if *path == TIME_ZONE => Some(format!("{PLACE}{path}")),
                Some(FileType::RegularFile) => {
                    seen.shown.push((*path).to_owned());
                    None
                }
                _ => None,
            };
            let link = text.map(|text| (text, (*path).to_owned(), true));
            seen.links.extend(link);
        }
        for path in COPIES {
            // Where the file is too long, or closed to the caller, the tools' own one stays: the container's would bring its lines along.
            let copied = places.copied(path)?;
            seen.copies
                .extend(copied.map(|content| (path.to_owned(), names_of(path, &content))));
        }
        let complaints = lint::complaints(root, &asked.command, asked.path.as_deref(), &asked.cwd);
        seen.complaints = complaints.iter().map(|line| visible(line)).collect();
        let env = tote_rootfs::lookup_executable(root, "env".as_ref(), OF_ENV.as_ref(), "/".as_ref());
        seen.env = env.ok().and_then(|path| path.to_str().map(str::to_owned));
        Ok(seen)
    }

    /// Describes the `/dev` of the session.
    pub(super) fn dev(&self) -> OwnDev {
        let devices = self.devices.iter().cloned();
        let devices = devices.map(|(name, block, number)| DeviceOf { name, block, number });
        OwnDev {
            container: PLACE,
            devices: devices.collect(),
        }
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

/// Returns the names of a file of accounts. Each user has the home directory and the shell of a user of the tools, since a shell reads its
/// settings at its home; and a name that would reach a terminal as an order to it is left out.
fn names_of(path: &str, content: &[u8]) -> Vec<u8> {
    let is_plain = |line: &&str| {
        !line.contains(|letter: char| letter.is_control() || letter == char::REPLACEMENT_CHARACTER)
    };
    let text = String::from_utf8_lossy(content);
    let mut names = String::with_capacity(text.len());
    for line in text.lines().filter(is_plain) {
        let mut fields: Vec<&str> = line.split(':').collect();
        // Other lines are comments, or orders to take names from elsewhere.
        let is_entry = fields.len() >= 3 && !fields[0].is_empty() && !line.starts_with(['+', '-', '#']);
        let Some(id) = fields
            .get(2)
            .and_then(|id| id.parse::<u32>().ok())
            .filter(|_| is_entry)
        else {
            continue;
        };
        if path == COPIES[0] {
            fields.resize(5, "");
            fields.extend([home_of(id), "/bin/sh"]);
        }
        names.push_str(&fields.join(":"));
        names.push('\n');
    }
    names.into_bytes()
}

/// Directories of a container's tree in which something is looked for: without following a link, which would lead to another place
/// in a session.
struct Places<'a> {
    root: BorrowedFd<'a>,
    /// `/etc`, unless it is missing or a link.
    etc: Option<OwnedFd>,
}

impl<'a> Places<'a> {
    fn open(root: BorrowedFd<'a>) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let etc = match openat(root, c"etc", flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
            etc => Some(etc?),
        };
        Ok(Self { root, etc })
    }

    /// Returns the directory and the name of a path, which is of an entry of the root or of `/etc`; `None` without that directory.
    fn split<'p>(&self, path: &'p str) -> Option<(BorrowedFd<'_>, &'p str)> {
        match path.strip_prefix("/etc/") {
            Some(name) => Some((self.etc.as_ref()?.as_fd(), name)),
            None => Some((self.root, path.trim_start_matches('/'))),
        }
    }

    /// Returns the kind of a path; `None` if it is missing.
    fn kind(&self, path: &str) -> Result<Option<FileType>, Errno> {
        let Some((dir, name)) = self.split(path) else {
            return Ok(None);
        };
        match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            found => Ok(Some(FileType::from_raw_mode(found?.st_mode))),
        }
    }

    /// Returns the path by which the session reaches a file of `/etc` that is a link in the container: of a time zone, the path says
    /// the name. `None` for a link that leads out of the container's tree or to anything but a file.
    fn linked(&self, path: &str) -> Result<Option<String>, Errno> {
        let Some((dir, name)) = self.split(path) else {
            return Ok(None);
        };
        let text = match readlinkat(dir, name, Vec::new()) {
            Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
            text => text?,
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let is_file = match tote_sys::openat2(self.root, path, flags, Mode::empty(), resolve) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => false,
            found => FileType::from_raw_mode(fstat(&found?)?.st_mode) == FileType::RegularFile,
        };
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

    /// Reads a file; `None` without one that can be copied.
    fn copied(&self, path: &str) -> Result<Option<Vec<u8>>, Errno> {
        if self.kind(path)? != Some(FileType::RegularFile) {
            return Ok(None);
        }
        Ok(tote_rootfs::read_in_root(self.root, path, COPIED).ok().flatten())
    }
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
        std::fs::write(
            dir.path().join("etc/passwd"),
            b"root:x:0:0:root:/target:/target/sh\n\xff:x:1:1\n",
        )
        .unwrap();
        std::fs::write(dir.path().join("etc/localtime"), "").unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let asked = Asked {
            command: vec!["absent".to_owned()],
            path: None,
            cwd: "/".to_owned(),
        };
        let seen = Seen::of(root.as_fd(), &asked).unwrap();
        assert_eq!(seen.shown, ["/proc", "/etc/hosts"]);
        assert!(seen.devices.is_empty(), "{:?}", seen.devices);
        let names = b"root:x:0:0:root:/root:/bin/sh\n".to_vec();
        assert_eq!(seen.copies, [("/etc/passwd".to_owned(), names)]);
        assert_eq!(seen.complaints.len(), 1);
        let zone = seen.links().into_iter().find(|link| link.replaces).unwrap();
        assert_eq!(zone.text, "/target/etc/localtime");
        let text = serde_json::to_vec(&seen).unwrap();
        assert_eq!(serde_json::from_slice::<Seen>(&text).unwrap(), seen);
    }

    #[test]
    fn accounts_lead_nowhere_in_the_container() {
        let names = |path: &str, text: &str| String::from_utf8(names_of(path, text.as_bytes())).unwrap();
        for (line, copied) in [
            (
                "root:x:0:0:root:/target/h:/target/sh",
                "root:x:0:0:root:/root:/bin/sh\n",
            ),
            ("u:x:7:8::/dev/shm:/proc/1/root/sh", "u:x:7:8::/:/bin/sh\n"),
            ("u:x:7:8:full name", "u:x:7:8:full name:/:/bin/sh\n"),
            ("u:x:7:8::/h:/bin/sh:more", "u:x:7:8::/:/bin/sh\n"),
            ("u\x1b[2J:x:7:8::/:/bin/sh", ""),
            ("u\u{9b}2J:x:7:8::/:/bin/sh", ""),
            ("+::0:0:::", ""),
            ("u:x:-1:0:::", ""),
            (":x:7:8:::", ""),
            ("# comment:x:1", ""),
        ] {
            assert_eq!(names("/etc/passwd", line), copied, "{line:?}");
        }
        assert_eq!(names("/etc/group", "g:x:7:a,b\n\n\x07:x:8:\n"), "g:x:7:a,b\n");
    }

    #[test]
    fn links_and_other_kinds_are_not_brought() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("etc/hosts"), "").unwrap();
        std::os::unix::fs::symlink("hosts", dir.path().join("etc/passwd")).unwrap();
        let root: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let places = Places::open(root.as_fd()).unwrap();
        let is = |path, kind| places.kind(path).unwrap() == Some(kind);
        assert!(is("/etc/hosts", FileType::RegularFile));
        assert!(is("/etc", FileType::Directory));
        assert!(!is("/etc/hosts", FileType::Directory));
        assert!(!is("/etc/passwd", FileType::RegularFile), "a link");
        assert!(!is("/proc", FileType::Directory), "nothing");
        std::fs::rename(dir.path().join("etc"), dir.path().join("real")).unwrap();
        for entry in ["real", "missing"] {
            let link = dir.path().join("etc");
            std::os::unix::fs::symlink(entry, &link).unwrap();
            let places = Places::open(root.as_fd()).unwrap();
            assert_eq!(
                places.kind("/etc/hosts").unwrap(),
                None,
                "the directory is a link"
            );
            std::fs::remove_file(link).unwrap();
        }
        std::fs::write(dir.path().join("etc"), "").unwrap();
        let places = Places::open(root.as_fd()).unwrap();
        assert_eq!(
            places.kind("/etc/hosts").unwrap(),
            None,
            "the directory is a file"
        );
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
        let links = || Seen::of(root.as_fd(), &Asked::default()).unwrap().links();
        let zone = || {
            let zone = links().into_iter().find(|link| link.path == TIME_ZONE);
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
        assert_eq!(links().len(), 2, "no other file is a link");
        std::os::unix::fs::symlink("../usr/share/zoneinfo/Asia/Tokyo", at("etc/resolv.conf")).unwrap();
        let last = links().pop();
        assert_eq!(last, Some(link(tokyo.to_owned(), "/etc/resolv.conf", true)));
    }
}
