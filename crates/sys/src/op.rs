//! Operations of a container's birth: each is one value, prepared before the clone.

use crate::{
    AsPid1, Attributes, AwaitStart, DeviceNode, Exec, FillOp, Hook, IdMaps, JoinProcess, MemoryPolicy,
    MountOp, Namespace, Park, Privilege, Propagation, SchedulerAttributes, TreeCopy,
};
use rustix::fd::OwnedFd;
use std::ffi::CString;

/// Prepared operation of becoming a container.
///
/// The child performs the operations in order (see [`crate::birth`]). A path is either *on the host* (resolved in the
/// child's copy of the caller's mount namespace) or *inside* (resolved in the container's root, which it cannot
/// leave); each field's documentation says which.
#[derive(Debug)]
pub enum Op {
    /// Waits until the parent lets the child go on, and takes the parcel that the parent hands over (see
    /// [`crate::Parcel`]); ends the child when the parent is gone.
    Gate,
    /// Tells the parent that the operations before are done (see [`crate::Event::Knock`]): the parent needs that for
    /// the next gate.
    Knock,
    /// Writes the maps of its own user namespace: one id each, which needs no privileged helper.
    MapOneId(IdMaps),
    /// Joins a namespace, whose kind is checked.
    Join(Namespace),
    /// Leaves namespaces for new ones (`CLONE_NEW…` bits).
    Unshare(u32),
    /// Ends the child with its parent: PR_SET_PDEATHSIG, and a check that the parent is still there.
    DieWithParent,
    /// Sets the propagation of every mount.
    Propagation(Propagation),
    /// Sets the propagation of the one mount that holds a path of the host: mounts made there must not show
    /// elsewhere, and pivot_root(2) demands it.
    HolderPropagation {
        /// Path on the host.
        path: CString,
        /// New propagation.
        propagation: Propagation,
    },
    /// Sets the propagation of the root to one that no other operation may set: pivot_root(2) refuses a shared root.
    RootPropagation {
        /// New propagation.
        propagation: Propagation,
        /// True if it applies to all mounts.
        recursive: bool,
    },
    /// Leaves the time namespace for a new one, and sets its clocks with these lines for `/proc/self/timens_offsets`.
    /// Only processes forked or programs executed from then on are in it, which is why the lines can still be
    /// written.
    NewTime(Vec<u8>),
    /// Takes ids of its user namespace, so that the files it makes have an owner. Capabilities stay as they are.
    SetIds {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
    /// Becomes root of its user namespace, in which it was its maker, so that the files it makes are root's. The maker can still look
    /// into its directory of /proc.
    BecomeRoot,
    /// Detaches a mount of the host from this mount namespace, or covers it if that is not allowed.
    Unmount(CString),
    /// Copies a tree of the host; see [`TreeCopy`].
    CopyTree(Box<TreeCopy>),
    /// Removes a directory of the host and everything below it; a missing one is not an error.
    RemoveTree(CString),
    /// Gives a directory of the host in which nothing is yet to this process's ids. One that has entries stays as it is.
    OwnEmpty(CString),
    /// Fills a directory of the host; see [`FillOp`].
    Fill(Box<FillOp>),
    /// Mounts something.
    Mount(Box<MountOp>),
    /// Copies the root that was made last, with everything that is mounted in it, for a later [`Source::Handed`](crate::Source::Handed): another
    /// root is about to cover it.
    SetAside,
    /// Changes a mount of the container in place.
    Remount {
        /// Mount point, inside.
        path: CString,
        /// Change of its attributes.
        attributes: Attributes,
    },
    /// Makes a directory inside, and its missing parents.
    MakeDir {
        /// Inside.
        path: CString,
        /// Mode of new directories.
        mode: u32,
    },
    /// Makes a symbolic link inside.
    Symlink {
        /// Target of the link.
        text: CString,
        /// Path of the link, inside.
        path: CString,
        /// True if an existing file is replaced; otherwise it stays.
        replace: bool,
    },
    /// Makes a device node inside; an existing one stays. If the kernel forbids making nodes, the host's node of the
    /// same path is bound, on a read-only mount.
    Device(DeviceNode),
    /// Writes a whole file inside, creating it if it is missing.
    File {
        /// Path of the file, inside.
        path: CString,
        /// Mode of a new file.
        mode: u32,
        /// Contents.
        content: Vec<u8>,
    },
    /// Makes a path inside read as empty; a missing path is not an error.
    Mask(CString),
    /// Makes a path inside, and everything below it, read-only; a missing path is not an error.
    ReadOnly(CString),
    /// Writes below `/proc` of the container through the private mount of it.
    Proc {
        /// Path relative to `/proc`.
        path: CString,
        /// Bytes to write.
        value: Vec<u8>,
        /// True if a failure is ignored (a limit that the host forbids).
        optional: bool,
    },
    /// Writes these bytes to the process's own `oom_score_adj`. They lower the value; if the kernel refuses that, the
    /// process keeps its value.
    LowerOomScore(Vec<u8>),
    /// Brings the loopback interface up.
    LoopbackUp,
    /// Calls sethostname(2).
    HostName(CString),
    /// Calls setdomainname(2).
    DomainName(CString),
    /// Makes a pseudo-terminal in the container's devpts, binds it to `/dev/console` and sends the master to the parent.
    Console {
        /// Rows and columns.
        size: (u16, u16),
        /// Owner of the slave.
        owner: u32,
        /// True if line ends come out of the master unchanged, without a carriage return.
        plain: bool,
    },
    /// Makes the container's root the root, and detaches the host's tree.
    Pivot,
    /// Moves the container's root over the host's. For hosts whose root pivot_root(2) cannot leave, an initramfs: the
    /// host's tree stays below, out of sight but within reach of every process that may mount.
    MoveRoot,
    /// Makes the container's root the root of this process alone, which shares its mount namespace with others.
    Chroot,
    /// Opens the root's `/dev/null` for standard input.
    NoStdin,
    /// Opens the root's `/dev/null` for an output. The caller's `/dev/null` would be the host's node, with its mode.
    NoOutput {
        /// Number of the descriptor, 1 or 2.
        number: i32,
    },
    /// Duplicates a descriptor onto a number.
    Stdio {
        /// Descriptor.
        fd: OwnedFd,
        /// Number that it gets.
        number: i32,
    },
    /// Calls setrlimit(2) by number.
    Rlimit {
        /// `RLIMIT_…`
        resource: u32,
        /// Value in force.
        soft: u64,
        /// Upper bound of that value.
        hard: u64,
    },
    /// Calls umask(2).
    Umask(u32),
    /// Forbids other processes to look into this one until it has become the program (CVE-2019-5736).
    Hide,
    /// Calls sched_setattr(2).
    Scheduler(Box<SchedulerAttributes>),
    /// Calls ioprio_set(2) for the process: class and priority as one number.
    IoPriority(i32),
    /// Calls personality(2).
    Personality(u32),
    /// Calls set_mempolicy(2).
    MemoryPolicy(MemoryPolicy),
    /// Calls sched_setaffinity(2) with a bit mask of processors; an empty mask means all processors.
    Affinity(Box<[u64]>),
    /// Joins or makes the session keyring of this name, keyctl(2), and lets the container search it.
    Keyring {
        /// Name of the keyring.
        name: CString,
        /// Permission bits that are added.
        permissions: u32,
        /// True if the caller's keyring stays when the user has no room for another one ([`crate::Event::Without`]).
        optional: bool,
    },
    /// Starts a session; makes the console, if there is one, its terminal and its standard input and output.
    Session,
    /// Stays as a PID 1 that forwards signals and reaps, and goes on in a child.
    Pid1(AsPid1),
    /// Sets the identity and rights of the process; see [`Privilege`].
    Privilege(Privilege),
    /// Changes to a directory inside; fails when that is not below the root.
    WorkingDir(CString),
    /// Marks every descriptor from this number on as close-on-exec.
    CloseFrom(u32),
    /// Keeps the host's procfs open for later writes below `/proc/self`: the container's procfs has no `self` for a
    /// process of another PID namespace.
    HoldProc,
    /// Goes on in a process that is born in the joined PID namespace, which keeps nothing but the standard
    /// descriptors, the terminal, what later operations need, and the descriptors below `first_closed`; this process ends. The parent learns of it
    /// by [`crate::Event::Descended`].
    Descend {
        /// First descriptor that the program does not keep.
        first_closed: u32,
    },
    /// Joins an existing process; see [`JoinProcess`].
    JoinProcess(JoinProcess),
    /// Makes a pseudo-terminal in the devpts of the joined container and sends the master to the parent.
    Terminal {
        /// Rows and columns.
        size: (u16, u16),
        /// Owner of the slave.
        owner: u32,
        /// True if line ends come out of the master unchanged, without a carriage return.
        plain: bool,
    },
    /// Tells the parent that all operations before are done.
    Ready,
    /// Runs another program to its end; see [`Hook`].
    Hook(Box<Hook>),
    /// Looks for the program of [`Op::Exec`] without executing it, so that the command which creates a container reports a missing one.
    FindProgram,
    /// Lets signals end this process that would end another one. The kernel keeps them from the first process of a PID
    /// namespace, which may wait long.
    DieOfSignals,
    /// Waits for the command that starts the container; see [`AwaitStart`].
    AwaitStart(AwaitStart),
    /// Waits for a taker that brings the program; see [`Park`].
    Park(Park),
    /// Executes the program.
    Exec(Box<Exec>),
}
