//! Axes of the matrix of machines, each with its values, the usual one first. A value is made by the function `AXIS_VALUE` of
//! `machine.sh`.

/// Users whose machines have an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Of {
    /// Root and all other users.
    Both,
    /// Root alone: for others it is a setting that only root's networks meet.
    Root,
    /// Users other than root.
    User,
}

/// Axis of the matrix.
#[derive(Debug)]
pub(in super::super) struct Axis {
    /// Name of one word.
    pub(in super::super) name: &'static str,
    /// Users whose machines have it.
    pub(in super::super) of: Of,
    /// Values, the usual one first.
    pub(in super::super) values: &'static [Value],
}

/// Value of an axis.
#[derive(Debug)]
pub(in super::super) struct Value {
    /// Name of one word, as in the names of cells.
    pub(in super::super) name: &'static str,
    /// True if most tries cannot work with it, so that its cell says little about other values: no cell has two of these.
    pub(in super::super) lack: bool,
}

const fn value(name: &'static str) -> Value {
    Value { name, lack: false }
}

const fn lack(name: &'static str) -> Value {
    Value { name, lack: true }
}

const fn axis(name: &'static str, of: Of, values: &'static [Value]) -> Axis {
    Axis { name, of, values }
}

/// All axes.
pub(in super::super) const AXES: &[Axis] = &[
    // Rules of other programs, as they are on Debian 12; `nft` is a policy of an administrator's own.
    axis(
        "firewall",
        Of::Both,
        &[
            value("none"),
            value("docker"),
            value("ufw"),
            value("firewalld"),
            value("flushed"),
            lack("nft"),
        ],
    ),
    // Name servers that the machine asks.
    axis(
        "resolv",
        Of::Both,
        &[
            value("lan"),
            value("resolved"),
            value("dnsmasq"),
            value("unbound"),
            value("dead"),
            value("search"),
            value("readonly"),
        ],
    ),
    // Ways out of the machine.
    axis(
        "uplink",
        Of::Both,
        &[value("one"), value("two"), value("vpn"), value("changed")],
    ),
    axis("forward", Of::Root, &[value("0"), value("1")]),
    axis("rp", Of::Root, &[value("0"), value("1"), value("2")]),
    axis("frames", Of::Root, &[value("0"), value("1")]),
    axis(
        "tun",
        Of::User,
        &[value("there"), lack("missing"), lack("closed")],
    ),
    // Ranges of subordinate ids.
    axis(
        "subid",
        Of::User,
        &[value("one"), value("none"), value("several")],
    ),
    axis("umask", Of::Both, &[value("022"), value("077"), value("000")]),
    // `other` is on a file system of its own.
    axis("home", Of::Both, &[value("set"), value("unset"), value("other")]),
    axis("proc", Of::Both, &[value("open"), value("hidepid")]),
    // Directory in which commands run: `odd` has a name that is not UTF-8.
    axis("place", Of::Both, &[value("plain"), value("odd")]),
    // `shims` has programs of pyenv, conda, nvm and rustup in front of $PATH, which only work where those tools have been set up.
    axis("path", Of::Both, &[value("plain"), value("shims")]),
    axis("shell", Of::Both, &[value("sh"), value("gone")]),
];
