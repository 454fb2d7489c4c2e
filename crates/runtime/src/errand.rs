//! What the parent does for a container's process, because that may not do it itself.

use crate::{RuntimeError, Step, netdevice};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use tote_sandbox::{Idmap, Plan, Tree};
use tote_sys::{Ancestry, Child, Errno, Event};

/// The namespaces that the process of a plan is born into.
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
/// [`RuntimeError::OomScore`].
pub fn set_oom_score(pid: u32, score: i32) -> Result<(), RuntimeError> {
    std::fs::write(format!("/proc/{pid}/oom_score_adj"), score.to_string()).map_err(RuntimeError::OomScore)
}

/// Makes the network namespace of a plan, and moves into it what the plan says.
///
/// # Errors
/// [`RuntimeError::Network`], and [`RuntimeError::NetDevice`].
pub fn make_network(plan: &Plan, child: &Child) -> Result<OwnedFd, RuntimeError> {
    let owner = plan.has_user_namespace().then_some(&child.pidfd);
    let network = tote_sys::network_namespace(owner.map(AsFd::as_fd)).map_err(RuntimeError::Network)?;
    netdevice::move_all(&plan.net_devices, network.as_fd())?;
    Ok(network)
}

/// Moves the network devices of a plan into the network namespace at a path.
///
/// # Errors
/// [`RuntimeError::Network`] where there is none, and [`RuntimeError::NetDevice`].
pub fn move_net_devices(plan: &Plan, path: &str) -> Result<(), RuntimeError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let network = rustix::fs::open(path, flags, Mode::empty()).map_err(RuntimeError::Network)?;
    netdevice::move_all(&plan.net_devices, network.as_fd())
}

/// Opens a tree that the process is going to mount, once it has come so far.
///
/// # Errors
/// [`RuntimeError::Tree`], and [`RuntimeError::Idmap`] where its map is at fault; [`RuntimeError::Step`] when the process
/// does not get there.
pub fn open_tree(tree: &Tree, child: &Child, plan: &Plan) -> Result<OwnedFd, RuntimeError> {
    match child.event().map_err(RuntimeError::Wait)? {
        Event::Knock => {}
        Event::Failed { op, errno, text } => {
            return Err(RuntimeError::Step(Step::new(plan, op, errno, text)));
        }
        // Killed before it knocked; nothing else is said this early.
        Event::Exec | Event::Console(_) | Event::Seccomp(_) => return Err(RuntimeError::Wait(Errno::CHILD)),
    }
    let idmap = match &tree.idmap {
        None => None,
        Some((idmap, recursive)) => Some((user_namespace(idmap)?, *recursive)),
    };
    let wanted = tote_sys::Tree {
        path: &tree.path,
        process: child.pidfd.as_fd(),
        recursive: tree.recursive,
        idmap: idmap.as_ref().map(|(fd, recursive)| (fd.as_fd(), *recursive)),
    };
    tote_sys::tree(&wanted).map_err(|source| RuntimeError::Tree {
        path: tree.path.to_string_lossy().into_owned(),
        source,
    })
}

fn user_namespace(idmap: &Idmap) -> Result<OwnedFd, RuntimeError> {
    let made = match idmap {
        Idmap::Maps { uid, gid } => tote_sys::user_namespace_of(uid, gid),
        Idmap::Namespace(path) => {
            rustix::fs::open(path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        }
    };
    made.map_err(RuntimeError::Idmap)
}
