//! `--effective-user`: a session whose files belong to a user of this machine.
//!
//! The session's processes have that user's ids, with the container's capabilities in the ambient set. So they may do what the
//! container's root may, and no process is needed that maps ids. An id-mapped mount would not do: overlayfs cannot be
//! mounted so, and most containers have their root on it.

use super::DebugError;
use crate::EngineError;
use crate::exec::Target;
use std::io::ErrorKind;
use std::path::Path;
use tote_bundle::{ExecOptions, resolve_user};
use tote_sandbox::WrittenFile;
use tote_spec::IdMapping;

/// Files of accounts.
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// Lines that name a user of this machine in files of accounts.
pub(crate) struct Account([Line; 2]);

/// Line of a file of accounts.
struct Line {
    path: &'static str,
    /// Id in the container.
    id: u32,
    /// Text; empty for an id that has no name on this machine.
    text: String,
}

impl Account {
    /// Adds the lines to the tools' files, of which `own` reads those that no file of the container replaces. A file that names the
    /// id already stays as it is.
    pub(crate) fn introduce(
        self,
        files: &mut Vec<WrittenFile>,
        own: impl Fn(&str) -> Result<Option<Vec<u8>>, EngineError>,
    ) -> Result<(), EngineError> {
        for Line { path, id, text } in self.0.into_iter().filter(|line| !line.text.is_empty()) {
            let place = match files.iter().position(|file| file.path == path) {
                Some(place) => place,
                None => {
                    let Some(content) = own(path)? else { continue };
                    files.push(WrittenFile {
                        path: path.to_owned(),
                        mode: 0o644,
                        content,
                    });
                    files.len() - 1
                }
            };
            let content = &mut files[place].content;
            if name_of(&String::from_utf8_lossy(content), id).is_none() {
                if !content.is_empty() && !content.ends_with(b"\n") {
                    content.push(b'\n');
                }
                content.extend(text.as_bytes());
            }
        }
        Ok(())
    }
}

/// Returns the name that a file of accounts has for an id.
fn name_of(text: &str, id: u32) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(id)).then_some(name)
    })
}

/// Gives the session the ids that a user of this machine has in the container, and returns the lines that name them.
///
/// # Errors
/// [`DebugError::Effective`] for an unknown user, and for one whom the container does not map.
pub(crate) fn apply(name: &str, target: &Target, exec: &mut ExecOptions) -> Result<Account, EngineError> {
    if exec.user.is_some() {
        return Err(DebugError::TwoUsers.into());
    }
    let wrong = |reason: &str| DebugError::Effective {
        user: name.to_owned(),
        reason: reason.to_owned(),
    };
    let read = |path: &str| match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(EngineError::file("read", Path::new(path))),
    };
    let (users, groups) = (read(USERS)?, read(GROUPS)?);
    let found = resolve_user(name, &users, &groups);
    let found = found.map_err(|error| wrong(&tote_sys::chain(&error)))?;
    let linux = &target.inside.linux;
    let (Some(uid), Some(gid)) = (
        inside(&linux.uid_mappings, found.uid),
        inside(&linux.gid_mappings, found.gid),
    ) else {
        return Err(wrong("the container has no id for this user").into());
    };
    exec.user = Some(format!("{uid}:{gid}"));
    exec.keeps_capabilities = true;
    let (user, group) = (name_of(&users, found.uid), name_of(&groups, found.gid));
    let text =
        |name: Option<&str>, rest: String| name.map_or_else(String::new, |name| format!("{name}:x:{rest}\n"));
    Ok(Account([
        Line {
            path: USERS,
            id: uid,
            text: text(user, format!("{uid}:{gid}::/:/bin/sh")),
        },
        Line {
            path: GROUPS,
            id: gid,
            text: text(group, format!("{gid}:")),
        },
    ]))
}

/// Returns the id that a container has for one of this machine; every one without maps.
fn inside(maps: &[IdMapping], id: u32) -> Option<u32> {
    if maps.is_empty() {
        return Some(id);
    }
    IdMapping::inside(maps, id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_line_of_an_id() {
        let text = "root:x:0:0:root:/root:/bin/sh\n:x:7::\nalice:x:1234:77\nshort:x\n";
        assert_eq!(name_of(text, 1234), Some("alice"));
        assert_eq!(name_of(text, 0), Some("root"));
        assert_eq!(name_of(text, 7), None, "a line without a name");
        assert_eq!(name_of(text, 77), None, "a group");
    }

    #[test]
    fn accounts_are_added_once() {
        let file = |path: &str, text: &str| WrittenFile {
            path: path.to_owned(),
            mode: 0o644,
            content: text.as_bytes().to_vec(),
        };
        let line = |path, id, text: &str| Line {
            path,
            id,
            text: text.to_owned(),
        };
        let added = |files: &[WrittenFile], user: &str| {
            let mut files = files.to_vec();
            let account = Account([line(USERS, 7, user), line(GROUPS, 8, "staff:x:8:\n")]);
            let own = |path: &str| Ok((path == GROUPS).then(|| b"root:x:0:\n".to_vec()));
            account.introduce(&mut files, own).unwrap();
            files
        };
        let groups = file(GROUPS, "root:x:0:\nstaff:x:8:\n");
        let alice = "alice:x:7:8::/:/bin/sh\n";
        for (before, after) in [
            ("root:x:0:0", "root:x:0:0\nalice:x:7:8::/:/bin/sh\n"),
            ("", alice),
            ("bob:x:7:1\n", "bob:x:7:1\n"),
        ] {
            let expected = [file(USERS, after), groups.clone()];
            assert_eq!(added(&[file(USERS, before)], alice), expected, "{before}");
        }
        assert_eq!(
            added(&[], alice),
            std::slice::from_ref(&groups),
            "the tools have no such file"
        );
        assert_eq!(
            added(std::slice::from_ref(&groups), ""),
            [groups],
            "an id without a name"
        );
    }
}
