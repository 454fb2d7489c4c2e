//! Facts about a container's tree on which a session depends: seen here, or by the guest of the virtual machine that has the tree.

use super::lint;
use super::view::{COPIES, Copied, DIRECTORIES, FILES, copied, is_there, links};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use tote_sandbox::RootLink;
use tote_sys::Errno;

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
}
