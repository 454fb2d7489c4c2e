//! Which modes a new file has at once, so that only others cost a call.

use super::attributes;
use std::os::fd::BorrowedFd;

/// Permission bits that entries of this process lose when they are created below a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreationMask(u32);

impl CreationMask {
    /// The mask for entries below `root`: the process's umask. All bits count as lost if the umask is unknown, or if `root` has a
    /// default ACL, of which the new entries' modes are made.
    #[must_use]
    pub fn below(root: BorrowedFd<'_>) -> Self {
        let acl = attributes::get(root, b"system.posix_acl_default");
        let umask = if matches!(acl, Ok(None)) { umask() } else { None };
        Self(umask.unwrap_or(0o777))
    }

    /// True if an entry that is created with this mode has it. Set-id bits never count as left, because an entry must not have them
    /// before its owner is set.
    #[must_use]
    pub fn leaves(self, mode: u32) -> bool {
        mode & (0o7000 | self.0) == 0
    }
}

/// Reads the process's umask from /proc, because umask(2) would change it, for all threads.
fn umask() -> Option<u32> {
    // absence: modes are set by a call of their own then
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    parse_umask(&status)
}

fn parse_umask(status: &str) -> Option<u32> {
    let value = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(value.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn umasks() {
        assert_eq!(parse_umask("Name:\tx\nUmask:\t0022\nState:\tR\n"), Some(0o22));
        assert_eq!(parse_umask("Name:\tx\nUmask:\tx\n"), None);
        assert_eq!(parse_umask(""), None);
    }
}
