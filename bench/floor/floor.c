/*
 * The kernel's floor: what it costs to start and reap one process in a container when nothing is parsed, nothing is
 * written down and nothing is checked twice.
 *
 *     floor [--timings] LOWER STAGING PROGRAM [ARG...]
 *
 * LOWER is a small tree with the directories usr, proc, sys and dev and the links bin, lib and lib64; STAGING is an
 * empty directory. Needs root. Exits with PROGRAM's status, 128 + signal, or 125 when the container could not be made.
 *
 * What it does is what an engine without a network, limits, capabilities and seccomp does: new mount, pid, ipc, uts,
 * net and cgroup namespaces, private propagation, an overlay with its upper directory on a tmpfs, the host's /usr bound
 * read-only, /proc, /dev with its six nodes, pts, shm and mqueue, a read-only /sys, the masked and read-only paths of
 * docker, the loopback device up, pivot_root, exec.
 *
 * What it does not do: a user namespace, cgroups, rlimits, capabilities, seccomp, state on disk, a pid 1 of its own.
 *
 * The child shares the parent's memory until exec (CLONE_VM | CLONE_VFORK): no page table is copied, and the child's
 * clock readings and errors need no pipe.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP)
#define CANNOT_CONTAIN 125
#define STACK_BYTES (64 * 1024)
#define LEN(a) (sizeof(a) / sizeof((a)[0]))

enum mark { START, CLONED, OVERLAID, BOUND, PROC, DEV, SYS, MASKED, NAMED, PIVOTED, EXECED, REAPED, MARKS };

/* The time up to each mark, since the one before. */
static const char *const labels[MARKS] = {
    [CLONED] = "clone",         [OVERLAID] = "overlay on tmpfs",        [BOUND] = "bind /usr", [PROC] = "mount /proc",
    [DEV] = "populate /dev",    [SYS] = "mount /sys",                   [MASKED] = "mask and protect paths",
    [NAMED] = "name, loopback", [PIVOTED] = "pivot_root and detach",    [EXECED] = "exec",
    [REAPED] = "run, exit and tear down",
};

static struct timespec marks[MARKS];
static int timings;

struct container {
    const char *lower;
    const char *staging;
    char **argv;
};

static void mark(enum mark m)
{
    if (timings)
        clock_gettime(CLOCK_MONOTONIC, &marks[m]);
}

/* Runs in either process; _exit because the child may not run the parent's atexit handlers. */
static void die(const char *attempt, const char *object)
{
    dprintf(STDERR_FILENO, "floor: %s %s: %s\n", attempt, object, strerror(errno));
    _exit(CANNOT_CONTAIN);
}

static void mount_new(const char *type, const char *target, unsigned long flags, const char *options)
{
    if (mount(type, target, type, flags, options) < 0)
        die("mount on", target);
}

static void bind_mount(const char *source, const char *target, unsigned long recursive)
{
    if (mount(source, target, NULL, MS_BIND | recursive, NULL) < 0)
        die("bind on", target);
}

/* A bind takes its flags from the source: read-only is a second call, and this one keeps the flags it does not name. */
static void make_read_only(const char *target)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
    if (syscall(SYS_mount_setattr, AT_FDCWD, target, AT_RECURSIVE, &attr, sizeof(attr)) < 0)
        die("make read-only", target);
}

static void make_dir(const char *path, mode_t mode)
{
    if (mkdir(path, mode) < 0)
        die("make directory", path);
}

static void overlay(const struct container *c)
{
    char options[4096];

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        die("make private", "/");
    mount_new("tmpfs", c->staging, MS_NODEV, "mode=755");
    if (chdir(c->staging) < 0)
        die("change to", c->staging);
    make_dir("upper", 0755);
    make_dir("work", 0755);
    make_dir("root", 0755);
    /* volatile: the upper layer is thrown away, so nothing needs a sync when it is unmounted */
    if (snprintf(options, sizeof(options), "lowerdir=%s,upperdir=upper,workdir=work,volatile", c->lower) >=
        (int)sizeof(options)) {
        errno = ENAMETOOLONG;
        die("name the lower directory", c->lower);
    }
    mount_new("overlay", "root", 0, options);
    if (chdir("root") < 0)
        die("change to", "root");
}

static void populate_dev(void)
{
    static const char *const nodes[][2] = {
        { "/dev/null", "dev/null" },     { "/dev/zero", "dev/zero" },       { "/dev/full", "dev/full" },
        { "/dev/random", "dev/random" }, { "/dev/urandom", "dev/urandom" }, { "/dev/tty", "dev/tty" },
    };
    static const char *const links[][2] = {
        { "pts/ptmx", "dev/ptmx" },           { "/proc/self/fd", "dev/fd" },
        { "/proc/self/fd/0", "dev/stdin" },   { "/proc/self/fd/1", "dev/stdout" },
        { "/proc/self/fd/2", "dev/stderr" },
    };

    mount_new("tmpfs", "dev", MS_NOSUID | MS_STRICTATIME, "mode=755,size=65536k");
    for (size_t i = 0; i < LEN(nodes); i++) {
        if (mknod(nodes[i][1], S_IFREG | 0666, 0) < 0)
            die("make", nodes[i][1]);
        bind_mount(nodes[i][0], nodes[i][1], 0);
    }
    for (size_t i = 0; i < LEN(links); i++)
        if (symlink(links[i][0], links[i][1]) < 0)
            die("link", links[i][1]);
    make_dir("dev/pts", 0755);
    make_dir("dev/shm", 01777);
    make_dir("dev/mqueue", 01777);
    mount_new("devpts", "dev/pts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5");
    mount_new("tmpfs", "dev/shm", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=65536k");
    mount_new("mqueue", "dev/mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* Docker's defaults. A path that this kernel does not have needs no hiding. */
static void mask_and_protect(void)
{
    static const char *const masked[] = {
        "proc/asound",     "proc/acpi",         "proc/interrupts", "proc/kcore",
        "proc/keys",       "proc/latency_stats", "proc/timer_list", "proc/timer_stats",
        "proc/sched_debug", "proc/scsi",         "sys/firmware",    "sys/devices/virtual/powercap",
    };
    static const char *const protected[] = { "proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger" };

    for (size_t i = 0; i < LEN(masked); i++) {
        if (mount("dev/null", masked[i], NULL, MS_BIND, NULL) == 0 || errno == ENOENT)
            continue;
        if (errno != ENOTDIR)
            die("mask", masked[i]);
        mount_new("tmpfs", masked[i], MS_RDONLY, "nr_inodes=1");
    }
    for (size_t i = 0; i < LEN(protected); i++) {
        if (mount(protected[i], protected[i], NULL, MS_BIND | MS_REC, NULL) == 0)
            make_read_only(protected[i]);
        else if (errno != ENOENT)
            die("bind on", protected[i]);
    }
}

static void raise_loopback(void)
{
    struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (s < 0 || ioctl(s, SIOCSIFFLAGS, &request) < 0)
        die("raise", "lo");
    close(s);
}

/* The child: everything from its first instruction to exec. Shares the parent's memory. */
static int contain(void *arg)
{
    const struct container *c = arg;

    mark(CLONED);
    overlay(c);
    mark(OVERLAID);
    bind_mount("/usr", "usr", MS_REC);
    make_read_only("usr");
    mark(BOUND);
    mount_new("proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mark(PROC);
    populate_dev();
    mark(DEV);
    mount_new("sysfs", "sys", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mark(SYS);
    mask_and_protect();
    mark(MASKED);
    if (sethostname("floor", 5) < 0)
        die("set", "host name");
    raise_loopback();
    mark(NAMED);
    /* pivot_root(2), NOTES: both on ".": the old root ends up on top of the new one and is detached from there */
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        die("pivot to", c->staging);
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        die("detach", "the old root");
    mark(PIVOTED);
    execv(c->argv[0], c->argv);
    die("exec", c->argv[0]);
    return CANNOT_CONTAIN;
}

static long micros(const struct timespec *from, const struct timespec *to)
{
    return (to->tv_sec - from->tv_sec) * 1000000L + (to->tv_nsec - from->tv_nsec) / 1000;
}

static void print_timings(void)
{
    for (int m = START + 1; m < MARKS; m++)
        dprintf(STDERR_FILENO, "timings: %ld %s\n", micros(&marks[m - 1], &marks[m]), labels[m]);
    dprintf(STDERR_FILENO, "timings: %ld total\n", micros(&marks[START], &marks[REAPED]));
}

int main(int argc, char **argv)
{
    static char stack[STACK_BYTES] __attribute__((aligned(16)));
    struct container c;
    int status;
    pid_t pid;

    mark(START);
    if (argc > 1 && strcmp(argv[1], "--timings") == 0) {
        timings = 1;
        mark(START);
        argv++, argc--;
    }
    if (argc < 4) {
        dprintf(STDERR_FILENO, "usage: floor [--timings] LOWER STAGING PROGRAM [ARG...]\n");
        return CANNOT_CONTAIN;
    }
    c = (struct container){ .lower = argv[1], .staging = argv[2], .argv = argv + 3 };

    pid = clone(contain, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | NAMESPACES | SIGCHLD, &c);
    if (pid < 0)
        die("clone", "the namespaces");
    mark(EXECED);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            die("wait for", c.argv[0]);
    mark(REAPED);
    if (timings)
        print_timings();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
