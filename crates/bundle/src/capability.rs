//! `--cap-add`, `--cap-drop` and the capability sets that result from them.

/// All capabilities of capabilities(7), in the order of their numbers.
const ALL: [&str; 41] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

/// docker's default set.
const DEFAULT: [&str; 14] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
];

/// Returns the full names of the capabilities that a container with these options is limited to.
#[must_use]
pub fn capabilities_of(options: &crate::RunOptions) -> Vec<&'static str> {
    tweak(&options.cap_add, &options.cap_drop, options.privileged)
}

/// A value of `--cap-add` or `--cap-drop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// `ALL`.
    All,
    /// A single capability by its full name (`CAP_CHOWN`).
    One(&'static str),
}

/// Why a text is not a capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown capability: {0:?}: give ALL or a name from capabilities(7), such as NET_ADMIN")]
pub struct CapabilityError(pub String);

impl std::str::FromStr for Capability {
    type Err = CapabilityError;

    /// Parses `ALL`, or a name in either case with or without `CAP_`.
    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        let upper = text.to_ascii_uppercase();
        if upper == "ALL" {
            return Ok(Self::All);
        }
        let short = upper.strip_prefix("CAP_").unwrap_or(&upper);
        ALL.into_iter()
            .find(|name| name.strip_prefix("CAP_") == Some(short))
            .map(Self::One)
            .ok_or_else(|| {
                let prefix = if upper.starts_with("CAP_") { "" } else { "CAP_" };
                CapabilityError(format!("{prefix}{upper}"))
            })
    }
}

/// Computes the set that adding and dropping leaves, as docker resolves it. `--cap-add ALL` gives everything except
/// the dropped ones; otherwise `--cap-drop ALL` gives only the added ones; otherwise the dropped ones are taken
/// from the defaults and the added ones are put in. `--privileged` gives everything, whatever the other options
/// say.
pub(crate) fn tweak(add: &[Capability], drop: &[Capability], privileged: bool) -> Vec<&'static str> {
    if privileged {
        return ALL.to_vec();
    }
    let kept = |set: &[&'static str]| -> Vec<&'static str> {
        set.iter()
            .copied()
            .filter(|name| !drop.contains(&Capability::One(name)))
            .collect()
    };
    if add.contains(&Capability::All) {
        return kept(&ALL);
    }
    let mut set = if drop.contains(&Capability::All) {
        Vec::new()
    } else {
        kept(&DEFAULT)
    };
    for name in named(add) {
        if !set.contains(&name) {
            set.push(name);
        }
    }
    set
}

/// Computes the set of an unprivileged user: only those of `--cap-add`, within `bounding`.
pub(crate) fn for_user(add: &[Capability], bounding: &[&'static str]) -> Vec<&'static str> {
    if add.contains(&Capability::All) {
        return bounding.to_vec();
    }
    bounding
        .iter()
        .copied()
        .filter(|name| add.contains(&Capability::One(name)))
        .collect()
}

pub(crate) fn named(capabilities: &[Capability]) -> impl Iterator<Item = &'static str> {
    capabilities.iter().filter_map(|capability| match capability {
        Capability::All => None,
        Capability::One(name) => Some(*name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<Capability> {
        text.split_whitespace()
            .map(|name| name.parse().unwrap())
            .collect()
    }

    #[test]
    fn names() {
        for text in ["NET_ADMIN", "net_admin", "CAP_NET_ADMIN", "cap_net_admin"] {
            assert_eq!(text.parse(), Ok(Capability::One("CAP_NET_ADMIN")), "{text}");
        }
        assert_eq!("all".parse(), Ok(Capability::All));
        for (text, shown) in [
            ("foo", "CAP_FOO"),
            ("", "CAP_"),
            ("CAP_ALL", "CAP_ALL"),
            ("CAP_CAP_CHOWN", "CAP_CAP_CHOWN"),
        ] {
            assert_eq!(text.parse::<Capability>(), Err(CapabilityError(shown.to_owned())));
        }
    }

    #[test]
    fn order_of_resolution() {
        for (add, drop, count, has, lacks) in [
            ("", "", 14, "CAP_CHOWN", "CAP_SYS_ADMIN"),
            ("SYS_ADMIN", "", 15, "CAP_SYS_ADMIN", "CAP_BPF"),
            ("CHOWN", "", 14, "CAP_CHOWN", "CAP_BPF"),
            ("", "CHOWN", 13, "CAP_KILL", "CAP_CHOWN"),
            ("CHOWN", "CHOWN", 14, "CAP_CHOWN", "CAP_BPF"),
            ("ALL", "", 41, "CAP_BPF", ""),
            ("ALL", "BPF", 40, "CAP_CHOWN", "CAP_BPF"),
            ("CHOWN", "ALL", 1, "CAP_CHOWN", "CAP_KILL"),
            ("ALL", "ALL", 41, "CAP_BPF", ""),
        ] {
            let set = tweak(&list(add), &list(drop), false);
            assert_eq!(set.len(), count, "add {add:?} drop {drop:?}: {set:?}");
            assert!(
                set.contains(&has) && !set.contains(&lacks),
                "add {add:?} drop {drop:?}: {set:?}"
            );
        }
        assert!(tweak(&[], &list("ALL"), false).is_empty());
        assert_eq!(tweak(&[], &list("ALL"), true).len(), 41);
    }

    #[test]
    fn an_unprivileged_user_holds_only_what_was_added() {
        let bounding = tweak(&list("NET_ADMIN"), &[], false);
        assert_eq!(for_user(&list("NET_ADMIN"), &bounding), ["CAP_NET_ADMIN"]);
        assert!(for_user(&[], &bounding).is_empty());
        assert_eq!(for_user(&list("ALL"), &bounding).len(), 15);
    }
}
