//! A process that shares the memory and descriptors of its caller and ends before the caller goes on. The caller uses
//! it for calls that change the calling process, such as entering a namespace. A copy of the memory would cost five
//! times as much.

use crate::Errno;
use crate::outcome::errno;
use crate::outcome::exit;

/// Performs `work` in such a process, on the given stack; `flags` are further flags of clone(2).
///
/// `work` must neither allocate nor lock nor unwind: the caller may be in the middle of a change of its own.
///
/// # Errors
/// clone(2)'s. `work` itself has to note its result.
pub(crate) fn aside<F: FnMut()>(stack: &mut [u128], flags: i32, work: F) -> Result<(), Errno> {
    let pid = begin(stack, flags | libc::CLONE_FILES, None, work)?;
    let mut status = 0;
    // SAFETY: `status` is a valid place for the kernel to write.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } == -1 && errno() == Errno::INTR {}
    Ok(())
}

/// Performs `work` in a process that shares the memory of its caller, on the given stack, until it ends or executes a program; the caller goes
/// on then, and has to reap it. Returns its pid and stores its pidfd. The same holds for `work` as in [`aside`].
///
/// # Errors
/// clone(2)'s.
pub(crate) fn share<F: FnMut()>(stack: &mut [u128], pidfd: &mut i32, work: F) -> Result<u32, Errno> {
    begin(stack, 0, Some(pidfd), work).map(i32::cast_unsigned)
}

fn begin<F: FnMut()>(
    stack: &mut [u128],
    flags: i32,
    pidfd: Option<&mut i32>,
    mut work: F,
) -> Result<i32, Errno> {
    let wants = pidfd.as_ref().map_or(0, |_| libc::CLONE_PIDFD);
    let flags = flags | wants | libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let place = pidfd.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: CLONE_VFORK stops this thread until the other process has exited, so the stack and `work` outlive that
    // process and nothing else uses them meanwhile; it starts at the top of the stack, which is 16-aligned as the ABI
    // wants. With CLONE_PIDFD the kernel stores a descriptor at `place`, which is valid then.
    let pid = unsafe {
        libc::clone(
            other::<F>,
            stack.as_mut_ptr_range().end.cast(),
            flags,
            (&raw mut work).cast(),
            place,
        )
    };
    if pid == -1 { Err(errno()) } else { Ok(pid) }
}

/// Runs as the other process.
extern "C" fn other<F: FnMut()>(work: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `begin` passes a pointer to a `work` of this very type, which nothing else touches until this process
    // has exited.
    let work = unsafe { &mut *work.cast::<F>() };
    work();
    exit(0)
}
