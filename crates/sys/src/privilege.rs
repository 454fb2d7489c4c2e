//! Identity and rights of a process, as a plan gives them.

use crate::SockFilter;

/// Both maps that a process may write for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdMaps {
    /// User id inside and outside.
    pub uid: (u32, u32),
    /// Group id inside and outside.
    pub gid: (u32, u32),
}

/// Identity and rights of a process.
///
/// The kernel imposes the order: the bounding set needs CAP_SETPCAP, a filter without no_new_privs needs
/// CAP_SYS_ADMIN, and the ids must change before the permitted set shrinks.
#[derive(Debug)]
pub struct Privilege {
    /// Ids; `None` leaves them.
    pub credentials: Option<Credentials>,
    /// Capabilities; `None` leaves them.
    pub capabilities: Option<Capabilities>,
    /// Whether PR_SET_NO_NEW_PRIVS is set.
    pub no_new_privs: bool,
    /// System call filter and its `SECCOMP_FILTER_FLAG_…`. If they ask for a listener, it goes to the parent (see
    /// [`crate::Event::Seccomp`]).
    pub filter: Option<Filter>,
}

/// A system call filter and its `SECCOMP_FILTER_FLAG_…`.
pub type Filter = (Box<[SockFilter]>, u32);

/// User, group and supplementary groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary group ids; `None` if setgroups(2) is denied.
    pub groups: Option<Vec<u32>>,
}

/// Five capability sets as bit masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Capabilities that stay in the bounding set.
    pub bounding: u64,
    /// Effective set.
    pub effective: u64,
    /// Permitted set.
    pub permitted: u64,
    /// Inheritable set.
    pub inheritable: u64,
    /// Ambient set.
    pub ambient: u64,
}
