//! Calls of the default profile, by subject. Calls that reach the whole kernel or machine (kexec, swap, quotas of
//! others, io_uring, keyrings, userfaultfd, ...) are in none of the lists, and so forbidden whatever the
//! capabilities.

use crate::capability::CapSet;

/// Calls that are allowed to every container.
pub(super) const ALWAYS: &[&str] = &[
    IDENTITY,
    PROCESS,
    SCHEDULING,
    SIGNALS,
    FUTEX,
    MEMORY,
    FILES,
    DIRECTORIES,
    ATTRIBUTES,
    DESCRIPTORS,
    POLLING,
    WATCHING,
    ASYNC,
    SOCKETS,
    SYSTEM_V,
    QUEUES,
    TIME,
    TRACING,
    SELF_RESTRICTION,
    SYSTEM,
];

const IDENTITY: &str = "
    capget capset getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getresgid
    getresgid32 getresuid getresuid32 getuid getuid32 setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32
    setgroups setgroups32 setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32
    setuid setuid32
";

const PROCESS: &str = "
    execve execveat exit exit_group fork get_thread_area getpgid getpgrp getpid getppid getsid gettid
    pidfd_open pidfd_send_signal prctl process_mrelease restart_syscall rseq set_thread_area set_tid_address
    setpgid setsid vfork wait4 waitid waitpid
";

const SCHEDULING: &str = "
    getcpu getpriority getrlimit getrusage ioprio_get ioprio_set prlimit64 sched_get_priority_max
    sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
    sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam
    sched_setscheduler sched_yield setpriority setrlimit ugetrlimit
";

const SIGNALS: &str = "
    kill pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
    rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sigaltstack signalfd signalfd4 sigprocmask
    sigreturn tgkill tkill
";

const FUTEX: &str = "
    futex futex_requeue futex_time64 futex_wait futex_waitv futex_wake get_robust_list membarrier
    set_robust_list
";

const MEMORY: &str = "
    brk madvise map_shadow_stack memfd_create memfd_secret mincore mlock mlock2 mlockall mmap mmap2 mprotect
    mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect remap_file_pages
";

/// Contents of open files, and how they are opened.
const FILES: &str = "
    _llseek cachestat copy_file_range creat fadvise64 fadvise64_64 fallocate fdatasync fsync ftruncate
    ftruncate64 lseek name_to_handle_at open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2
    read readahead readv sendfile sendfile64 splice sync sync_file_range syncfs tee truncate truncate64
    vmsplice write writev
";

/// Names.
const DIRECTORIES: &str = "
    chdir fchdir getcwd getdents getdents64 link linkat mkdir mkdirat mknod mknodat readlink readlinkat
    rename renameat renameat2 rmdir symlink symlinkat unlink unlinkat
";

/// Attributes of files and file systems.
const ATTRIBUTES: &str = "
    access chmod chown chown32 faccessat faccessat2 fchmod fchmodat fchmodat2 fchown fchown32 fchownat
    fgetxattr flistxattr fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 futimesat getxattr
    getxattrat lchown lchown32 lgetxattr listmount listxattr listxattrat llistxattr lremovexattr lsetxattr
    lstat lstat64 newfstatat removexattr removexattrat setxattr setxattrat stat stat64 statfs statfs64
    statmount statx umask utime utimensat utimensat_time64 utimes
";

const DESCRIPTORS: &str = "
    close close_range dup dup2 dup3 eventfd eventfd2 fcntl fcntl64 flock ioctl pipe pipe2
";

const POLLING: &str = "
    _newselect epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait
    epoll_wait_old poll ppoll ppoll_time64 pselect6 pselect6_time64 select
";

const WATCHING: &str = "
    fanotify_mark inotify_add_watch inotify_init inotify_init1 inotify_rm_watch
";

/// Old asynchronous input and output; io_uring is left out, because it bypasses every filter of calls.
const ASYNC: &str = "
    io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit
";

/// Socket calls except socket(2), which depends on the family.
const SOCKETS: &str = "
    accept accept4 bind connect getpeername getsockname getsockopt listen recv recvfrom recvmmsg
    recvmmsg_time64 recvmsg send sendmmsg sendmsg sendto setsockopt shutdown socketcall socketpair
";

const SYSTEM_V: &str = "
    ipc msgctl msgget msgrcv msgsnd semctl semget semop semtimedop semtimedop_time64 shmat shmctl shmdt
    shmget
";

const QUEUES: &str = "
    mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64
    mq_unlink
";

/// Clocks; adjtimex and its kin check CAP_SYS_TIME when asked to change one.
const TIME: &str = "
    adjtimex alarm clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime
    clock_gettime64 clock_nanosleep clock_nanosleep_time64 getitimer gettimeofday nanosleep setitimer time
    timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64
    timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times
";

/// Calls that are harmless since Linux 4.8: before, a tracer could change a call after the filter had seen it.
const TRACING: &str = "
    process_vm_readv process_vm_writev ptrace uretprobe
";

const SELF_RESTRICTION: &str = "
    landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp
";

const SYSTEM: &str = "
    getrandom sysinfo uname
";

/// Allowed on x86.
pub(super) const X86: &str = "
    arch_prctl modify_ldt
";

/// Allowed on Arm.
pub(super) const ARM: &str = "
    arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush set_tls sync_file_range2
";

/// Calls that are allowed with a capability.
pub(super) const MIGHT: &[(CapSet, &str)] = &[
    (CapSet::BPF, "bpf"),
    (CapSet::DAC_READ_SEARCH, "open_by_handle_at"),
    (CapSet::PERFMON, "perf_event_open"),
    (
        CapSet::SYS_ADMIN,
        "
            bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie lsm_get_self_attr
            lsm_list_modules lsm_set_self_attr mount mount_setattr move_mount open_tree perf_event_open
            quotactl quotactl_fd setdomainname sethostname setns syslog umount umount2 unshare
        ",
    ),
    (CapSet::SYS_BOOT, "reboot"),
    (CapSet::SYS_CHROOT, "chroot"),
    (CapSet::SYS_MODULE, "delete_module finit_module init_module"),
    (
        CapSet::SYS_NICE,
        "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
    ),
    (CapSet::SYS_PACCT, "acct"),
    (
        CapSet::SYS_PTRACE,
        "kcmp pidfd_getfd process_madvise process_vm_readv process_vm_writev ptrace",
    ),
    (CapSet::SYS_RAWIO, "ioperm iopl"),
    (
        CapSet::SYS_TIME,
        "clock_settime clock_settime64 settimeofday stime",
    ),
    (CapSet::SYS_TTY_CONFIG, "vhangup"),
    (CapSet::SYSLOG, "syslog"),
];
