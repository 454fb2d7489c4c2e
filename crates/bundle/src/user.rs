//! The user of a container: resolves `--user` and `--group-add` against the container's own passwd(5) and group(5).
//!
//! Both files belong to the image and so to an enemy. A line that is not an entry (too few fields, an id that is
//! not a number or is above `i32::MAX`) is skipped, never read as id 0.

use std::collections::BTreeSet;

/// A user in the container's ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedUser {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary group ids, without the primary one.
    pub additional_gids: Vec<u32>,
    /// The home directory, absolute; `/` if the user has no entry.
    pub home: String,
}

impl Default for ResolvedUser {
    /// Returns root, for a container without passwd(5).
    fn default() -> Self {
        Self {
            uid: 0,
            gid: 0,
            additional_gids: Vec::new(),
            home: "/".to_owned(),
        }
    }
}

/// Why a user or group cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// A name without an entry.
    #[error("unable to find user {0}: no matching entries in passwd file")]
    NoUser(String),
    /// A name without an entry.
    #[error("unable to find group {0}: no matching entries in group file")]
    NoGroup(String),
    /// A number that is negative or too great.
    #[error("invalid id {0}: uids and gids must be in range 0-2147483647")]
    Range(String),
    /// More groups than setgroups(2) takes.
    #[error("user is in more than 65536 groups, the most that the kernel takes")]
    TooManyGroups,
}

const MOST_GROUPS: usize = 65_536;

enum Wanted<'a> {
    Id(u32),
    Name(&'a str),
}

impl<'a> Wanted<'a> {
    /// Parses a name or id; `None` for an empty text. A number is always an id, even if an entry has it as its
    /// name.
    fn parse(text: &'a str) -> Result<Option<Self>, UserError> {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if text.is_empty() {
            Ok(None)
        } else if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let id = id(text).ok_or_else(|| UserError::Range(text.to_owned()))?;
            Ok(Some(Self::Id(id)))
        } else {
            Ok(Some(Self::Name(text)))
        }
    }

    fn matches(&self, name: &str, id: u32) -> bool {
        match self {
            Self::Id(wanted) => *wanted == id,
            Self::Name(wanted) => *wanted == name,
        }
    }
}

fn id(text: &str) -> Option<u32> {
    text.parse().ok().filter(|id| *id <= i32::MAX as u32)
}

struct PasswdEntry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

fn passwd_entry(line: &str) -> Option<PasswdEntry<'_>> {
    let mut fields = line.trim().split(':');
    let (name, _password) = (fields.next()?, fields.next()?);
    let (uid, gid) = (id(fields.next()?)?, id(fields.next()?)?);
    let home = fields.nth(1).unwrap_or_default();
    Some(PasswdEntry { name, uid, gid, home })
}

/// Parses a line of group(5) into name, id, and the members' names with commas between.
fn group_entry(line: &str) -> Option<(&str, u32, &str)> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let mut fields = line.split(':');
    let (name, _password, gid) = (fields.next()?, fields.next()?, id(fields.next()?)?);
    Some((name, gid, fields.next().unwrap_or_default()))
}

/// Resolves `name|uid[:group|gid]`, as docker does: an empty text is uid 0; a number needs no entry; the first
/// entry that matches wins; a given group replaces the primary one, and then the supplementary ones are not added.
///
/// `passwd` and `group` are the texts of the files, empty if a file does not exist.
///
/// # Errors
/// [`UserError`], worded as docker does.
pub fn resolve_user(spec: &str, passwd: &str, group: &str) -> Result<ResolvedUser, UserError> {
    let (user, wanted_group) = spec.split_once(':').unwrap_or((spec, ""));
    let wanted_group = Wanted::parse(wanted_group)?;
    let wanted = Wanted::parse(user)?.unwrap_or(Wanted::Id(0));
    let entry = passwd
        .lines()
        .filter_map(passwd_entry)
        .find(|entry| wanted.matches(entry.name, entry.uid));
    let mut resolved = match (&entry, wanted) {
        (Some(entry), _) => ResolvedUser {
            uid: entry.uid,
            gid: entry.gid,
            additional_gids: Vec::new(),
            home: usable_home(entry.home).to_owned(),
        },
        (None, Wanted::Id(uid)) => ResolvedUser {
            uid,
            ..ResolvedUser::default()
        },
        (None, Wanted::Name(name)) => return Err(UserError::NoUser(name.to_owned())),
    };
    match (wanted_group, entry) {
        (Some(wanted), _) => resolved.gid = resolve_group(&wanted, group)?,
        (None, Some(entry)) if !entry.name.is_empty() => {
            resolved.additional_gids = memberships(entry.name, resolved.gid, group)?;
        }
        (None, _) => {}
    }
    Ok(resolved)
}

/// Returns the home directory of an entry if it is an absolute path, else `/`. An enemy's entry may hold any text;
/// the environment and chdir(2) need an absolute path.
fn usable_home(home: &str) -> &str {
    if home.starts_with('/') && !home.contains('\0') {
        home
    } else {
        "/"
    }
}

fn memberships(name: &str, primary: u32, group: &str) -> Result<Vec<u32>, UserError> {
    let mut seen = BTreeSet::from([primary]);
    let mut gids = Vec::new();
    for (_, gid, members) in group.lines().filter_map(group_entry) {
        if members.split(',').any(|member| member == name) && seen.insert(gid) {
            if gids.len() == MOST_GROUPS {
                return Err(UserError::TooManyGroups);
            }
            gids.push(gid);
        }
    }
    Ok(gids)
}

fn resolve_group(wanted: &Wanted<'_>, group: &str) -> Result<u32, UserError> {
    let entry = group
        .lines()
        .filter_map(group_entry)
        .find(|(name, gid, _)| wanted.matches(name, *gid));
    match (entry, wanted) {
        (Some((_, gid, _)), _) => Ok(gid),
        (None, Wanted::Id(gid)) => Ok(*gid),
        (None, Wanted::Name(name)) => Err(UserError::NoGroup((*name).to_owned())),
    }
}

/// Resolves the groups of `--group-add`, names or ids, in the order given and each once.
///
/// # Errors
/// [`UserError`] for a name without an entry, an id out of range, an empty text.
pub fn resolve_groups(groups: &[String], group: &str) -> Result<Vec<u32>, UserError> {
    let mut gids = Vec::new();
    for text in groups {
        let wanted = Wanted::parse(text)?.ok_or_else(|| UserError::NoGroup(text.clone()))?;
        let gid = resolve_group(&wanted, group)?;
        if !gids.contains(&gid) {
            gids.push(gid);
        }
    }
    Ok(gids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};

    const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/sh
nul:x:7:7::/ho\0me:/bin/sh
bad:x:abc:0::/:/bin/sh
huge:x:99999999999:0::/:/bin/sh
negative:x:-1:0::/:/bin/sh
short
alice:x:1000:1001:Alice:/home/alice:/bin/sh
alice:x:1:1:twice:/evil:/bin/sh
1000:x:5:5:a number for a name:/five:/bin/sh
rel:x:8:8::home:/bin/sh
";
    const GROUP: &str = "\
# adm:x:4:alice
root:x:0:root
wheel:x:10:root,alice
alice:x:1001:
audio:x:29:bob,alice
audio:x:30:alice
evil:x:zero:alice
huge:x:4294967296:alice
wheel2:x:10:alice
";

    fn ids(spec: &str) -> Result<(u32, u32, Vec<u32>, String), UserError> {
        resolve_user(spec, PASSWD, GROUP).map(|user| (user.uid, user.gid, user.additional_gids, user.home))
    }

    #[test]
    fn as_docker_resolves() {
        for (spec, uid, gid, additional, home) in [
            ("", 0, 0, vec![10], "/root"),
            ("root", 0, 0, vec![10], "/root"),
            ("0", 0, 0, vec![10], "/root"),
            ("alice", 1000, 1001, vec![10, 29, 30], "/home/alice"),
            ("1000", 1000, 1001, vec![10, 29, 30], "/home/alice"),
            ("alice:", 1000, 1001, vec![10, 29, 30], "/home/alice"),
            ("alice:audio", 1000, 29, vec![], "/home/alice"),
            ("alice:77", 1000, 77, vec![], "/home/alice"),
            ("4242", 4242, 0, vec![], "/"),
            ("4242:4243", 4242, 4243, vec![], "/"),
            (":wheel", 0, 10, vec![], "/root"),
            ("rel", 8, 8, vec![], "/"),
            ("nul", 7, 7, vec![], "/"),
            ("2147483647", 2_147_483_647, 0, vec![], "/"),
        ] {
            assert_eq!(ids(spec), Ok((uid, gid, additional, home.to_owned())), "{spec:?}");
        }
    }

    #[test]
    fn what_is_not_there() {
        for name in ["nobody", "bad", "huge", "negative", "short"] {
            assert_eq!(ids(name), Err(UserError::NoUser(name.to_owned())));
        }
        for name in ["nogroup", "evil"] {
            assert_eq!(
                ids(&format!("root:{name}")),
                Err(UserError::NoGroup(name.to_owned()))
            );
        }
        for id in ["-1", "2147483648", "99999999999999999999"] {
            assert_eq!(ids(id), Err(UserError::Range(id.to_owned())));
            assert_eq!(ids(&format!("root:{id}")), Err(UserError::Range(id.to_owned())));
        }
        assert_eq!(resolve_user("5", "", "").map(|user| user.uid), Ok(5));
        assert!(resolve_user("five", "", "").is_err());
    }

    #[test]
    fn added_groups() {
        let groups = |list: &[&str]| {
            resolve_groups(
                &list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(),
                GROUP,
            )
        };
        assert_eq!(groups(&["audio", "5", "29", "wheel"]), Ok(vec![29, 5, 10]));
        assert_eq!(groups(&["nope"]), Err(UserError::NoGroup("nope".to_owned())));
        assert_eq!(groups(&[""]), Err(UserError::NoGroup(String::new())));
        assert_eq!(groups(&["-5"]), Err(UserError::Range("-5".to_owned())));
    }

    #[test]
    fn a_million_groups_are_refused() {
        let group: String = (0..70_000).map(|gid| format!("g{gid}:x:{gid}:root\n")).collect();
        assert_eq!(
            resolve_user("root", PASSWD, &group),
            Err(UserError::TooManyGroups)
        );
    }

    proptest! {
        #[test]
        fn never_panics(spec in any::<String>(), passwd in any::<String>(), group in any::<String>()) {
            if let Ok(user) = resolve_user(&spec, &passwd, &group) {
                prop_assert!(user.uid <= i32::MAX as u32 && user.home.starts_with('/'));
            }
        }

        #[test]
        fn lines_of_colons_never_panic(passwd in "[a:0-9,\n]{0,80}", group in "[a:0-9,\n]{0,80}") {
            let _parsed = resolve_user("a:a", &passwd, &group);
        }
    }
}
