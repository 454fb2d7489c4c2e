//! Operations of a container's birth: each is one value, prepared before the clone.

use crate::hook::Hook;
use crate::join::{JoinProcess, Namespace};
use crate::pid1::AsPid1;
use crate::{CloneSource, MemoryPolicy, SchedulerAttributes, SockFilter, Source, TreeCopy};
use crate::{park::Park, start::AwaitStart};
use rustix::fd::OwnedFd;
use rustix::mount::MountAttrFlags;
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
    /// Detaches a mount of the host from this mount namespace, or covers it if that is not allowed.
    Unmount(CString),
    /// Copies a tree of the host; see [`TreeCopy`].
    CopyTree(Box<TreeCopy>),
    /// Removes a directory of the host and everything below it; a missing one is not an error.
    RemoveTree(CString),
    /// Mounts something.
    Mount(Box<MountOp>),
    /// Copies the root that was made last, with everything that is mounted in it, for a later [`Source::Handed`]: another
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
    /// descriptors, the terminal and the descriptors below `first_closed`; this process ends. The parent learns of it
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
    /// Waits for the command that starts the container; see [`AwaitStart`].
    AwaitStart(AwaitStart),
    /// Limits the bounding set to these capabilities, ahead of [`Op::Privilege`].
    Bounding(u64),
    /// Waits for a taker that brings the program; see [`Park`].
    Park(Park),
    /// Executes the program.
    Exec(Box<Exec>),
}

/// Both maps that a process may write for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdMaps {
    /// User id inside and outside.
    pub uid: (u32, u32),
    /// Group id inside and outside.
    pub gid: (u32, u32),
}

/// Propagation of a mount, mount(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Mount events neither come in nor go out.
    Private,
    /// Mount events come in.
    Slave,
    /// Mount events come in and go out.
    Shared,
    /// Private, and the mount cannot be bind-mounted.
    Unbindable,
}

/// Something to mount, and its place.
#[derive(Debug)]
pub struct MountOp {
    /// Source of the mount.
    pub source: Source,
    /// Place of the mount.
    pub target: Target,
    /// Attributes of the mount.
    pub attributes: Attributes,
    /// Source in case the kernel does not let this namespace have a new instance.
    pub otherwise: Option<CloneSource>,
    /// Special treatment.
    pub quirk: Quirk,
}

/// A device node to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceNode {
    /// Path of the node, inside.
    pub path: CString,
    /// `S_IFCHR`, `S_IFBLK` or `S_IFIFO`, and the permission bits.
    pub mode: u32,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// True if the mount around it is `nodev`: the node then gets a mount of its own without that flag, so that it
    /// can be opened. An existing node must in this case be the same device.
    pub on_nodev: bool,
}

/// Special treatment of some mounts, beyond making and placing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// None.
    None,
    /// The existing contents of the place are copied into the mount.
    CopyUp,
    /// The source must be a procfs: the container would take any other file system below `/proc` for the kernel's.
    OnlyProc,
}

/// Place of a mount.
#[derive(Debug)]
pub enum Target {
    /// A directory on the host; the mount made last this way is the container's root.
    Root(CString),
    /// A directory on the host that a later operation builds upon.
    Host(CString),
    /// A path inside the root.
    Inside {
        /// Path inside.
        path: CString,
        /// Kind of mount point that is made if the path is missing.
        make: Make,
        /// True if a symbolic link on the way is an error; otherwise links are followed.
        strict: bool,
        /// True if the place may be a file of a procfs, which is refused otherwise: the kernel's own switches must
        /// not be replaced (CVE-2019-16884, CVE-2025-52881).
        over_proc: bool,
    },
}

/// Kind of mount point to make where one is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// None: its absence is an error.
    Nothing,
    /// A directory.
    Dir,
    /// An empty file.
    File,
    /// A directory or an empty file, like the source.
    LikeSource,
}

/// Mount attributes, mount_setattr(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Flags that are set on the mount.
    pub set: MountAttrFlags,
    /// Flags that are cleared.
    pub clear: MountAttrFlags,
    /// Flags that are cleared unless the kernel has locked them for a user namespace.
    pub clear_unlocked: MountAttrFlags,
    /// Flags that are set on the mount and on every mount below.
    pub set_below: MountAttrFlags,
    /// Flags that are cleared on the mount and on every mount below.
    pub clear_below: MountAttrFlags,
    /// Propagation, and whether it applies to the mounts below as well.
    pub propagation: Option<(Propagation, bool)>,
}

impl Attributes {
    /// No change.
    pub const NONE: Self = Self {
        set: MountAttrFlags::empty(),
        clear: MountAttrFlags::empty(),
        clear_unlocked: MountAttrFlags::empty(),
        set_below: MountAttrFlags::empty(),
        clear_below: MountAttrFlags::empty(),
        propagation: None,
    };

    /// Sets these flags and clears none.
    #[must_use]
    pub const fn set(set: MountAttrFlags) -> Self {
        Self { set, ..Self::NONE }
    }
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

/// A program, its arguments and its environment.
#[derive(Debug)]
pub struct Exec {
    /// Executable that no path leads to; it is used in place of the paths.
    pub file: Option<OwnedFd>,
    /// Absolute or relative paths, tried in order as execvp(3) does.
    pub candidates: Vec<CString>,
    /// argv and environment.
    pub program: Program,
    /// Device and inode of an executable that must not be run: tote's own, which a container must not get hold of
    /// (CVE-2019-5736).
    pub never: Option<(u64, u64)>,
}

/// argv and environment with the pointer arrays that execve(2) wants.
pub struct Program {
    args: Vec<CString>,
    env: Vec<CString>,
    pub(crate) argv: Box<[*const libc::c_char]>,
    pub(crate) envp: Box<[*const libc::c_char]>,
}

impl Program {
    /// Prepares the arrays.
    #[must_use]
    pub fn new(args: Vec<CString>, env: Vec<CString>) -> Self {
        let pointers = |texts: &[CString]| {
            texts
                .iter()
                .map(|text| text.as_ptr())
                .chain([std::ptr::null()])
                .collect::<Box<[_]>>()
        };
        // The bytes of a CString are on the heap: moving the vectors into the value does not move them.
        Self {
            argv: pointers(&args),
            envp: pointers(&env),
            args,
            env,
        }
    }

    /// Returns the arguments.
    #[must_use]
    pub fn args(&self) -> &[CString] {
        &self.args
    }

    /// Returns the environment.
    #[must_use]
    pub fn env(&self) -> &[CString] {
        &self.env
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("args", &self.args)
            .field("env", &self.env)
            .finish()
    }
}
