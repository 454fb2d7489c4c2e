//! A process that shares this one's memory and descriptors and is gone before this one goes on: for what changes the
//! process that does it, such as entering a namespace. A copy of the memory would cost five times as much.

use crate::Errno;
use crate::birth::errno;
use crate::child::exit;

/// Does the work in such a process, on that stack; `flags` are further ones of clone(2).
///
/// The work must neither allocate nor lock, and not unwind: it is done between two states of the caller.
///
/// # Errors
/// clone(2)'s. What the work came to is for itself to note.
pub(crate) fn aside<F: FnMut()>(stack: &mut [u128], flags: i32, mut work: F) -> Result<(), Errno> {
    let flags = flags | libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: CLONE_VFORK stops this thread until the other process has exited, so the stack and `work` outlive it and
    // nobody else uses them meanwhile; it starts at the top of the stack, which is 16-aligned as the ABI wants.
    let pid = unsafe {
        libc::clone(
            other::<F>,
            stack.as_mut_ptr_range().end.cast(),
            flags,
            (&raw mut work).cast(),
        )
    };
    if pid == -1 {
        return Err(errno());
    }
    let mut status = 0;
    // SAFETY: `status` is a valid place for the kernel to write.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } == -1 && errno() == Errno::INTR {}
    Ok(())
}

/// The other process.
extern "C" fn other<F: FnMut()>(work: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the caller's `work`, of that very type, which nobody else touches until this process has exited.
    let work = unsafe { &mut *work.cast::<F>() };
    work();
    exit(0)
}
