//! Users and groups by name.

use crate::container::ProcessId;
use crate::proc::read;
use rustix::fd::AsFd as _;
use std::collections::BTreeMap;
use tote_state::process;
use tote_sys::Errno;

/// The most of a passwd or group file that is read, in bytes.
const LIMIT: usize = 1 << 20;

/// Names of ids, and the ids that a user namespace shows for the host's.
#[derive(Debug, Default)]
pub(crate) struct Names {
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
    /// First inside, first outside, how many: of users and of groups.
    maps: Option<[Vec<(u32, u32, u32)>; 2]>,
}

impl Names {
    /// From passwd(5) and group(5); of several names for an id the first counts.
    pub(crate) fn parse(passwd: &str, group: &str, maps: Option<[&str; 2]>) -> Self {
        let names = |text: &str| {
            let mut names = BTreeMap::new();
            for line in text.lines() {
                let mut fields = line.split(':');
                if let (Some(name), Some(Ok(id))) = (fields.next(), fields.nth(1).map(str::parse)) {
                    names.entry(id).or_insert_with(|| name.to_owned());
                }
            }
            names
        };
        let map = |text: &str| {
            let line = |line: &str| {
                let mut numbers = line.split_whitespace().map(str::parse);
                Some((
                    numbers.next()?.ok()?,
                    numbers.next()?.ok()?,
                    numbers.next()?.ok()?,
                ))
            };
            text.lines().filter_map(line).collect()
        };
        Self {
            users: names(passwd),
            groups: names(group),
            maps: maps.map(|maps| maps.map(map)),
        }
    }

    /// Names of users and groups in the container of a process. Its files come from an enemy.
    pub(crate) fn inside(first: ProcessId) -> Self {
        let pidfd = process::open(first.pid, first.start_time).ok_or(Errno::SRCH);
        let root = pidfd.and_then(|pidfd| tote_runtime::root_of(first.pid, pidfd.as_fd()));
        let file = |path| {
            let bytes = root
                .as_ref()
                .ok()
                .and_then(|root| tote_rootfs::read_in_root(root, path, LIMIT).ok()?);
            String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
        };
        let maps = [read(first.pid, "uid_map"), read(first.pid, "gid_map")];
        Self::parse(
            &file("etc/passwd"),
            &file("etc/group"),
            Some([&maps[0], &maps[1]]),
        )
    }

    pub(crate) fn user(&self, id: u32) -> String {
        self.name(id, &self.users, 0)
    }

    pub(crate) fn group(&self, id: u32) -> String {
        self.name(id, &self.groups, 1)
    }

    fn name(&self, id: u32, names: &BTreeMap<u32, String>, kind: usize) -> String {
        let shown = match &self.maps {
            None => id,
            Some(maps) => maps[kind]
                .iter()
                .find_map(|(inside, outside, size)| {
                    let offset = id.checked_sub(*outside).filter(|offset| offset < size)?;
                    inside.checked_add(offset)
                })
                .unwrap_or(65534),
        };
        names.get(&shown).cloned().unwrap_or_else(|| shown.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ids() {
        let passwd = "root:x:0:0:r:/root:/bin/sh\ntoor:x:0:0::/:\nbad\nu:x:5:5::/:\nnobody:x:65534:1::/:\n";
        let names = Names::parse(passwd, "wheel:x:10:root\n", None);
        assert_eq!(
            (names.user(0), names.user(7), names.group(10)),
            ("root".into(), "7".into(), "wheel".into())
        );
        let names = Names::parse(passwd, "", Some(["0 1000 1\n1 100000 65536\n", "0 1000 1\n"]));
        assert_eq!(
            (names.user(1000), names.user(100_004)),
            ("root".into(), "u".into())
        );
        assert_eq!((names.user(3), names.group(1000)), ("nobody".into(), "0".into()));
    }
}
