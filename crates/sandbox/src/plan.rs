//! Plan of a container's birth, and how it is put together.

use crate::error::PlanError;
use crate::fill::Fill;
pub(crate) use crate::path::{cstring, cstring_path};
use crate::root::Root;
pub use crate::tree::{Idmap, Tree};
use rustix::fd::OwnedFd;
use std::ffi::CString;
use std::fmt;
use std::path::{Path, PathBuf};
use tote_network::ContainerLink;
use tote_spec::{NamespaceType, Spec};
use tote_sys::{CloneFlags, DeviceNode, IdMaps, Namespace, Op};

/// A container before its birth: the part that the clone itself makes, and the operations of the new process.
#[derive(Debug)]
pub struct Plan {
    /// Namespaces that the clone makes.
    pub namespaces: CloneFlags,
    /// PID namespace that the clone happens in, if the spec names one.
    pub pid_namespace: Option<OwnedFd>,
    /// User namespace that the clone happens in, if the spec names one.
    pub user_namespace: Option<OwnedFd>,
    /// Further namespaces that the clone happens in: they must be joined with the caller's rights and not with the
    /// new process's.
    pub join: Vec<Namespace>,
    /// Network devices that the parent moves into the network namespace: the name here, and the name there.
    pub net_devices: Vec<(String, String)>,
    /// Links that the parent makes between the network namespace and bridges of the host.
    pub links: Vec<ContainerLink>,
    /// Operations of the new process.
    pub ops: Vec<Op>,
    /// Errands of the parent: for each gate, in order, what it makes and hands over there.
    pub gates: Vec<Vec<Errand>>,
    /// Features that the container has to do without, one line each.
    pub warnings: Vec<String>,
}

/// Work of the parent while the new process performs its operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Writes the maps of the user namespace.
    Maps,
    /// Sets `oom_score_adj` of the process, which it may not lower from inside a user namespace.
    OomScore(i32),
    /// Opens a tree to mount that the process may not open, or not with that map. The tree may be one that the
    /// process has mounted before, so the parent waits until the process knocks.
    Tree(Tree),
    /// Opens such a tree for the container's root, where mounts outlive the container: the parent also records the
    /// root, so that it can be removed later.
    Root(Tree),
    /// Makes a user namespace that maps no id of any file, for id-mapped mounts.
    Idmap,
    /// Makes a user namespace with these maps, for id-mapped mounts.
    IdmapOf(Idmap),
    /// Makes a device node, for a user namespace in which none can be made; its owner is an id of the host.
    Node(DeviceNode),
    /// Makes a network namespace with the plan's network devices and links in it: by far the most expensive errand.
    Network,
    /// Moves the plan's network devices to the network namespace at this path.
    NetDevices(String),
    /// Makes the cgroup.
    Cgroup,
    /// Records the process where other commands find it. One that descends is recorded once more when its number is known.
    Record,
    /// Runs the hooks in the runtime's namespaces while the new process waits.
    Hooks,
    /// Shows the process's root to those who watch it, once the process is in it and before it is the program.
    Watch,
}

/// Input of a plan.
#[derive(Debug)]
pub struct Request<'a> {
    /// Specification of the container.
    pub spec: &'a Spec,
    /// Directory of the host on which the new mount namespace mounts the container's root.
    pub attach_point: &'a Path,
    /// Generated files of the container (`etc/hostname`), relative to its root, with their modes.
    pub files: &'a [(&'static str, u32, Vec<u8>)],
    /// Bind mounts whose sources get a copy of the root's contents.
    pub fill: &'a [Fill],
    /// Origin of the user namespace's maps.
    pub id_mapping: MapOrigin,
    /// True if the default filter replaces the spec's.
    pub default_filter: bool,
    /// Source of standard input.
    pub stdin: Stdin,
    /// True if PID 1 is tote's own and the program its child.
    pub init: bool,
    /// Lifetime of the container.
    pub lifetime: Lifetime,
    /// Number of descriptors above 2 that the program keeps.
    pub preserve_fds: u32,
    /// Way in which the container's root becomes the root.
    pub switch: Switch<'a>,
    /// Name of a session keyring for the container; `None` keeps the caller's keyring.
    pub keyring: Option<&'a str>,
    /// True if it may run on every processor, whatever the caller was restricted to.
    pub all_processors: bool,
    /// Links between the container's own network namespace and bridges of the host.
    pub links: &'a [ContainerLink],
    /// Facts about the host.
    pub facts: Facts<'a>,
}

impl<'a> Request<'a> {
    /// A request for a detached process with nothing beside its spec: no files, no new user namespace, no input, no
    /// links.
    #[must_use]
    pub fn bare(spec: &'a Spec, attach_point: &'a Path, facts: Facts<'a>) -> Self {
        Self {
            spec,
            attach_point,
            files: &[],
            fill: &[],
            id_mapping: MapOrigin::None,
            default_filter: false,
            stdin: Stdin::Null,
            init: false,
            lifetime: Lifetime::Detached,
            preserve_fds: 0,
            switch: Switch::Pivot,
            keyring: None,
            all_processors: false,
            links: &[],
            facts,
        }
    }
}

/// Way in which the container's root becomes the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch<'a> {
    /// By pivot_root(2), which leaves nothing of the host's tree.
    Pivot,
    /// By moving it over the host's root. These mount points of the host are detached before, so that the container
    /// cannot mount a new procfs or sysfs: see [`crate::whole_proc_and_sys`].
    Move(&'a [PathBuf]),
}

/// Origin of the user namespace's maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapOrigin {
    /// No new user namespace is made.
    None,
    /// The new process writes them, one id each.
    Own(IdMaps),
    /// The parent writes them, and opens the first gate.
    ByParent,
}

/// Source of standard input.
#[derive(Debug)]
pub enum Stdin {
    /// Caller's standard input.
    Inherited,
    /// Empty input.
    Null,
}

/// Lifetime of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// At most that of the process that starts it.
    OfParent,
    /// Independent of that process.
    Detached,
}

/// Facts about the host that planning needs.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// Bounding set of the caller; in a new user namespace every capability is available.
    pub bounding: u64,
    /// Hard limit of the caller for a resource, by number.
    pub hard_limit: &'a dyn Fn(u32) -> Option<u64>,
    /// Value of the caller's `oom_score_adj`.
    pub oom_score_adj: i32,
    /// Cgroups that the container sees.
    pub cgroup_view: CgroupView<'a>,
    /// True if the parent puts the process into a cgroup, and opens a gate then.
    pub waits_for_cgroup: bool,
    /// True if another process than the parent is making its network namespace already.
    pub network_comes: bool,
    /// Way in which device nodes are provided.
    pub device_nodes: DeviceNodes,
    /// True if setgroups(2) is allowed in the user namespace that is joined or kept.
    pub setgroups: bool,
    /// Device and inode of tote's own executable.
    pub own_executable: Option<(u64, u64)>,
    /// True if the caller is root over the whole host, and so may open files that the root of a user namespace may
    /// not.
    pub privileged: bool,
    /// True if the caller is another user than root in the container's user namespace, whose root makes the container's files.
    pub becomes_root: bool,
    /// Security module that labels processes.
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
    /// Processes are not labelled.
    None,
    /// AppArmor, by profiles.
    AppArmor,
    /// SELinux, by contexts.
    SeLinux,
}

/// Cgroups that the container sees below `/sys/fs/cgroup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupView<'a> {
    /// None.
    None,
    /// Hierarchy of v2.
    Unified,
    /// Name and the host's path of the container's directory, for each v1 hierarchy. A name of several controllers
    /// (`cpu,cpuacct`) gets a link for each controller.
    Legacy(&'a [(String, String)]),
}

/// Way in which device nodes are provided. In a user namespace, where none can be made, the host's are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceNodes {
    /// Each node is made, and mounted on itself. All other mounts are `nodev`: a node made by the container cannot be
    /// opened.
    Mounted,
    /// Like [`DeviceNodes::Mounted`], but bind mounts are not `nodev`: nodes of the host in them work, and their
    /// modes say who may open them.
    Bound,
    /// Each node is made. The cgroup's device rules limit them.
    Ruled,
}

impl Plan {
    /// True if the new process is in another user namespace than the caller.
    #[must_use]
    pub fn has_user_namespace(&self) -> bool {
        self.user_namespace.is_some()
            || self.namespaces & CloneFlags::from(clone_flag(NamespaceType::User)) != 0
    }

    /// Returns the index of the first operation by which the container's root becomes the root: the operations before
    /// it still see the host's tree.
    #[must_use]
    pub fn switch_position(&self) -> usize {
        self.ops.iter().position(is_switch).unwrap_or(self.ops.len())
    }

    /// True if the last operations are performed by another process, see [`Op::Descend`].
    #[must_use]
    pub fn descends(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Descend { .. }))
    }

    /// Makes line ends of the console come out as the program writes them, for a reader that is not a terminal.
    pub fn keep_line_ends(&mut self) {
        for op in &mut self.ops {
            if let Op::Console { plain, .. } | Op::Terminal { plain, .. } = op {
                *plain = true;
            }
        }
    }

    /// Puts the operations that connect standard input and output before the one that starts the session, or that
    /// closes descriptors: from there on the process is the program in all but name.
    pub fn insert_stdio(&mut self, ops: Vec<Op>) {
        let at = self.last_of_birth();
        self.ops.splice(at..at, ops);
    }
}

/// True for the operations by which the container's root becomes the root.
pub(crate) fn is_switch(op: &Op) -> bool {
    matches!(op, Op::Pivot | Op::Unmount(_) | Op::MoveRoot | Op::Chroot)
}

impl fmt::Display for Plan {
    /// Formats one line for the clone and one for each operation.
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

/// Returns the `CLONE_NEW…` bit of a type, as clone(2) and setns(2) take it.
#[must_use]
pub fn clone_flag(kind: NamespaceType) -> u32 {
    NAMESPACES
        .iter()
        .find(|(known, ..)| *known == kind)
        .map_or(0, |(_, _, flag)| *flag)
}

/// Returns the name of a type, as the spec has it.
pub(crate) fn namespace_name(kind: NamespaceType) -> &'static str {
    flag_name(clone_flag(kind))
}

/// Returns the name of a `CLONE_NEW…` bit.
pub(crate) fn flag_name(flag: u32) -> &'static str {
    NAMESPACES
        .iter()
        .find(|(_, _, known)| *known == flag)
        .map_or("unknown", |(_, name, _)| name)
}

/// Returns the names of several `CLONE_NEW…` bits.
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
    /// Further files and links of the root.
    pub(crate) own: crate::tools::Own,
    /// True if the layers of the root are shown with other ids, by maps that the parent has handed over.
    pub(crate) mapped: bool,
    /// Path of the root on the host, if it is a directory there.
    pub(crate) root_path: Option<PathBuf>,
    /// Mounts that become read-only once everything is in them.
    pub(crate) read_only_later: Vec<CString>,
    pub(crate) joined: Joined,
    /// True if the process enters a PID namespace with other processes, immediately before it becomes the program.
    pub(crate) descends: bool,
    /// Filter that takes the place of the spec's, compiled already.
    pub(crate) compiled: Option<tote_seccomp::Filter>,
    /// Capabilities by which the default filter is chosen, if they are not the process's.
    pub(crate) filter_for: Option<u64>,
    pub(crate) ops: Vec<Op>,
    pub(crate) gates: Vec<Vec<Errand>>,
}

/// Open descriptors of things that the container shares with others.
#[derive(Debug, Default)]
pub struct Joins {
    /// Namespaces of the spec that have a path.
    pub namespaces: Vec<(NamespaceType, OwnedFd)>,
    /// Pidfd of a process whose `/dev/shm` the container shares, in place of a tmpfs of its own.
    pub shm: Option<OwnedFd>,
    /// Pidfd of a process in the joined PID namespace. With it the container's process enters that namespace
    /// immediately before it becomes the program ([`Op::Descend`]), and gets the other process's `/proc` in place of
    /// a new procfs.
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

/// Namespaces of others that the clone happens in, and other shared things.
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
/// `joins` are the namespaces of the spec that have a path, and other things shared with existing containers.
///
/// # Errors
/// [`PlanError`] names the property that is impossible.
pub fn plan(request: &Request<'_>, root: Root, joins: impl Into<Joins>) -> Result<Plan, PlanError> {
    crate::check(request.spec)?;
    let joins = joins.into();
    let descends = joins.proc.is_some();
    let mut builder = Builder {
        joined: Joined {
            shm: joins.shm,
            proc: joins.proc,
            ..Joined::default()
        },
        descends,
        ops: Vec::with_capacity(96),
        ..Builder::new(request)
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

impl<'a> Builder<'a> {
    /// Begins an empty plan.
    pub(crate) fn new(request: &'a Request<'a>) -> Self {
        Self {
            request,
            warnings: Vec::new(),
            networked: false,
            settled: false,
            files_written: false,
            own: crate::tools::Own::default(),
            mapped: false,
            compiled: None,
            root_path: None,
            read_only_later: Vec::new(),
            joined: Joined::default(),
            descends: false,
            filter_for: None,
            ops: Vec::new(),
            gates: Vec::new(),
        }
    }

    /// Waits for the parent to have done these errands.
    pub(crate) fn gate(&mut self, errands: &[Errand]) {
        self.gates.push(errands.to_vec());
        self.push(Op::Gate);
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// True if the container gets a namespace of that type which is neither the host's nor another container's.
    pub(crate) fn is_new(&self, kind: NamespaceType) -> bool {
        self.request.spec.has_new(kind)
    }

    pub(crate) fn in_user_namespace(&self) -> bool {
        self.request.spec.namespace(NamespaceType::User).is_some()
    }
}
