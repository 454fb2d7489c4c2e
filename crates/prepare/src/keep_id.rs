//! `--userns keep-id`: the caller has a line in the container's `/etc/passwd` and `/etc/group`, as podman makes them.
//!
//! Without them programs that look their user up refuse to work: ssh and git do, and a shell says that it has no name.

use crate::Home;
use crate::files::Files;
use std::io::ErrorKind;
use std::path::Path;
use tote_bundle::{ContainerId, ImageConfig, RunOptions};

/// Files of the image with a line more; `None` where the image has one for the caller.
#[derive(Debug, Default)]
pub struct CallerLines {
    passwd: Option<String>,
    group: Option<String>,
    /// The home directory of a caller without a line in the image.
    pub home: Option<String>,
}

/// The caller's entries in the host's files.
#[derive(Debug)]
pub struct HostUser {
    uid: u32,
    gid: u32,
    name: String,
    group: String,
    home: String,
}

impl HostUser {
    /// The user of that number, or one that is called by it.
    pub fn look(uid: u32, gid: u32) -> Self {
        // absence: the user has a number in place of a name
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::of((uid, gid), &read("/etc/passwd"), &read("/etc/group"))
    }

    /// Returns a user that is called by its number.
    pub fn numbered(uid: u32, gid: u32) -> Self {
        Self::of((uid, gid), "", "")
    }

    /// Returns the user under the ids that it has in the container.
    pub fn called(self, uid: u32, gid: u32) -> Self {
        Self { uid, gid, ..self }
    }

    fn of((uid, gid): (u32, u32), passwd: &str, group: &str) -> Self {
        let user = line_of(passwd, uid).map(|line| line.split(':').collect::<Vec<_>>());
        let user = user.unwrap_or_default();
        let group = line_of(group, gid).and_then(|line| line.split(':').next());
        let home = std::env::var("HOME").unwrap_or_default();
        Self {
            uid,
            gid,
            name: user
                .first()
                .map_or_else(|| uid.to_string(), |name| (*name).to_owned()),
            group: group.map_or_else(|| gid.to_string(), ToOwned::to_owned),
            home: user.get(5).map_or(home, |home| (*home).to_owned()),
        }
    }
}

impl CallerLines {
    /// Lines to add to the image's own. The caller's home is the host's where that is mounted, or else the working
    /// directory.
    pub fn of(
        user: &HostUser,
        (passwd, group): (&str, &str),
        options: &RunOptions,
        config: &ImageConfig,
    ) -> Self {
        let has_home = options
            .mounts
            .iter()
            .any(|mount| Path::new(&user.home).starts_with(&mount.destination));
        let working_dir = options.workdir.as_deref().unwrap_or(&config.working_dir);
        let home = match working_dir {
            _ if has_home => user.home.clone(),
            dir if dir.starts_with('/') => dir.to_owned(),
            _ => "/".to_owned(),
        };
        let (uid, gid) = (user.uid, user.gid);
        let is_plain = |text: &str| !text.contains([':', '\n']);
        if !is_plain(&home) || !is_plain(&user.name) || !is_plain(&user.group) {
            return Self::default();
        }
        let added = |text: &str, line: String| {
            let end = if text.is_empty() || text.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            format!("{text}{end}{line}\n")
        };
        let lacks_user = line_of(passwd, uid).is_none();
        Self {
            passwd: lacks_user.then(|| added(passwd, format!("{}:*:{uid}:{gid}::{home}:/bin/sh", user.name))),
            group: line_of(group, gid)
                .is_none()
                .then(|| added(group, format!("{}:x:{gid}:{}", user.group, user.name))),
            home: lacks_user.then_some(home),
        }
    }

    /// The files, but for those that the container has made its own at a former start.
    pub fn files(&self, home: &Home, id: &ContainerId) -> Files {
        let mut files = Files::new();
        for (path, text) in [("etc/passwd", &self.passwd), ("etc/group", &self.group)] {
            let Some(text) = text else { continue };
            let found = home.container(id).join("upper").join(path).symlink_metadata();
            // What cannot be looked at is there.
            if found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                files.push((path, 0o644, text.clone().into_bytes()));
            }
        }
        files
    }
}

/// The line of passwd(5) or group(5) whose third field is that number.
fn line_of(text: &str, id: u32) -> Option<&str> {
    let is_it = |line: &&str| {
        line.split(':')
            .nth(2)
            .is_some_and(|field| field.parse() == Ok(id))
    };
    text.lines().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> HostUser {
        let passwd = "root:x:0:0::/root:/bin/sh\nalice:x:1000:1001:A:/home/alice:/bin/zsh\n";
        HostUser::of((1000, 1001), passwd, "staff:x:1001:\n")
    }

    fn lines(passwd: &str, group: &str, given: &[(&str, &str)]) -> CallerLines {
        let mut options = RunOptions::default();
        for (name, value) in given {
            options.set(name, value).unwrap();
        }
        CallerLines::of(&caller(), (passwd, group), &options, &ImageConfig::default())
    }

    #[test]
    fn who_is_not_in_the_image_is_added() {
        let added = lines("root:x:0:0::/root:/bin/sh", "root:x:0:\n", &[("workdir", "/src")]);
        assert_eq!(
            added.passwd.as_deref(),
            Some("root:x:0:0::/root:/bin/sh\nalice:*:1000:1001::/src:/bin/sh\n")
        );
        assert_eq!(added.group.as_deref(), Some("root:x:0:\nstaff:x:1001:alice\n"));
        assert_eq!(added.home.as_deref(), Some("/src"));
    }

    #[test]
    fn a_home_that_is_mounted_is_the_home() {
        for (mount, home) in [
            ("/home:/home", "/home/alice"),
            ("/x:/home/alice", "/home/alice"),
            ("/x:/homes", "/"),
        ] {
            let added = lines("", "", &[("volume", mount)]);
            assert_eq!(added.home.as_deref(), Some(home), "{mount}");
        }
    }

    #[test]
    fn who_is_in_the_image_is_left_alone() {
        let added = lines("node:x:1000:1000::/home/node:/bin/sh\n", "node:x:1001:\n", &[]);
        assert_eq!((added.passwd, added.group, added.home), (None, None, None));
        let nobody = HostUser::of((7, 8), "", "");
        assert_eq!((nobody.name.as_str(), nobody.group.as_str()), ("7", "8"));
    }
}
