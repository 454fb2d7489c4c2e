//! What the parent does for a new process, whatever life that is to have.

use crate::RuntimeError;
use rustix::fd::{AsFd, OwnedFd};
use tote_sandbox::Plan;
use tote_sys::{Child, Errno, Parcel, best_effort};

/// What the parent has made for one gate.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) idmap: Option<OwnedFd>,
    pub(crate) network: Option<OwnedFd>,
    pub(crate) tasks: Vec<OwnedFd>,
}

impl Made {
    /// A child that failed before its gate does not hear; its report says why, so this is no failure of its own.
    pub(crate) fn hand_over(&self, child: &Child) -> Result<(), RuntimeError> {
        let tasks: Vec<_> = self.tasks.iter().map(AsFd::as_fd).collect();
        let parcel = Parcel {
            idmap: self.idmap.as_ref().map(AsFd::as_fd),
            join: self.network.as_ref().map(AsFd::as_fd),
            tasks: &tasks,
        };
        match child.open_gate(&parcel) {
            Err(Errno::PIPE | Errno::CONNRESET) | Ok(()) => Ok(()),
            Err(errno) => Err(RuntimeError::Wait(errno)),
        }
    }
}

/// The one id that the map of an id-mapped mount has: the last that is an id, which no file has. A map must not be
/// empty.
const NOBODY: u32 = u32::MAX - 1;

/// A user namespace in which nobody is anybody.
pub(crate) fn idmap() -> Result<OwnedFd, RuntimeError> {
    tote_sys::user_namespace(NOBODY).map_err(RuntimeError::Idmap)
}

/// A network namespace, which belongs to the child's user namespace where it has one of its own.
pub(crate) fn network(plan: &Plan, child: &Child) -> Result<OwnedFd, RuntimeError> {
    let owner = plan.has_user_namespace().then_some(&child.pidfd);
    tote_sys::network_namespace(owner.map(AsFd::as_fd)).map_err(RuntimeError::Network)
}

/// This process's children are born in another PID namespace while this lives.
pub(crate) struct PidNamespace {
    own: OwnedFd,
}

impl PidNamespace {
    pub(crate) fn enter(target: Option<&OwnedFd>) -> Result<Option<Self>, RuntimeError> {
        let Some(target) = target else { return Ok(None) };
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let own = rustix::fs::open("/proc/self/ns/pid", flags, rustix::fs::Mode::empty())
            .map_err(RuntimeError::Clone)?;
        rustix::thread::move_into_link_name_space(target.as_fd(), None).map_err(RuntimeError::Clone)?;
        Ok(Some(Self { own }))
    }
}

impl Drop for PidNamespace {
    fn drop(&mut self) {
        // Back to one's own is always allowed.
        best_effort(rustix::thread::move_into_link_name_space(self.own.as_fd(), None));
    }
}
