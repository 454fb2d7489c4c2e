//! Errors for system calls, and the calls that can fail with them in practice.

use nix::errno::Errno;

/// Errors that are tried if the command line names none.
pub(crate) const USUAL: &[Errno] = &[
    Errno::EMFILE,
    Errno::EIO,
    Errno::ENOSPC,
    Errno::ENOMEM,
    Errno::EINTR,
];

const KNOWN: &[Errno] = &[
    Errno::EACCES,
    Errno::EAGAIN,
    Errno::EBUSY,
    Errno::EDQUOT,
    Errno::EFBIG,
    Errno::EINTR,
    Errno::EINVAL,
    Errno::EIO,
    Errno::EMFILE,
    Errno::EMLINK,
    Errno::ENFILE,
    Errno::ENOENT,
    Errno::ENOLCK,
    Errno::ENOMEM,
    Errno::ENOSPC,
    Errno::ENOSYS,
    Errno::EOPNOTSUPP,
    Errno::EPERM,
    Errno::EROFS,
    Errno::ESTALE,
    Errno::EXDEV,
];

/// Calls that make a descriptor.
const OPENING: &[&str] = &[
    "open",
    "openat",
    "openat2",
    "socket",
    "socketpair",
    "pipe2",
    "dup",
    "eventfd2",
    "epoll_create1",
    "memfd_create",
    "pidfd_open",
    "timerfd_create",
    "signalfd4",
    "inotify_init1",
    "accept4",
    "fsopen",
    "fspick",
    "fsmount",
    "open_tree",
];

/// Calls that read from files and change nothing.
const LOOKING: &[&str] = &[
    "read",
    "pread64",
    "readv",
    "getdents64",
    "newfstatat",
    "fstat",
    "stat",
    "lstat",
    "statx",
    "readlink",
    "readlinkat",
    "statfs",
    "fstatfs",
    "lgetxattr",
    "fgetxattr",
    "flistxattr",
    "llistxattr",
    "faccessat",
    "faccessat2",
    "access",
];

/// Calls that need room on a disk.
const GROWING: &[&str] = &[
    "write",
    "pwrite64",
    "writev",
    "mkdir",
    "mkdirat",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "rename",
    "renameat",
    "renameat2",
    "mknod",
    "mknodat",
    "ftruncate",
    "fallocate",
    "copy_file_range",
    "sendfile",
    "fsetxattr",
    "lsetxattr",
];

/// Calls that remove from a disk, or change it without a need for room.
const SHRINKING: &[&str] = &[
    "unlink",
    "unlinkat",
    "rmdir",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "lchown",
    "utimensat",
    "fsync",
    "fdatasync",
    "syncfs",
];

/// Calls that make kernel objects.
const MAKING: &[&str] = &[
    "clone",
    "clone3",
    "fork",
    "vfork",
    "mount",
    "move_mount",
    "fsconfig",
    "mount_setattr",
    "unshare",
    "setns",
    "bind",
    "listen",
    "connect",
    "fcntl",
    "flock",
    "umount2",
];

/// Calls that can block.
const WAITING: &[&str] = &[
    "read",
    "write",
    "poll",
    "ppoll",
    "wait4",
    "waitid",
    "recvmsg",
    "recvfrom",
    "sendmsg",
    "sendto",
    "accept4",
    "connect",
    "flock",
    "fcntl",
    "open",
    "openat",
    "epoll_wait",
    "nanosleep",
    "clock_nanosleep",
];

/// True if a call of this name can fail with this error in practice.
///
/// Errors outside [`USUAL`] fit every call that touches files or processes.
pub(crate) fn is_plausible(errno: Errno, call: &str) -> bool {
    let among = |lists: &[&[&str]]| lists.iter().any(|list| list.contains(&call));
    match errno {
        Errno::EMFILE | Errno::ENFILE => among(&[OPENING]),
        Errno::EINTR => among(&[WAITING]),
        Errno::ENOSPC | Errno::EDQUOT => among(&[GROWING]) || matches!(call, "open" | "openat" | "openat2"),
        Errno::EROFS => among(&[GROWING, SHRINKING]) || matches!(call, "open" | "openat" | "openat2"),
        Errno::EIO => among(&[LOOKING, GROWING, SHRINKING]) || matches!(call, "open" | "openat" | "openat2"),
        _ => among(&[OPENING, LOOKING, GROWING, SHRINKING, MAKING]),
    }
}

/// Finds an error by its name, such as `EMFILE`.
pub(crate) fn parse(name: &str) -> Option<Errno> {
    KNOWN.iter().copied().find(|errno| shown(*errno) == name)
}

/// Returns the name of an error.
pub(crate) fn shown(errno: Errno) -> String {
    format!("{errno:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(parse("EMFILE"), Some(Errno::EMFILE));
        assert_eq!(parse("emfile"), None);
        assert!(USUAL.iter().all(|errno| KNOWN.contains(errno)));
    }

    #[test]
    fn an_error_fits_where_it_may_be() {
        for (errno, call, fits) in [
            (Errno::EMFILE, "openat", true),
            (Errno::EMFILE, "read", false),
            (Errno::ENOSPC, "write", true),
            (Errno::ENOSPC, "unlinkat", false),
            (Errno::EIO, "unlinkat", true),
            (Errno::EINTR, "poll", true),
            (Errno::ENOMEM, "brk", false),
            (Errno::ENOMEM, "clone3", true),
            (Errno::EIO, "exit_group", false),
        ] {
            assert_eq!(is_plausible(errno, call), fits, "{errno:?} {call}");
        }
    }
}
