//! The vocabulary of a container's birth: every step is one value, prepared before the clone.

use crate::hook::Hook;
use crate::join::{JoinProcess, Namespace};
use crate::pid1::AsPid1;
use crate::{CloneSource, MemoryPolicy, SchedulerAttributes, SockFilter, Source, TreeCopy};
use crate::{park::Park, start::AwaitStart};
use rustix::fd::OwnedFd;
use rustix::mount::MountAttrFlags;
use std::ffi::CString;

/// One prepared step of becoming a container.
///
/// The child performs the steps in order (see [`crate::birth`]). A path is either *on the host* (resolved in the
/// child's copy of the caller's mount namespace) or *inside* (resolved in the container's root, which it cannot
/// leave); the names of the fields say which.
#[derive(Debug)]
pub enum Op {
    /// Waits until the parent lets the child go on, and takes what it hands over (see [`crate::Parcel`]); ends the
    /// child when the parent is gone.
    Gate,
    /// Tells the parent that what came before is done (see [`crate::Event::Knock`]): the next gate needs it to be.
    Knock,
    /// Writes its own user namespace's maps: one id each, which needs nobody's help.
    MapOneId(IdMaps),
    /// Joins a namespace, which must be of the kind that was meant.
    Join(Namespace),
    /// Leaves namespaces for new ones (`CLONE_NEW…` bits).
    Unshare(u32),
    /// Ends with the parent: PR_SET_PDEATHSIG, and a look whether the parent still is.
    DieWithParent,
    /// Sets the propagation of every mount.
    Propagation(Propagation),
    /// Sets the propagation of the one mount that holds a path of the host: what is put there shows nowhere else, and
    /// pivot_root(2) wants it.
    HolderPropagation {
        /// On the host.
        path: CString,
        /// What it becomes.
        propagation: Propagation,
    },
    /// Sets the propagation of the root, which no other step may do: pivot_root(2) refuses a shared one.
    RootPropagation {
        /// What it becomes.
        propagation: Propagation,
        /// Whether that goes for all mounts.
        recursive: bool,
    },
    /// Leaves the time namespace for a new one, and sets its clocks with these lines for `/proc/self/timens_offsets`.
    /// Only what this process forks or executes from then on is in it, which is why the lines can still be written.
    NewTime(Vec<u8>),
    /// Takes ids of its user namespace, so that what it makes has an owner. Capabilities stay as they are.
    SetIds {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
    /// Takes a mount of the host's away from this mount namespace, or covers it where that is not allowed.
    Unmount(CString),
    /// Copies a tree of the host; see [`TreeCopy`].
    CopyTree(Box<TreeCopy>),
    /// Removes a directory of the host with what is below it; one that is not there needs no removing.
    RemoveTree(CString),
    /// Mounts something.
    Mount(Box<MountOp>),
    /// Changes a mount of the container in place.
    Remount {
        /// The mount point, inside.
        path: CString,
        /// What changes.
        attributes: Attributes,
    },
    /// Makes a directory and its parents inside, where they are missing.
    MakeDir {
        /// Inside.
        path: CString,
        /// Mode of what is made.
        mode: u32,
    },
    /// Makes a symbolic link inside; one that exists is left alone.
    Symlink {
        /// What it says.
        text: CString,
        /// Inside.
        path: CString,
        /// Whether a file that is there gives way; otherwise it stays.
        replace: bool,
    },
    /// Makes a device node inside; one that is there stays. Where the kernel lets nobody make one, the host's node of the
    /// same path is bound, on a read-only mount.
    Device(DeviceNode),
    /// Writes a whole file inside, making it where it is missing.
    File {
        /// Inside.
        path: CString,
        /// Mode where it is made.
        mode: u32,
        /// The bytes.
        content: Vec<u8>,
    },
    /// Makes a path inside read as empty; a path that does not exist needs no mask.
    Mask(CString),
    /// Makes a path inside, and all below it, read-only; a path that does not exist needs none.
    ReadOnly(CString),
    /// Writes below `/proc` of the container through the private mount of it.
    Proc {
        /// Relative to `/proc`.
        path: CString,
        /// The bytes.
        value: Vec<u8>,
        /// Whether a failure is passed over (a limit that the host forbids).
        optional: bool,
    },
    /// Writes this to the process's own `oom_score_adj`, which is below what it has now: where the kernel refuses that, the
    /// process keeps what it has.
    LowerOomScore(Vec<u8>),
    /// Brings the loopback interface up.
    LoopbackUp,
    /// sethostname(2)
    HostName(CString),
    /// setdomainname(2)
    DomainName(CString),
    /// Makes a pseudo-terminal in the container's devpts, binds it to `/dev/console` and sends the master to the parent.
    Console {
        /// Rows and columns.
        size: (u16, u16),
        /// Owner of the slave.
        owner: u32,
        /// Whether line ends come out of the master as they are, and not with a carriage return.
        plain: bool,
    },
    /// Makes the container's root the root, and lets go of the host's tree.
    Pivot,
    /// Moves the container's root over the host's. For hosts whose root pivot_root(2) cannot leave, an initramfs: the
    /// host's tree stays below, out of sight and not out of reach of whoever may mount.
    MoveRoot,
    /// Makes the container's root the root of this process alone: the mount namespace is not its own.
    Chroot,
    /// Opens the root's `/dev/null` for standard input.
    NoStdin,
    /// Opens the root's `/dev/null` for an output. The caller's would be the host's node, with its mode.
    NoOutput {
        /// 1 or 2.
        number: i32,
    },
    /// Puts this descriptor at that number.
    Stdio {
        /// From.
        fd: OwnedFd,
        /// To.
        number: i32,
    },
    /// setrlimit(2) by number.
    Rlimit {
        /// `RLIMIT_…`
        resource: u32,
        /// The value in force.
        soft: u64,
        /// The ceiling.
        hard: u64,
    },
    /// umask(2)
    Umask(u32),
    /// Lets no other process look into this one until it has become the program (CVE-2019-5736).
    Hide,
    /// sched_setattr(2)
    Scheduler(Box<SchedulerAttributes>),
    /// ioprio_set(2) of the process: class and priority as one number.
    IoPriority(i32),
    /// personality(2)
    Personality(u32),
    /// set_mempolicy(2)
    MemoryPolicy(MemoryPolicy),
    /// sched_setaffinity(2) to the processors of a bit mask; none means all that there are.
    Affinity(Box<[u64]>),
    /// Joins the session keyring of that name, keyctl(2), making it where there is none, and lets the container search it.
    Keyring {
        /// Its name.
        name: CString,
        /// Permission bits that are added.
        permissions: u32,
        /// Whether one that its user has no room for is done without ([`crate::Event::Without`]): the caller's stays.
        optional: bool,
    },
    /// Starts a session; takes the console, where there is one, as its terminal and as standard input and output.
    Session,
    /// Stays as PID 1 that forwards signals and reaps, and goes on in a child.
    Pid1(AsPid1),
    /// Sets who the process is and what it may do; see [`Privilege`].
    Privilege(Privilege),
    /// Changes to a directory inside; fails when that is not below the root.
    WorkingDir(CString),
    /// Marks every descriptor from this number on as close-on-exec.
    CloseFrom(u32),
    /// Holds on to the host's procfs for what is written below `/proc/self` later: in the container's there is no `self` for a
    /// process of another PID namespace.
    HoldProc,
    /// Goes on in a process that is born in the PID namespace which was joined, with nothing but this one's standard
    /// descriptors, its terminal and those below a number; this one ends. The parent hears of it by
    /// [`crate::Event::Descended`].
    Descend {
        /// The first descriptor that the program does not keep.
        first_closed: u32,
    },
    /// Joins a process that exists; see [`JoinProcess`].
    JoinProcess(JoinProcess),
    /// Makes a pseudo-terminal in the devpts of the container that was joined and sends the master to the parent.
    Terminal {
        /// Rows and columns.
        size: (u16, u16),
        /// Owner of the slave.
        owner: u32,
        /// Whether line ends come out of the master as they are, and not with a carriage return.
        plain: bool,
    },
    /// Tells the parent that all before is done.
    Ready,
    /// Runs another program to its end; see [`Hook`].
    Hook(Box<Hook>),
    /// Waits for the command that starts the container; see [`AwaitStart`].
    AwaitStart(AwaitStart),
    /// Limits the bounding set to these capabilities, ahead of [`Op::Privilege`].
    Bounding(u64),
    /// Waits for whoever brings the program; see [`Park`].
    Park(Park),
    /// Becomes the program.
    Exec(Box<Exec>),
}

/// The two maps that a process may write for itself.
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
    /// Nothing comes in or goes out.
    Private,
    /// Events come in.
    Slave,
    /// Events come in and go out.
    Shared,
    /// Private, and no bind mount can be made of it.
    Unbindable,
}

/// Something to mount, and where.
#[derive(Debug)]
pub struct MountOp {
    /// What.
    pub source: Source,
    /// Where.
    pub target: Target,
    /// With which attributes.
    pub attributes: Attributes,
    /// What is taken where the kernel does not let this namespace have a new instance.
    pub otherwise: Option<CloneSource>,
    /// What else is done.
    pub quirk: Quirk,
}

/// A device node to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceNode {
    /// Inside.
    pub path: CString,
    /// `S_IFCHR`, `S_IFBLK` or `S_IFIFO`, and the permission bits.
    pub mode: u32,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Whether the mount that it is made on is `nodev`: a mount of the node's own, without that, lets it be opened. One that
    /// is there already must then be the same device.
    pub on_nodev: bool,
}

/// What some mounts need beyond being made and put in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// Nothing.
    None,
    /// What is there already is copied into it.
    CopyUp,
    /// It must be of a procfs: other things below `/proc` would be taken for the kernel's word.
    OnlyProc,
}

/// Where something is mounted.
#[derive(Debug)]
pub enum Target {
    /// A directory on the host; what is mounted last this way is the container's root.
    Root(CString),
    /// A directory on the host that a later step builds upon.
    Host(CString),
    /// Inside the root.
    Inside {
        /// Inside.
        path: CString,
        /// What is made where nothing is.
        make: Make,
        /// Whether a symbolic link on the way is an error rather than followed.
        strict: bool,
        /// Whether the place may be a file of a procfs, which otherwise is refused: the kernel's own switches must not
        /// be replaced (CVE-2019-16884, CVE-2025-52881).
        over_proc: bool,
    },
}

/// What is made where a mount point is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// Nothing: its absence is an error.
    Nothing,
    /// A directory.
    Dir,
    /// An empty file.
    File,
    /// A directory or an empty file, as the source is one.
    LikeSource,
}

/// Mount attributes, mount_setattr(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What is set on the mount.
    pub set: MountAttrFlags,
    /// What is cleared.
    pub clear: MountAttrFlags,
    /// What is cleared unless a user namespace holds on to it.
    pub clear_unlocked: MountAttrFlags,
    /// What is set on it and on every mount below.
    pub set_below: MountAttrFlags,
    /// What is cleared on it and on every mount below.
    pub clear_below: MountAttrFlags,
    /// The propagation, and whether it goes for the mounts below as well.
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

    /// These set, nothing cleared.
    #[must_use]
    pub const fn set(set: MountAttrFlags) -> Self {
        Self { set, ..Self::NONE }
    }
}

/// Who the process is and what it may do.
///
/// Order is the kernel's: the bounding set needs CAP_SETPCAP, a filter without no_new_privs needs CAP_SYS_ADMIN, and
/// the ids must change before the permitted set shrinks.
#[derive(Debug)]
pub struct Privilege {
    /// Ids; `None` leaves them.
    pub credentials: Option<Credentials>,
    /// Capabilities; `None` leaves them.
    pub capabilities: Option<Capabilities>,
    /// PR_SET_NO_NEW_PRIVS.
    pub no_new_privs: bool,
    /// The system call filter and its `SECCOMP_FILTER_FLAG_…`. With that of a listener among them, the listener goes to
    /// the parent (see [`crate::Event::Seccomp`]).
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
    /// Supplementary group ids; `None` where setgroups(2) is denied.
    pub groups: Option<Vec<u32>>,
}

/// The five sets as bit masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// What stays in the bounding set.
    pub bounding: u64,
    /// Effective.
    pub effective: u64,
    /// Permitted.
    pub permitted: u64,
    /// Inheritable.
    pub inheritable: u64,
    /// Ambient.
    pub ambient: u64,
}

/// A program and what it is given.
#[derive(Debug)]
pub struct Exec {
    /// Absolute or relative paths, tried in order as execvp(3) does.
    pub candidates: Vec<CString>,
    /// argv and environment.
    pub program: Program,
    /// Device and inode of an executable that must not be run: tote's own, which a container may not get hold of
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
        // A CString's bytes are on the heap: moving the vectors into the value does not move them.
        Self {
            argv: pointers(&args),
            envp: pointers(&env),
            args,
            env,
        }
    }

    /// The arguments.
    #[must_use]
    pub fn args(&self) -> &[CString] {
        &self.args
    }

    /// The environment.
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
