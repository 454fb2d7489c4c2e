//! Mount options as fstab(5) and the OCI spec write them.

use crate::parameter;
use rustix::mount::MountAttrFlags as A;
use tote_sys::{Attributes, Propagation};

/// Meaning of all options of a mount.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Attributes of the mount.
    pub(crate) attributes: Attributes,
    /// True if `bind` or `rbind` was among them.
    pub(crate) bind: bool,
    /// True if `rbind` was among them.
    pub(crate) recursive: bool,
    /// True if an existing mount is changed.
    pub(crate) remount: bool,
    /// True if the existing contents of the place are copied into the mount.
    pub(crate) copy_up: bool,
    /// Set if owners are shown by a map; `true` if those of the mounts below are, too.
    pub(crate) idmap: Option<bool>,
    /// Options that every file system as a whole has; they mean nothing to a bind.
    pub(crate) general: Vec<&'static str>,
    /// Remaining options, for the file system: keys, and values if given.
    pub(crate) parameters: Vec<(String, Option<String>)>,
    says_something: bool,
}

#[derive(Clone, Copy)]
enum Meaning {
    Set(A),
    Clear(A),
    /// Flag of mount(2) for access times; such flags replace all existing ones. (0 is `relatime`.)
    Atime(A),
    /// Absence of such a flag, which leaves the existing ones alone.
    NoAtime(A),
    Propagation(Propagation),
    Bind,
    /// Option of the file system as a whole.
    General,
    Remount,
    CopyUp,
    Idmap,
    /// Option without any effect.
    Ignore,
}

const TABLE: &[(&str, Meaning)] = {
    use Meaning::{Atime, Bind, Clear, CopyUp, General, Idmap, Ignore, NoAtime, Remount, Set};
    &[
        ("async", General),
        ("atime", NoAtime(A::MOUNT_ATTR_NOATIME)),
        ("bind", Bind),
        ("defaults", Ignore),
        ("dev", Clear(A::MOUNT_ATTR_NODEV)),
        ("diratime", NoAtime(A::MOUNT_ATTR_NODIRATIME)),
        ("dirsync", General),
        ("exec", Clear(A::MOUNT_ATTR_NOEXEC)),
        ("idmap", Idmap),
        ("iversion", Ignore),
        ("lazytime", General),
        ("loud", Ignore),
        ("mand", General),
        ("noatime", Atime(A::MOUNT_ATTR_NOATIME)),
        ("nodev", Set(A::MOUNT_ATTR_NODEV)),
        ("nodiratime", Atime(A::MOUNT_ATTR_NODIRATIME)),
        ("noexec", Set(A::MOUNT_ATTR_NOEXEC)),
        ("noiversion", Ignore),
        ("nolazytime", General),
        ("nomand", General),
        ("norelatime", NoAtime(A::empty())),
        ("nostrictatime", NoAtime(A::MOUNT_ATTR_STRICTATIME)),
        ("nosuid", Set(A::MOUNT_ATTR_NOSUID)),
        ("nosymfollow", Set(A::MOUNT_ATTR_NOSYMFOLLOW)),
        ("private", Meaning::Propagation(Propagation::Private)),
        ("relatime", Atime(A::MOUNT_ATTR_RELATIME)),
        ("remount", Remount),
        ("ro", Set(A::MOUNT_ATTR_RDONLY)),
        ("rw", Clear(A::MOUNT_ATTR_RDONLY)),
        ("shared", Meaning::Propagation(Propagation::Shared)),
        ("silent", Ignore),
        ("slave", Meaning::Propagation(Propagation::Slave)),
        ("strictatime", Atime(A::MOUNT_ATTR_STRICTATIME)),
        ("suid", Clear(A::MOUNT_ATTR_NOSUID)),
        ("symfollow", Clear(A::MOUNT_ATTR_NOSYMFOLLOW)),
        ("sync", General),
        ("tmpcopyup", CopyUp),
        ("unbindable", Meaning::Propagation(Propagation::Unbindable)),
    ]
};

/// Options that other engines understand and that have no effect here.
const ELSEWHERE: &[&str] = &[
    "z",
    "Z",
    "nocopy",
    "copy",
    "notmpcopyup",
    "U",
    "delegated",
    "cached",
    "consistent",
];

/// Flags that a bind mount inherits from its source and that mount(8) would clear if the mount has any option.
const PLAIN: A = A::MOUNT_ATTR_RDONLY
    .union(A::MOUNT_ATTR_NOSUID)
    .union(A::MOUNT_ATTR_NODEV)
    .union(A::MOUNT_ATTR_NOEXEC)
    .union(A::MOUNT_ATTR_NOSYMFOLLOW);

fn meaning(name: &str) -> Option<(&'static str, Meaning)> {
    TABLE.iter().find(|(known, _)| *known == name).copied()
}

/// True if an option has a recursive form, with a prefix `r`.
fn is_recursive(meaning: Meaning) -> bool {
    !matches!(
        meaning,
        Meaning::General | Meaning::Remount | Meaning::CopyUp | Meaning::Ignore
    )
}

/// Sorts the options of a mount; unknown options are the file system's.
pub(crate) fn parse(options: &[String]) -> Options {
    let mut result = Options {
        attributes: Attributes::NONE,
        bind: false,
        recursive: false,
        remount: false,
        copy_up: false,
        idmap: None,
        general: Vec::new(),
        parameters: Vec::new(),
        says_something: false,
    };
    let mut atime = None;
    for option in options {
        if let Some((name, meaning)) = meaning(option) {
            result.apply(name, meaning, &mut atime);
        } else if let Some((_, meaning)) = option
            .strip_prefix('r')
            .and_then(meaning)
            .filter(|(_, meaning)| is_recursive(*meaning))
        {
            result.apply_below(meaning);
        } else if !ELSEWHERE.contains(&option.as_str()) {
            result
                .parameters
                .extend(parameter::split(option).into_iter().map(|part| {
                    let (key, value) = part.split_once('=').map_or((part, None), |(key, value)| {
                        (key, Some(parameter::unquoted(key, value)))
                    });
                    (key.to_owned(), value.map(ToOwned::to_owned))
                }));
        }
    }
    result.finish(atime);
    result
}

impl Options {
    /// Applies an option. `atime` collects mount(2)'s access time flags; `None` until the first one.
    fn apply(&mut self, name: &'static str, meaning: Meaning, atime: &mut Option<A>) {
        let attributes = &mut self.attributes;
        match meaning {
            Meaning::Set(flag) => {
                attributes.set.insert(flag);
                attributes.clear.remove(flag);
            }
            Meaning::Clear(flag) => {
                attributes.clear.insert(flag);
                attributes.set.remove(flag);
            }
            Meaning::Atime(flag) => *atime = Some(atime.unwrap_or(A::empty()) | flag),
            Meaning::NoAtime(flag) => {
                *atime = atime.map(|now| now - flag).filter(|now| !now.is_empty());
            }
            Meaning::Propagation(propagation) => {
                attributes.propagation = Some((propagation, false));
                return;
            }
            Meaning::Bind => {
                self.bind = true;
                return;
            }
            Meaning::General => self.general.push(name),
            Meaning::Remount => {
                self.remount = true;
                return;
            }
            Meaning::CopyUp => {
                self.copy_up = true;
                return;
            }
            Meaning::Idmap => {
                self.idmap = Some(false);
                return;
            }
            Meaning::Ignore => return,
        }
        self.says_something = true;
    }

    fn apply_below(&mut self, meaning: Meaning) {
        let attributes = &mut self.attributes;
        match meaning {
            Meaning::Set(flag) => {
                attributes.set_below.insert(flag);
                attributes.clear_below.remove(flag);
            }
            Meaning::Clear(flag) => {
                attributes.clear_below.insert(flag);
                attributes.set_below.remove(flag);
            }
            Meaning::Atime(A::MOUNT_ATTR_NODIRATIME) => {
                attributes.set_below.insert(A::MOUNT_ATTR_NODIRATIME);
                attributes.clear_below.remove(A::MOUNT_ATTR_NODIRATIME);
            }
            Meaning::NoAtime(A::MOUNT_ATTR_NODIRATIME) => {
                attributes.clear_below.insert(A::MOUNT_ATTR_NODIRATIME);
                attributes.set_below.remove(A::MOUNT_ATTR_NODIRATIME);
            }
            // The kernel wants the whole field cleared before a mode is set, even if the mode is 0 (relatime).
            Meaning::Atime(mode) => {
                attributes.clear_below.insert(A::MOUNT_ATTR__ATIME);
                attributes.set_below.remove(A::MOUNT_ATTR__ATIME);
                attributes.set_below.insert(mode);
            }
            Meaning::NoAtime(_) => {
                attributes.clear_below.insert(A::MOUNT_ATTR__ATIME);
                attributes.set_below.remove(A::MOUNT_ATTR__ATIME);
            }
            Meaning::Propagation(propagation) => attributes.propagation = Some((propagation, true)),
            Meaning::Bind => {
                self.bind = true;
                self.recursive = true;
            }
            Meaning::Idmap => self.idmap = Some(true),
            Meaning::General | Meaning::Remount | Meaning::CopyUp | Meaning::Ignore => {}
        }
    }

    /// Turns mount(2)'s access time flags into mount_setattr(2)'s, by mount(2)'s rules.
    fn finish(&mut self, atime: Option<A>) {
        let attributes = &mut self.attributes;
        if let Some(flags) = atime {
            attributes.clear |= A::MOUNT_ATTR__ATIME;
            let mode = if flags.contains(A::MOUNT_ATTR_STRICTATIME) {
                A::MOUNT_ATTR_STRICTATIME
            } else if flags.contains(A::MOUNT_ATTR_NOATIME) {
                A::MOUNT_ATTR_NOATIME
            } else {
                A::MOUNT_ATTR_RELATIME
            };
            attributes.set |= mode;
            if flags.contains(A::MOUNT_ATTR_NODIRATIME) {
                attributes.set |= A::MOUNT_ATTR_NODIRATIME;
            } else {
                attributes.clear |= A::MOUNT_ATTR_NODIRATIME;
            }
        }
        // As in runc, unlike mount(8), an option that clears a flag counts as an option too.
        if self.bind && self.says_something {
            attributes.clear_unlocked = PLAIN - attributes.set - attributes.clear;
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
        assert_eq!(options.attributes.clear_unlocked, A::empty());
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
    fn several_in_one_text() {
        let options = of(&["size=64k,mode=755", "context=\"a:b,c\""]).parameters;
        let pair = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
        assert_eq!(
            options,
            [pair("size", "64k"), pair("mode", "755"), pair("context", "a:b,c")]
        );
    }

    #[test]
    fn relatime_is_the_letter_r_only_where_it_must_be() {
        // `relatime`, `ro` and `rw` begin with the letter of the recursive forms but are not recursive.
        assert_eq!(of(&["ro"]).attributes.set, A::MOUNT_ATTR_RDONLY);
        let atime = A::MOUNT_ATTR__ATIME | A::MOUNT_ATTR_NODIRATIME;
        assert_eq!(of(&["relatime"]).attributes.clear, atime);
        assert_eq!(of(&["rrelatime"]).attributes.clear_below, A::MOUNT_ATTR__ATIME);
        assert_eq!(of(&["rremount"]).parameters.len(), 1);
    }

    #[test]
    fn a_bind_that_says_something_takes_the_rest_off() {
        assert_eq!(of(&["bind"]).attributes.clear_unlocked, A::empty());
        assert_eq!(of(&["bind", "rprivate"]).attributes.clear_unlocked, A::empty());
        let options = of(&["bind", "ro", "exec"]).attributes;
        let rest = A::MOUNT_ATTR_NOSUID | A::MOUNT_ATTR_NODEV | A::MOUNT_ATTR_NOSYMFOLLOW;
        assert_eq!(options.clear_unlocked, rest);
        assert_eq!(options.clear, A::MOUNT_ATTR_NOEXEC);
        assert_eq!(of(&["ro"]).attributes.clear_unlocked, A::empty(), "no bind");
    }

    #[test]
    fn access_times_as_mount_has_them() {
        let nodir = A::MOUNT_ATTR_NODIRATIME;
        for (options, mode) in [
            (&["noatime"][..], Some(A::MOUNT_ATTR_NOATIME)),
            (&["relatime"], Some(A::empty())),
            (&["strictatime"], Some(A::MOUNT_ATTR_STRICTATIME)),
            (&["nodiratime"], Some(nodir)),
            (&["nodiratime", "norelatime"], Some(nodir)),
            (
                &["nodiratime", "strictatime"],
                Some(nodir | A::MOUNT_ATTR_STRICTATIME),
            ),
            (&["atime"], None),
            (&["norelatime"], None),
            (&["diratime"], None),
            (&["nostrictatime"], None),
            (&["noatime", "atime"], None),
        ] {
            let attributes = of(options).attributes;
            let field = A::MOUNT_ATTR__ATIME | nodir;
            assert_eq!(attributes.set & field, mode.unwrap_or(A::empty()), "{options:?}");
            assert_eq!(
                attributes.clear.contains(A::MOUNT_ATTR__ATIME),
                mode.is_some(),
                "{options:?}"
            );
        }
        for option in ["ratime", "rnorelatime", "rnostrictatime", "rrelatime"] {
            let attributes = of(&["rbind", option]).attributes;
            assert_eq!(attributes.set_below, A::empty(), "{option}");
            assert_eq!(attributes.clear_below, A::MOUNT_ATTR__ATIME, "{option}");
        }
    }

    #[test]
    fn what_is_no_attribute() {
        let options = of(&["remount", "tmpcopyup", "sync", "ridmap"]);
        assert!(options.remount && options.copy_up && options.parameters.is_empty());
        assert_eq!((options.general, options.idmap), (vec!["sync"], Some(true)));
        assert_eq!(of(&["idmap"]).idmap, Some(false));
    }
}
