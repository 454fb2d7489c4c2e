//! A process between the caller and the container's: it enters namespaces that the caller stays out of, and then clones.
//!
//! Once inside a user namespace there is no way back, and a PID namespace is only for children. So a process that shares
//! the caller's memory and descriptors goes there, clones the container's process as the caller's child (CLONE_PARENT),
//! and is gone before the caller goes on.

use crate::Errno;
use crate::birth::{Ancestry, CloneArgs, clone as clone3, errno};
use crate::child::exit;
use crate::join::set_namespaces;

/// The most namespaces that are joined: one of each kind.
const KINDS: usize = 8;

struct Exchange<'a> {
    ancestry: &'a Ancestry<'a>,
    args: CloneArgs,
    newborn: &'a dyn Fn(),
    result: Result<u32, Errno>,
}

/// clone3(2) from inside the namespaces.
pub(crate) fn clone(ancestry: &Ancestry<'_>, args: CloneArgs, newborn: &dyn Fn()) -> Result<u32, Errno> {
    let mut exchange = Exchange {
        ancestry,
        args: CloneArgs {
            flags: args.flags | libc::CLONE_PARENT as u64,
            exit_signal: 0, // CLONE_PARENT takes that of the process between
            ..args
        },
        newborn,
        result: Err(Errno::CHILD),
    };
    // The container's process performs all its steps on a copy of it.
    let mut stack = vec![0u128; 1 << 16];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: CLONE_VFORK stops this thread until the other process has exited, so the stack and `exchange` outlive it
    // and nobody else uses them meanwhile; it starts at the top of the stack, which is 16-aligned as the ABI wants.
    let pid = unsafe {
        libc::clone(
            between,
            stack.as_mut_ptr_range().end.cast(),
            flags,
            (&raw mut exchange).cast(),
        )
    };
    if pid == -1 {
        return Err(errno());
    }
    let mut status = 0;
    // SAFETY: `status` is a valid place for the kernel to write.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } == -1 && errno() == Errno::INTR {}
    exchange.result
}

/// The process between.
extern "C" fn between(exchange: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the caller's `Exchange`, which nobody else touches until this process has exited.
    let exchange = unsafe { &mut *exchange.cast::<Exchange<'_>>() };
    exchange.result = enter(exchange.ancestry).and_then(|()| clone3(&exchange.args, exchange.newborn));
    exit(0)
}

/// What belongs to the caller's user namespace can only be entered from there, what belongs to the other one only from
/// the other one.
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
