//! Errands of the parent: work for a container's process that it may not do itself.

use crate::outcome::{Aside, tell_network};
use crate::{ErrandError, Maps, RuntimeError, Step};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use tote_cgroup::Cgroup;
use tote_sandbox::{Errand, Idmap, Plan, Tree};
use tote_sys::{
    Ancestry, Birth, Child, ComingNetwork, DeviceNode, Errno, Event, Op, Parcel, Sealing, Way, best_effort,
    birth,
};

/// Input of the errands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errands<'a> {
    pub(crate) plan: &'a Plan,
    /// Cgroup to make.
    pub(crate) cgroup: Option<&'a tote_cgroup::Plan>,
    /// Cgroup that is there already, of a container that the process joins.
    pub(crate) joined: Option<&'a Cgroup>,
    /// Maps to write.
    pub(crate) maps: Option<&'a Maps>,
    /// Network namespace, if another process is making it already.
    pub(crate) network: Option<&'a ComingNetwork>,
}

impl Errands<'_> {
    /// Does an errand; records and hooks are left to the caller.
    pub(crate) fn run(
        &self,
        errand: &Errand,
        child: &Child,
        (cgroup, owner): (&mut Option<Cgroup>, &mut Option<OwnedFd>),
        made: &mut Made,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), RuntimeError> {
        match errand {
            Errand::Maps => {
                if let Some(maps) = self.maps {
                    maps.write(child.pid)?;
                }
                // Behind its gate the process becomes root, and while it does that, the kernel lets no other process look into it: one
                // that wants its namespace then, by its number or its pidfd, is refused now and then.
                if self.plan.ops.iter().any(|op| matches!(op, Op::BecomeRoot)) {
                    *owner = Some(user_namespace_of(child)?);
                }
            }
            Errand::Idmap => made.idmap = Some(idmap()?),
            Errand::IdmapOf(maps) => made.idmap = Some(user_namespace(maps)?),
            Errand::OomScore(score) => set_oom_score(child.pid, *score)?,
            Errand::Tree(tree) | Errand::Root(tree) => {
                made.tree = Some(open_tree(tree, child, self.plan, warn)?);
            }
            Errand::Node(node) => made.tree = Some(make_node(node)?),
            Errand::NetDevices(path) => move_net_devices(self.plan, path)?,
            Errand::Network => {
                made.network = Some(make_network(self.plan, (child, owner.as_ref()), self.network)?)
            }
            Errand::Cgroup => self.open_cgroup(cgroup, made, warn)?,
            Errand::Watch => made.root = Some(watched_root(child, self.plan, warn)?),
            Errand::Record | Errand::Hooks => {}
        }
        Ok(())
    }

    fn open_cgroup(
        &self,
        cgroup: &mut Option<Cgroup>,
        made: &mut Made,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), RuntimeError> {
        if let (Some(plan), None) = (self.cgroup, &*cgroup) {
            *cgroup = Some(crate::cgroup::create(plan, warn)?);
        }
        if let Some(cgroup) = cgroup.as_ref().or(self.joined) {
            made.tasks = cgroup.open_tasks().map_err(ErrandError::Cgroup)?;
        }
        Ok(())
    }

    /// Opens the cgroup of the first gates before the process is born, which then finds them open. Other errands take longer than
    /// the process waits: its parent does them while it works.
    pub(crate) fn run_before(
        &self,
        cgroup: &mut Option<Cgroup>,
        warn: &mut dyn FnMut(String),
    ) -> Result<Vec<Made>, RuntimeError> {
        let is_short = |errands: &&Vec<Errand>| matches!(errands[..], [Errand::Cgroup]);
        let gates = self.plan.gates.iter().take_while(is_short);
        let open = |_| {
            let mut made = Made::default();
            self.open_cgroup(cgroup, &mut made, warn).map(|()| made)
        };
        gates.map(open).collect()
    }
}

/// Clones the process of a plan into its namespaces and, on v2, into its cgroup.
pub(crate) fn bear(
    plan: &Plan,
    cgroup: Option<&Cgroup>,
    (seal, timings): (Option<&Sealing>, bool),
    way: Way,
    open: &[Made],
) -> Result<Child, RuntimeError> {
    let tasks: Vec<Vec<_>> = open.iter().map(Made::tasks).collect();
    let parcels = open.iter().zip(&tasks);
    let parcels: Vec<_> = parcels.map(|(made, tasks)| made.parcel(tasks)).collect();
    let _entered = PidNamespace::enter(plan.pid_namespace.as_ref())?;
    debug_assert_eq!(plan.invariants(), Ok(()), "{plan}");
    // process: container
    // process: process of `exec` or `debug`
    birth(&Birth {
        ops: &plan.ops,
        namespaces: plan.namespaces,
        ancestry: ancestry(plan),
        cgroup: cgroup.and_then(Cgroup::v2_dir),
        timings,
        seal,
        parcels: &parcels,
        way,
    })
    .map_err(RuntimeError::Clone)
}

/// Returns the namespaces that the process of a plan is born into.
#[must_use]
pub fn ancestry(plan: &Plan) -> Ancestry<'_> {
    Ancestry {
        join: &plan.join,
        user: plan.user_namespace.as_ref().map(AsFd::as_fd),
    }
}

/// Sets the `oom_score_adj` of a process.
///
/// # Errors
/// `ErrandError::OomScore`.
pub fn set_oom_score(pid: u32, score: i32) -> Result<(), RuntimeError> {
    std::fs::write(format!("/proc/{pid}/oom_score_adj"), score.to_string())
        .map_err(|error| RuntimeError::Errand(ErrandError::OomScore(error)))
}

/// Opens the user namespace of a process that waits at a gate.
fn user_namespace_of(child: &Child) -> Result<OwnedFd, RuntimeError> {
    let path = format!("/proc/{}/ns/user", child.pid);
    let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    opened.map_err(|errno| ErrandError::Network(errno).into())
}

/// Makes the network namespace of a plan, or takes the one that has been begun, moves the plan's devices into it, and
/// makes the plan's links. Its owner is a user namespace that is open already, or else that of the process.
fn make_network(
    plan: &Plan,
    (child, opened): (&Child, Option<&OwnedFd>),
    coming: Option<&ComingNetwork>,
) -> Result<OwnedFd, RuntimeError> {
    let of_process = plan.has_user_namespace().then_some(&child.pidfd);
    let owner = plan.user_namespace.as_ref().or(opened).or(of_process);
    let network = match coming.and_then(ComingNetwork::take) {
        Some(network) => network,
        // If it could not be made in advance, this attempt returns the reason.
        None => tote_sys::network_namespace(owner.map(AsFd::as_fd)).map_err(ErrandError::Network)?,
    };
    tote_network::move_devices(&plan.net_devices, network.as_fd())?;
    tote_network::connect(&plan.links, network.as_fd())?;
    Ok(network)
}

/// Moves the network devices of a plan into the network namespace at a path.
///
/// # Errors
/// `ErrandError::Network` if the path is not there, and `ErrandError::NetDevice`.
pub fn move_net_devices(plan: &Plan, path: &str) -> Result<(), RuntimeError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let network = rustix::fs::open(path, flags, Mode::empty()).map_err(ErrandError::Network)?;
    Ok(tote_network::move_devices(&plan.net_devices, network.as_fd())?)
}

/// Opens a tree that the process is going to mount, once the process knocks.
///
/// # Errors
/// [`RuntimeError::Tree`], and `ErrandError::Idmap` for its map; [`RuntimeError::Step`] if the process fails
/// before.
pub fn open_tree(
    tree: &Tree,
    child: &Child,
    plan: &Plan,
    warn: &mut dyn FnMut(String),
) -> Result<OwnedFd, RuntimeError> {
    wait_for(child, plan, warn, |event| matches!(event, Event::Knock))?;
    let idmap = match &tree.idmap {
        None => None,
        Some((idmap, recursive)) => Some((user_namespace(idmap)?, *recursive)),
    };
    let wanted = tote_sys::Tree {
        path: &tree.path,
        subpath: tree.subpath.as_deref(),
        process: child.pidfd.as_fd(),
        recursive: tree.recursive,
        idmap: idmap.as_ref().map(|(fd, recursive)| (fd.as_fd(), *recursive)),
        unlocked: tree.unlocked,
    };
    tote_sys::tree(&wanted).map_err(|source| RuntimeError::Tree {
        path: tree.path.to_string_lossy().into_owned(),
        source,
    })
}

/// Waits until the process is at the gate for which the parent has to see what it did before.
fn wait_for(
    child: &Child,
    plan: &Plan,
    warn: &mut dyn FnMut(String),
    is_there: fn(&Event) -> bool,
) -> Result<(), RuntimeError> {
    loop {
        match child.event().map_err(RuntimeError::Wait)? {
            event if is_there(&event) => return Ok(()),
            // The warning is about its cgroup.
            Event::Without { op, errno } => warn(crate::error::without(plan, op, errno)),
            Event::Failed { op, errno, text } => {
                return Err(RuntimeError::Step(Step::new(plan, op, errno, text)));
            }
            // The process was killed before it knocked; no other event comes this early.
            _ => return Err(RuntimeError::Wait(Errno::CHILD)),
        }
    }
}

/// Opens the root of a process that waits in it.
fn watched_root(child: &Child, plan: &Plan, warn: &mut dyn FnMut(String)) -> Result<OwnedFd, RuntimeError> {
    wait_for(child, plan, warn, |event| matches!(event, Event::Ready))?;
    let root = crate::root_of(child.pid, child.pidfd.as_fd());
    let opened = root.and_then(|root| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(root, c".", flags, Mode::empty())
    });
    opened.map_err(|source| RuntimeError::Tree {
        path: "/".to_owned(),
        source,
    })
}

fn make_node(node: &DeviceNode) -> Result<OwnedFd, RuntimeError> {
    tote_sys::device_mount(node).map_err(|source| {
        RuntimeError::Errand(ErrandError::Node {
            path: node.path.to_string_lossy().into_owned(),
            source,
        })
    })
}

/// Descriptors that the parent has made for one gate.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) idmap: Option<OwnedFd>,
    pub(crate) tree: Option<OwnedFd>,
    pub(crate) network: Option<OwnedFd>,
    /// Root of the process, which it is not handed.
    pub(crate) root: Option<OwnedFd>,
    pub(crate) tasks: Vec<OwnedFd>,
}

impl Made {
    /// Opens the gate. A child that failed before its gate does not hear that; its report says why, so this is not an
    /// error.
    pub(crate) fn hand_over(&self, child: &Child) -> Result<(), RuntimeError> {
        match child.open_gate(&self.parcel(&self.tasks())) {
            Err(Errno::PIPE | Errno::CONNRESET) | Ok(()) => Ok(()),
            Err(errno) => Err(RuntimeError::Wait(errno)),
        }
    }

    fn tasks(&self) -> Vec<BorrowedFd<'_>> {
        self.tasks.iter().map(AsFd::as_fd).collect()
    }

    fn parcel<'a>(&'a self, tasks: &'a [BorrowedFd<'a>]) -> Parcel<'a> {
        Parcel {
            idmap: self.idmap.as_ref().map(AsFd::as_fd),
            tree: self.tree.as_ref().map(AsFd::as_fd),
            network: self.network.as_ref().map(AsFd::as_fd),
            tasks,
        }
    }
}

/// Only id in the map of an id-mapped mount: the highest valid one, which no file has. A map must not be empty.
const NOBODY: u32 = u32::MAX - 1;

/// Makes a user namespace that maps no id of any file.
pub(crate) fn idmap() -> Result<OwnedFd, RuntimeError> {
    tote_sys::user_namespace(NOBODY).map_err(|error| RuntimeError::Errand(ErrandError::Idmap(error)))
}

/// Value of `CLONE_NEWPID`.
const NEW_PID: u32 = 0x2000_0000;

/// Guard: this process's children are born in another PID namespace while it lives.
struct PidNamespace {
    own: OwnedFd,
}

impl PidNamespace {
    fn enter(target: Option<&OwnedFd>) -> Result<Option<Self>, RuntimeError> {
        let Some(target) = target else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let own = rustix::fs::open("/proc/self/ns/pid", flags, Mode::empty()).map_err(RuntimeError::Clone)?;
        tote_sys::set_namespaces(target.as_fd(), NEW_PID).map_err(RuntimeError::Clone)?;
        Ok(Some(Self { own }))
    }
}

impl Drop for PidNamespace {
    fn drop(&mut self) {
        // A process may always return to its own PID namespace.
        best_effort(tote_sys::set_namespaces(self.own.as_fd(), NEW_PID));
    }
}

fn user_namespace(idmap: &Idmap) -> Result<OwnedFd, RuntimeError> {
    let made = match idmap {
        Idmap::Maps { uid, gid } => tote_sys::user_namespace_of(uid, gid),
        Idmap::Namespace(path) => {
            rustix::fs::open(path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        }
    };
    made.map_err(|error| RuntimeError::Errand(ErrandError::Idmap(error)))
}

/// Tells everyone of the thing that an errand has made.
pub(crate) fn tell(
    errand: &Errand,
    made: &Made,
    asides: &mut [&mut dyn Aside],
    warn: &mut dyn FnMut(String),
) {
    if let (Errand::Network, Some(network)) = (errand, &made.network) {
        tell_network(asides, network.as_fd(), warn);
    }
    if let (Errand::Watch, Some(root)) = (errand, &made.root) {
        asides.iter_mut().for_each(|aside| aside.root(root.as_fd()));
    }
}

/// Returns an errand's name in `--timings`.
pub(crate) fn words(errand: &Errand) -> &'static str {
    match errand {
        Errand::Maps => "parent: map the ids",
        Errand::Idmap | Errand::IdmapOf(_) => "parent: make the user namespace of the id map",
        Errand::OomScore(_) => "parent: set the oom score",
        Errand::Tree(_) | Errand::Root(_) => "parent: open a tree",
        Errand::Node(_) => "parent: make a device node",
        Errand::NetDevices(_) => "parent: move network devices",
        Errand::Network => "parent: make the network namespace",
        Errand::Cgroup => "parent: make the cgroup",
        Errand::Watch => "parent: watch the root",
        Errand::Record => "parent: record the process",
        Errand::Hooks => "parent: run hooks",
    }
}
