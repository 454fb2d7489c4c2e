//! Mount options as fstab(5) and the OCI spec write them.

use rustix::mount::MountAttrFlags as A;
use tote_sys::{Attributes, Propagation};

/// What the options of one mount come to.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Attributes of the mount.
    pub(crate) attributes: Attributes,
    /// `bind` or `rbind` was among them.
    pub(crate) bind: bool,
    /// `rbind` was.
    pub(crate) recursive: bool,
    /// The rest, for the file system: keys, and values where there are any.
    pub(crate) parameters: Vec<(String, Option<String>)>,
}

enum Meaning {
    Set(A),
    Clear(A),
    /// One of the exclusive access time modes.
    Atime(A),
    Propagation(Propagation),
    Bind,
    /// For the file system as well (`ro` of a read-only device) or nobody.
    Ignore,
}

const TABLE: &[(&str, Meaning)] = {
    use Meaning::{Atime, Bind, Clear, Ignore, Set};
    &[
        ("async", Ignore),
        ("atime", Atime(A::MOUNT_ATTR_RELATIME)),
        ("bind", Bind),
        ("defaults", Ignore),
        ("dev", Clear(A::MOUNT_ATTR_NODEV)),
        ("diratime", Clear(A::MOUNT_ATTR_NODIRATIME)),
        ("exec", Clear(A::MOUNT_ATTR_NOEXEC)),
        ("noatime", Atime(A::MOUNT_ATTR_NOATIME)),
        ("nodev", Set(A::MOUNT_ATTR_NODEV)),
        ("nodiratime", Set(A::MOUNT_ATTR_NODIRATIME)),
        ("noexec", Set(A::MOUNT_ATTR_NOEXEC)),
        ("norelatime", Atime(A::MOUNT_ATTR_STRICTATIME)),
        ("nostrictatime", Atime(A::MOUNT_ATTR_RELATIME)),
        ("nosuid", Set(A::MOUNT_ATTR_NOSUID)),
        ("nosymfollow", Set(A::MOUNT_ATTR_NOSYMFOLLOW)),
        ("private", Meaning::Propagation(Propagation::Private)),
        ("relatime", Atime(A::MOUNT_ATTR_RELATIME)),
        ("ro", Set(A::MOUNT_ATTR_RDONLY)),
        ("rw", Clear(A::MOUNT_ATTR_RDONLY)),
        ("shared", Meaning::Propagation(Propagation::Shared)),
        ("slave", Meaning::Propagation(Propagation::Slave)),
        ("strictatime", Atime(A::MOUNT_ATTR_STRICTATIME)),
        ("suid", Clear(A::MOUNT_ATTR_NOSUID)),
        ("symfollow", Clear(A::MOUNT_ATTR_NOSYMFOLLOW)),
        ("unbindable", Meaning::Propagation(Propagation::Unbindable)),
    ]
};

/// Options that other engines understand and that change nothing here.
const ELSEWHERE: &[&str] = &[
    "z",
    "Z",
    "nocopy",
    "copy",
    "tmpcopyup",
    "notmpcopyup",
    "U",
    "idmap",
    "ridmap",
    "delegated",
    "cached",
    "consistent",
];

fn meaning(name: &str) -> Option<&'static Meaning> {
    TABLE
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, meaning)| meaning)
}

/// Sorts the options of a mount; what no table knows is the file system's.
pub(crate) fn parse(options: &[String]) -> Options {
    let mut result = Options {
        attributes: Attributes::NONE,
        bind: false,
        recursive: false,
        parameters: Vec::new(),
    };
    for option in options {
        if let Some(meaning) = meaning(option) {
            result.apply(meaning, false);
        } else if let Some(meaning) = option.strip_prefix('r').and_then(meaning) {
            result.apply(meaning, true);
        } else if !ELSEWHERE.contains(&option.as_str()) {
            let (key, value) = option
                .split_once('=')
                .map_or((option.as_str(), None), |(key, value)| (key, Some(value)));
            result
                .parameters
                .push((key.to_owned(), value.map(ToOwned::to_owned)));
        }
    }
    result
}

impl Options {
    fn apply(&mut self, meaning: &Meaning, recursive: bool) {
        let attributes = &mut self.attributes;
        let (set, clear) = if recursive {
            (&mut attributes.set_below, &mut attributes.clear_below)
        } else {
            (&mut attributes.set, &mut attributes.clear)
        };
        match *meaning {
            Meaning::Set(flag) => {
                set.insert(flag);
                clear.remove(flag);
            }
            Meaning::Clear(flag) => {
                clear.insert(flag);
                set.remove(flag);
            }
            Meaning::Atime(mode) => {
                // The kernel wants the whole field cleared before a mode is set, even where the mode is 0 (relatime).
                clear.insert(A::MOUNT_ATTR__ATIME);
                set.remove(A::MOUNT_ATTR__ATIME);
                set.insert(mode);
            }
            Meaning::Propagation(propagation) => attributes.propagation = Some((propagation, recursive)),
            Meaning::Bind => {
                self.bind = true;
                self.recursive |= recursive;
            }
            Meaning::Ignore => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &[&str]) -> Options {
        parse(&options.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn the_table_is_sorted_and_without_doubles() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn later_options_win() {
        let options = of(&["ro", "rw", "nosuid"]);
        assert_eq!(options.attributes.set, A::MOUNT_ATTR_NOSUID);
        assert_eq!(options.attributes.clear, A::MOUNT_ATTR_RDONLY);
        assert_eq!(of(&["rw", "ro"]).attributes.set, A::MOUNT_ATTR_RDONLY);
    }

    #[test]
    fn recursive_forms_go_below() {
        let options = of(&["rbind", "rro", "rprivate", "rnoatime"]);
        assert!(options.bind && options.recursive);
        assert_eq!(
            options.attributes.set_below,
            A::MOUNT_ATTR_RDONLY | A::MOUNT_ATTR_NOATIME
        );
        assert_eq!(options.attributes.set, A::empty());
        assert_eq!(options.attributes.propagation, Some((Propagation::Private, true)));
    }

    #[test]
    fn the_rest_is_the_file_systems() {
        let options = of(&["size=64k", "mode=755", "newinstance", "nosuid", "Z"]);
        let pairs: Vec<_> = options
            .parameters
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_deref()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("size", Some("64k")),
                ("mode", Some("755")),
                ("newinstance", None)
            ]
        );
    }

    #[test]
    fn relatime_is_the_letter_r_only_where_it_must_be() {
        // `relatime`, `ro` and `rw` begin with the letter of the recursive forms and are none.
        assert_eq!(of(&["ro"]).attributes.set, A::MOUNT_ATTR_RDONLY);
        assert_eq!(of(&["relatime"]).attributes.clear, A::MOUNT_ATTR__ATIME);
        assert_eq!(of(&["rrelatime"]).attributes.clear_below, A::MOUNT_ATTR__ATIME);
    }
}
