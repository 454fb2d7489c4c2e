//! System calls that a listener hears of, and what they say about the rights of a program.

/// Calls by which files are opened and programs begin.
pub(crate) const FILES: [&str; 6] = ["open", "openat", "openat2", "creat", "execve", "execveat"];

/// Calls that no listener hears of, since programs make them all the time, most of them on descriptors that they have
/// already, or tote itself on the way to the program. A profile always has them, as far as the default profile does.
pub const ALWAYS: &[&str] = &[
    "_llseek",
    "_newselect",
    "accept",
    "accept4",
    "access",
    "arch_prctl",
    "brk",
    "capget",
    "capset",
    "chdir",
    "clock_getres",
    "clock_gettime",
    "clock_gettime64",
    "clock_nanosleep",
    "clock_nanosleep_time64",
    "clone",
    "clone3",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "execve",
    "exit",
    "exit_group",
    "faccessat",
    "faccessat2",
    "fchdir",
    "fcntl",
    "fcntl64",
    "fdatasync",
    "fork",
    "fstat",
    "fstat64",
    "fstatat64",
    "fsync",
    "ftruncate",
    "futex",
    "futex_time64",
    "getcwd",
    "getdents",
    "getdents64",
    "getegid",
    "getegid32",
    "geteuid",
    "geteuid32",
    "getgid",
    "getgid32",
    "getpid",
    "getppid",
    "getrandom",
    "getrusage",
    "gettid",
    "gettimeofday",
    "getuid",
    "getuid32",
    "ioctl",
    "lseek",
    "lstat",
    "lstat64",
    "madvise",
    "mmap",
    "mmap2",
    "mprotect",
    "mremap",
    "munmap",
    "nanosleep",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "poll",
    "ppoll",
    "ppoll_time64",
    "prctl",
    "pread64",
    "preadv",
    "preadv2",
    "prlimit64",
    "pselect6",
    "pselect6_time64",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readlink",
    "readlinkat",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "sched_getaffinity",
    "sched_yield",
    "seccomp",
    "select",
    "sendfile",
    "sendfile64",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "set_robust_list",
    "set_thread_area",
    "set_tid_address",
    "setgid",
    "setgid32",
    "setgroups",
    "setgroups32",
    "setresgid",
    "setresgid32",
    "setresuid",
    "setresuid32",
    "setsid",
    "setuid",
    "setuid32",
    "sigaltstack",
    "sigreturn",
    "splice",
    "stat",
    "stat64",
    "statx",
    "tgkill",
    "time",
    "umask",
    "uname",
    "vfork",
    "wait4",
    "waitid",
    "waitpid",
    "write",
    "writev",
];

/// Calls of that list that say something about capabilities: a listener hears of them all the same.
const TELLING: &[&str] = &[
    "setgid",
    "setgid32",
    "setgroups",
    "setgroups32",
    "setresgid",
    "setresgid32",
    "setresuid",
    "setresuid32",
    "setuid",
    "setuid32",
];

/// Calls that a listener of rights hears of; `files` are heard of as well. A program's begin is heard of in any case:
/// what comes before are calls of tote's own.
pub(crate) fn heard(files: bool) -> Vec<&'static str> {
    let mut calls: Vec<&str> = tote_seccomp::Arch::NATIVE
        .family()
        .flat_map(tote_seccomp::Arch::calls)
        .filter(|name| TELLING.contains(name) || ALWAYS.binary_search(name).is_err())
        .collect();
    let begins = FILES.iter().filter(|name| files || name.starts_with("execve"));
    calls.extend(begins);
    calls.sort_unstable();
    calls.dedup();
    calls
}

/// Returns the capability without which a call with these arguments is refused, or may be, by its short name.
pub(crate) fn capability(call: &str, arguments: &[u64; 6]) -> Option<&'static str> {
    const AF_PACKET: u64 = 17;
    const SOCK_RAW: u64 = 3;
    const PR_CAPBSET_DROP: u64 = 24;
    let is_raw = || arguments[0] & 0xff == AF_PACKET || arguments[1] & 0xf == SOCK_RAW;
    Some(match call {
        "chown" | "chown32" | "fchown" | "fchown32" | "lchown" | "lchown32" | "fchownat" => "CHOWN",
        "setuid" | "setuid32" | "setreuid" | "setreuid32" | "setresuid" | "setresuid32" | "setfsuid"
        | "setfsuid32" => "SETUID",
        "setgid" | "setgid32" | "setregid" | "setregid32" | "setresgid" | "setresgid32" | "setfsgid"
        | "setfsgid32" | "setgroups" | "setgroups32" => "SETGID",
        "chroot" => "SYS_CHROOT",
        "mknod" | "mknodat" => "MKNOD",
        "kill" | "pidfd_send_signal" => "KILL",
        "setxattr" | "lsetxattr" | "fsetxattr" | "setxattrat" => "SETFCAP",
        "socket" if is_raw() => "NET_RAW",
        "prctl" if arguments[0] == PR_CAPBSET_DROP => "SETPCAP",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert!(ALWAYS.is_sorted() && TELLING.is_sorted());
        let rights = heard(false);
        assert!(rights.contains(&"bind") && rights.contains(&"setuid") && !rights.contains(&"openat"));
        // The kernel gives a filter's listener away by this call.
        assert!(!rights.contains(&"write") && !rights.contains(&"sendmsg"));
        assert!(rights.contains(&"execve") && heard(true).contains(&"openat"));
    }

    #[test]
    fn capabilities_of_calls() {
        for (call, arguments, expected) in [
            ("fchownat", [0; 6], Some("CHOWN")),
            ("socket", [2, 1, 0, 0, 0, 0], None),
            ("socket", [2, 0o2_000_003, 1, 0, 0, 0], Some("NET_RAW")),
            ("socket", [17, 2, 0, 0, 0, 0], Some("NET_RAW")),
            ("prctl", [24, 0, 0, 0, 0, 0], Some("SETPCAP")),
            ("prctl", [15, 0, 0, 0, 0, 0], None),
            ("openat", [0; 6], None),
        ] {
            assert_eq!(capability(call, &arguments), expected, "{call}");
        }
    }
}
