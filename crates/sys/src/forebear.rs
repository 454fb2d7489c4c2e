//! A process between the caller and the container's: it enters namespaces that the caller must not enter, then clones.
//!
//! There is no way back out of a user namespace, and a PID namespace takes effect for children only. So a process
//! that shares the caller's memory and descriptors enters them, clones the container's process as the caller's child
//! (CLONE_PARENT), and ends before the caller goes on.

use crate::Errno;
use crate::aside::aside;
use crate::clone3::{CloneArgs, clone as clone3};
use crate::join::{Namespace, set_namespaces};
use rustix::fd::BorrowedFd;

/// Namespaces that a child is born into.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ancestry<'a> {
    /// Namespaces of any kind but user and time. Those that the caller may not join are joined from inside `user`.
    pub join: &'a [Namespace],
    /// User namespace that owns the child's new namespaces.
    pub user: Option<BorrowedFd<'a>>,
}

/// Upper bound of joined namespaces: one of each kind.
const KINDS: usize = 8;

/// Calls clone3(2) from inside the namespaces.
pub(crate) fn clone(ancestry: &Ancestry<'_>, args: CloneArgs, newborn: &dyn Fn()) -> Result<u32, Errno> {
    let args = CloneArgs {
        flags: args.flags | libc::CLONE_PARENT as u64,
        exit_signal: 0, // CLONE_PARENT takes that signal from the process between
        ..args
    };
    let mut result = Err(Errno::CHILD);
    // The container's process performs all its operations on a copy of this stack.
    let mut stack = vec![0u128; 1 << 16];
    // process: process between
    aside(&mut stack, 0, || {
        result = enter(ancestry).and_then(|()| clone3(&args, newborn));
    })?;
    result
}

/// Joins the namespaces. A namespace of the caller's user namespace can be entered only before the user namespace is
/// joined, and a namespace of the joined one only after that.
fn enter(ancestry: &Ancestry<'_>) -> Result<(), Errno> {
    let mut waiting = [false; KINDS];
    for (namespace, waits) in ancestry.join.iter().zip(&mut waiting) {
        match namespace.join() {
            Err(Errno::PERM) if ancestry.user.is_some() => *waits = true,
            other => other?,
        }
    }
    if let Some(user) = ancestry.user {
        set_namespaces(user, libc::CLONE_NEWUSER as u32)?;
    }
    for (namespace, _) in ancestry.join.iter().zip(waiting).filter(|(_, waits)| *waits) {
        namespace.join()?;
    }
    Ok(())
}
