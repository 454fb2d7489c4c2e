/// Set of capabilities: bit n is the capability with number n (linux/capability.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CapSet(u64);

/// Capabilities that the default profile asks for, and those of docker's default set.
macro_rules! capabilities {
    ($($name:ident = $number:literal),+ $(,)?) => {
        impl CapSet {
            $(
                #[doc = concat!("Only `CAP_", stringify!($name), "`.")]
                pub const $name: Self = Self(1 << $number);
            )+
        }
    };
}

capabilities! {
    CHOWN = 0,
    DAC_OVERRIDE = 1,
    DAC_READ_SEARCH = 2,
    FOWNER = 3,
    FSETID = 4,
    KILL = 5,
    SETGID = 6,
    SETUID = 7,
    SETPCAP = 8,
    NET_BIND_SERVICE = 10,
    NET_RAW = 13,
    SYS_MODULE = 16,
    SYS_RAWIO = 17,
    SYS_CHROOT = 18,
    SYS_PTRACE = 19,
    SYS_PACCT = 20,
    SYS_ADMIN = 21,
    SYS_BOOT = 22,
    SYS_NICE = 23,
    SYS_TIME = 25,
    SYS_TTY_CONFIG = 26,
    MKNOD = 27,
    AUDIT_WRITE = 29,
    SETFCAP = 31,
    SYSLOG = 34,
    PERFMON = 38,
    BPF = 39,
}

impl CapSet {
    /// Empty set.
    pub const EMPTY: Self = Self(0);
    /// Every capability, including those that do not exist yet.
    pub const ALL: Self = Self(u64::MAX);
    /// Capabilities, 14 in number, that docker gives a container.
    pub const DOCKER: Self = Self::CHOWN
        .union(Self::DAC_OVERRIDE)
        .union(Self::FSETID)
        .union(Self::FOWNER)
        .union(Self::MKNOD)
        .union(Self::NET_RAW)
        .union(Self::SETGID)
        .union(Self::SETUID)
        .union(Self::SETFCAP)
        .union(Self::SETPCAP)
        .union(Self::NET_BIND_SERVICE)
        .union(Self::SYS_CHROOT)
        .union(Self::KILL)
        .union(Self::AUDIT_WRITE);

    /// Returns the set with these bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the set's bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// True if any of the others is in this set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
