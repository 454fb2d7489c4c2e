//! The plan and how it is put together.

use crate::error::PlanError;
use crate::root::Root;
use rustix::fd::OwnedFd;
use std::ffi::CString;
use std::fmt;
use std::path::{Path, PathBuf};
use tote_network::ContainerLink;
use tote_spec::{NamespaceType, Spec};
use tote_sys::{CloneFlags, DeviceNode, IdMaps, Namespace, Op, Unlocked};

/// A container about to be: what the clone itself makes, and what the new process then does.
#[derive(Debug)]
pub struct Plan {
    /// Namespaces that the clone makes.
    pub namespaces: CloneFlags,
    /// The PID namespace that the clone happens in, where the spec names one.
    pub pid_namespace: Option<OwnedFd>,
    /// The user namespace that the clone happens in, where the spec names one.
    pub user_namespace: Option<OwnedFd>,
    /// What else the clone happens in: namespaces to join by who the caller is and not by who the new process becomes.
    pub join: Vec<Namespace>,
    /// Network devices that the parent moves into the network namespace: the name here, and the one there.
    pub net_devices: Vec<(String, String)>,
    /// Links that the parent makes between the network namespace and bridges of the host's.
    pub links: Vec<ContainerLink>,
    /// The steps of the new process.
    pub ops: Vec<Op>,
    /// What the parent does meanwhile: for each gate, in order, what it makes and hands over there.
    pub gates: Vec<Vec<Errand>>,
    /// What the container has to do without, one line each.
    pub warnings: Vec<String>,
}

/// Something that the parent makes while the new process performs its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// The maps of its user namespace.
    Maps,
    /// Its `oom_score_adj`, which it may not lower from inside a user namespace.
    OomScore(i32),
    /// A tree to mount that it may not open, or not with that map. It may be one of those that the process has mounted
    /// before, so the parent waits until it knocks.
    Tree(Tree),
    /// As that, for what becomes the container's root where its mounts outlive it: whoever is to take it away notes it.
    Root(Tree),
    /// A user namespace in which nobody is anybody, for id-mapped mounts.
    Idmap,
    /// A device node, for a user namespace that may make none; its owner is one of the host's ids.
    Node(DeviceNode),
    /// A network namespace with the plan's network devices and links in it: by far the dearest of all.
    Network,
    /// The plan's network devices, for the network namespace at this path.
    NetDevices(String),
    /// Its cgroup.
    Cgroup,
    /// A note of the process where others find it.
    Record,
    /// The hooks that run in the runtime's namespaces while the new process waits.
    Hooks,
}

/// A tree that the parent opens, in the mount namespace of the new process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// On the host.
    pub path: CString,
    /// Whether mounts below it come along.
    pub recursive: bool,
    /// By which maps owners are shown, and whether in the mounts below as well.
    pub idmap: Option<(Idmap, bool)>,
    /// Whether the tree may come from the caller's own mounts.
    pub unlocked: Unlocked,
}

/// The maps of an id-mapped mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idmap {
    /// As `uid_map` and `gid_map` of a user namespace have them.
    Maps {
        /// User ids.
        uid: String,
        /// Group ids.
        gid: String,
    },
    /// Those of the user namespace at this path.
    Namespace(String),
}

/// What a plan is made from.
#[derive(Debug)]
pub struct Request<'a> {
    /// What was asked for.
    pub spec: &'a Spec,
    /// The directory of the host on which the new mount namespace puts the container's root.
    pub attach_point: &'a Path,
    /// Files of the container's own (`etc/hostname`), relative to its root, with their modes.
    pub files: &'a [(&'static str, u32, Vec<u8>)],
    /// Destinations of bind mounts whose sources get what the root has at the place; they must be empty directories.
    pub fill: &'a [String],
    /// How the user namespace gets its maps.
    pub id_mapping: IdMapping,
    /// Whether the default filter is wanted instead of the spec's.
    pub default_filter: bool,
    /// What standard input is.
    pub stdin: Stdin,
    /// Whether PID 1 is tote's own and the program its child.
    pub init: bool,
    /// How long the container lives.
    pub lifetime: Lifetime,
    /// Descriptors above 2 that the program keeps.
    pub preserve_fds: u32,
    /// How the container's root becomes the root.
    pub switch: Switch<'a>,
    /// The name of a session keyring of its own; without one it has the caller's.
    pub keyring: Option<&'a str>,
    /// Whether it may run on every processor, whatever the caller was kept to.
    pub all_processors: bool,
    /// The links between the container's own network namespace and bridges of the host's.
    pub links: &'a [ContainerLink],
    /// What must be known of the host.
    pub facts: Facts<'a>,
}

/// How the container's root becomes the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch<'a> {
    /// pivot_root(2): nothing of the host's tree stays.
    Pivot,
    /// By moving it over the host's root. These mount points of the host are taken away before, so that no new procfs
    /// or sysfs can be had in there: see [`crate::whole_proc_and_sys`].
    Move(&'a [PathBuf]),
}

/// How the user namespace gets its maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdMapping {
    /// There is no new user namespace.
    None,
    /// The new process writes them, one id each.
    Own(IdMaps),
    /// The parent writes them, and opens the first gate.
    ByParent,
}

/// What standard input, output and error are.
#[derive(Debug)]
pub enum Stdin {
    /// The caller's.
    Inherited,
    /// Nothing for input.
    Null,
}

/// How long a container lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// No longer than the process that starts it.
    OfParent,
    /// Its own.
    Detached,
}

/// What must be known of the host.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The caller's bounding set; a new user namespace has all of them.
    pub bounding: u64,
    /// The caller's hard limit of a resource, by number.
    pub hard_limit: &'a dyn Fn(u32) -> Option<u64>,
    /// The caller's own `oom_score_adj`.
    pub oom_score_adj: i32,
    /// Which cgroups the container sees.
    pub cgroup_view: CgroupView<'a>,
    /// Whether the parent puts the process into a cgroup, and opens a gate then.
    pub waits_for_cgroup: bool,
    /// Whether its network namespace has been begun, by another process than its parent.
    pub network_comes: bool,
    /// How device nodes come to be.
    pub device_nodes: DeviceNodes,
    /// Whether setgroups(2) is allowed in the user namespace that is joined or kept.
    pub setgroups: bool,
    /// Device and inode of tote's own executable.
    pub own_executable: Option<(u64, u64)>,
    /// Whether the caller is root over the whole host, and so may open what the root of a user namespace may not.
    pub privileged: bool,
    /// The security module that labels processes.
    pub security_module: SecurityModule,
}

impl fmt::Debug for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts")
            .field("bounding", &self.bounding)
            .finish_non_exhaustive()
    }
}

/// A security module that labels processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityModule {
    /// None does.
    None,
    /// AppArmor, by profiles.
    AppArmor,
    /// SELinux, by contexts.
    SeLinux,
}

/// Which cgroups the container sees below `/sys/fs/cgroup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupView<'a> {
    /// None.
    None,
    /// The one hierarchy of v2.
    Unified,
    /// Name and the host's path of the container's directory, for each v1 hierarchy. A name of several controllers
    /// (`cpu,cpuacct`) gets links from each of them.
    Legacy(&'a [(String, String)]),
}

/// How device nodes come to be. In a user namespace, which may make none, the host's are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceNodes {
    /// Each is made, and mounted on itself. All other mounts are `nodev`: a node that the container makes is dead.
    Mounted,
    /// As [`DeviceNodes::Mounted`], but nodes that are the host's stay what they are in what is bound: their modes say who may
    /// open them.
    Bound,
    /// Each is made. The cgroup's device rules are what limits them.
    Ruled,
}

impl Plan {
    /// Whether the new process is in another user namespace than the caller.
    #[must_use]
    pub fn has_user_namespace(&self) -> bool {
        self.user_namespace.is_some()
            || self.namespaces & CloneFlags::from(clone_flag(NamespaceType::User)) != 0
    }

    /// The place of the first step by which the container's root becomes the root: what comes before still sees the host
    /// as it is.
    #[must_use]
    pub fn switch_position(&self) -> usize {
        let is_switch = |op: &Op| matches!(op, Op::Pivot | Op::Unmount(_) | Op::MoveRoot | Op::Chroot);
        self.ops.iter().position(is_switch).unwrap_or(self.ops.len())
    }

    /// Whether its last steps are another process's, see [`Op::Descend`].
    #[must_use]
    pub fn descends(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Descend { .. }))
    }

    /// Lets line ends of the console come out as the program writes them: nobody at the other end wants a terminal's.
    pub fn keep_line_ends(&mut self) {
        for op in &mut self.ops {
            if let Op::Console { plain, .. } | Op::Terminal { plain, .. } = op {
                *plain = true;
            }
        }
    }

    /// Puts the steps that connect standard input and output before the one that starts the session, or that closes
    /// descriptors: from there on the process is the program in all but name.
    pub fn insert_stdio(&mut self, ops: Vec<Op>) {
        let at = self
            .ops
            .iter()
            .position(|op| matches!(op, Op::Pid1(_) | Op::Session | Op::CloseFrom(_)))
            .unwrap_or(self.ops.len());
        self.ops.splice(at..at, ops);
    }
}

impl fmt::Display for Plan {
    /// One line for the clone and one for each step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMESPACES
            .iter()
            .filter(|(_, _, flag)| self.namespaces & u64::from(*flag) != 0);
        write!(f, "clone a process with new namespaces:")?;
        for (_, name, _) in names {
            write!(f, " {name}")?;
        }
        if self.user_namespace.is_some() {
            write!(f, ", from inside another user namespace")?;
        }
        for op in &self.ops {
            write!(f, "\n{}", crate::describe(op))?;
        }
        Ok(())
    }
}

const NAMESPACES: [(NamespaceType, &str, u32); 8] = [
    (NamespaceType::Time, "time", 0x80),
    (NamespaceType::Mount, "mount", 0x2_0000),
    (NamespaceType::Cgroup, "cgroup", 0x200_0000),
    (NamespaceType::Uts, "uts", 0x400_0000),
    (NamespaceType::Ipc, "ipc", 0x800_0000),
    (NamespaceType::User, "user", 0x1000_0000),
    (NamespaceType::Pid, "pid", 0x2000_0000),
    (NamespaceType::Network, "network", 0x4000_0000),
];

/// `CLONE_NEW…` of a type, as clone(2) and setns(2) take it.
#[must_use]
pub fn clone_flag(kind: NamespaceType) -> u32 {
    NAMESPACES
        .iter()
        .find(|(known, ..)| *known == kind)
        .map_or(0, |(_, _, flag)| *flag)
}

/// The name of a type, as the spec has it.
pub(crate) fn namespace_name(kind: NamespaceType) -> &'static str {
    flag_name(clone_flag(kind))
}

/// The name of a `CLONE_NEW…` bit.
pub(crate) fn flag_name(flag: u32) -> &'static str {
    NAMESPACES
        .iter()
        .find(|(_, _, known)| *known == flag)
        .map_or("unknown", |(_, name, _)| name)
}

/// The names of several `CLONE_NEW…` bits.
pub(crate) fn flag_names(flags: u32) -> impl Iterator<Item = &'static str> {
    NAMESPACES
        .iter()
        .filter(move |(_, _, flag)| flags & flag != 0)
        .map(|(_, name, _)| *name)
}

pub(crate) struct Builder<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) warnings: Vec<String>,
    pub(crate) networked: bool,
    pub(crate) settled: bool,
    pub(crate) files_written: bool,
    /// The root's path on the host, where it is a directory there.
    pub(crate) root_path: Option<PathBuf>,
    /// Mounts that become read-only once everything is in them.
    pub(crate) read_only_later: Vec<CString>,
    pub(crate) joined: Joined,
    /// Whether the process goes into a PID namespace in which others are, as the last thing before it is the program.
    pub(crate) descends: bool,
    /// The capabilities by which the default filter is chosen, where they are not the process's.
    pub(crate) filter_for: Option<u64>,
    pub(crate) ops: Vec<Op>,
    pub(crate) gates: Vec<Vec<Errand>>,
}

/// What a container has from others, open.
#[derive(Debug, Default)]
pub struct Joins {
    /// The namespaces of the spec that have a path.
    pub namespaces: Vec<(NamespaceType, OwnedFd)>,
    /// The pidfd of a process whose `/dev/shm` this one has as well, in the place of a tmpfs of its own.
    pub shm: Option<OwnedFd>,
    /// The pidfd of a process in the PID namespace that is joined. With it the container's process comes there as the
    /// last thing before it is the program ([`Op::Descend`]), and has that one's `/proc`, in the place of a new procfs.
    pub proc: Option<OwnedFd>,
}

impl From<Vec<(NamespaceType, OwnedFd)>> for Joins {
    fn from(namespaces: Vec<(NamespaceType, OwnedFd)>) -> Self {
        Self {
            namespaces,
            shm: None,
            proc: None,
        }
    }
}

/// Namespaces of others that the clone happens in, and what else is theirs.
#[derive(Default)]
pub(crate) struct Joined {
    pub(crate) shm: Option<OwnedFd>,
    pub(crate) proc: Option<OwnedFd>,
    pub(crate) pid: Option<OwnedFd>,
    pub(crate) user: Option<OwnedFd>,
    pub(crate) rest: Vec<Namespace>,
}

/// Makes the plan.
///
/// `joins` are the namespaces of the spec that have a path, and what else is others'.
///
/// # Errors
/// [`PlanError`] names the property that cannot be done.
pub fn plan(request: &Request<'_>, root: Root, joins: impl Into<Joins>) -> Result<Plan, PlanError> {
    crate::check(request.spec)?;
    let joins = joins.into();
    let descends = joins.proc.is_some();
    let mut builder = Builder {
        request,
        warnings: Vec::new(),
        networked: false,
        settled: false,
        files_written: false,
        root_path: None,
        read_only_later: Vec::new(),
        joined: Joined {
            shm: joins.shm,
            proc: joins.proc,
            ..Joined::default()
        },
        descends,
        filter_for: None,
        ops: Vec::with_capacity(96),
        gates: Vec::new(),
    };
    let namespaces = builder.namespaces(joins.namespaces)?;
    builder.root(root)?;
    builder.mounts()?;
    builder.settle_network();
    builder.inside_the_root()?;
    builder.mount_cgroups()?;
    builder.read_only()?;
    builder.switch()?;
    builder.process()?;
    Ok(Plan {
        namespaces,
        pid_namespace: builder.joined.pid,
        user_namespace: builder.joined.user,
        join: builder.joined.rest,
        net_devices: net_devices(request.spec),
        links: request.links.to_vec(),
        ops: builder.ops,
        gates: builder.gates,
        warnings: builder.warnings,
    })
}

fn net_devices(spec: &Spec) -> Vec<(String, String)> {
    let devices = spec.linux.iter().flat_map(|linux| &linux.net_devices);
    devices
        .map(|(name, device)| {
            let inside = device.name.as_ref().filter(|inside| !inside.is_empty());
            (name.clone(), inside.unwrap_or(name).clone())
        })
        .collect()
}

impl Builder<'_> {
    /// Waits for the parent to have done these.
    pub(crate) fn gate(&mut self, errands: &[Errand]) {
        self.gates.push(errands.to_vec());
        self.push(Op::Gate);
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Whether the container gets a namespace of that type which is neither the host's nor another container's.
    pub(crate) fn is_new(&self, kind: NamespaceType) -> bool {
        self.request.spec.has_new(kind)
    }

    pub(crate) fn in_user_namespace(&self) -> bool {
        self.request.spec.namespace(NamespaceType::User).is_some()
    }
}

pub(crate) fn cstring(what: &'static str, text: &str) -> Result<CString, PlanError> {
    CString::new(text).map_err(|_| PlanError::Nul {
        what,
        text: text.to_owned(),
    })
}

pub(crate) fn cstring_path(what: &'static str, path: &Path) -> Result<CString, PlanError> {
    use std::os::unix::ffi::OsStrExt as _;
    CString::new(path.as_os_str().as_bytes()).map_err(|_| PlanError::Nul {
        what,
        text: path.display().to_string(),
    })
}
