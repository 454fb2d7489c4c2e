//! Capabilities by name, capabilities(7).

/// Names without `CAP_`, in the order of their numbers.
pub const ALL: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// Bit of CAP_SYS_ADMIN.
pub(crate) const SYS_ADMIN: u64 = 1 << 21;

/// Returns the number of `CAP_CHOWN` and its kin; names are upper case, as the spec writes them.
#[must_use]
pub fn by_name(name: &str) -> Option<u32> {
    let name = name.strip_prefix("CAP_")?;
    ALL.iter()
        .position(|known| *known == name)
        .and_then(|number| u32::try_from(number).ok())
}

/// Returns the bits of those names that are capabilities.
pub(crate) fn mask(names: &[String]) -> u64 {
    let numbers = names.iter().filter_map(|name| by_name(name));
    numbers.fold(0, |mask, number| mask | 1 << number)
}

/// Bit of CAP_SYS_RESOURCE, with which a process may raise its own limits.
pub(crate) const SYS_RESOURCE: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels() {
        for (name, number) in [
            ("CAP_CHOWN", 0),
            ("CAP_SYS_ADMIN", 21),
            ("CAP_MKNOD", 27),
            ("CAP_CHECKPOINT_RESTORE", 40),
        ] {
            assert_eq!(by_name(name), Some(number), "{name}");
        }
        for name in ["CHOWN", "CAP_", "CAP_chown", "CAP_FLY"] {
            assert_eq!(by_name(name), None, "{name}");
        }
        assert_eq!(by_name("CAP_SYS_RESOURCE"), Some(SYS_RESOURCE.trailing_zeros()));
    }
}
