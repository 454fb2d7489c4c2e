//! Descriptors that a process must not keep: those that the program which started this one has left open, and those of the
//! host in a process that waits in a container.

use crate::Errno;
use crate::outcome::errno;

/// Closes every descriptor above standard error that survives execve(2). All descriptors of this program's own are
/// close-on-exec, so the others were inherited at its start, and a long-lived process must not keep a stranger's pipe
/// open. The first `kept` inherited descriptors, from 3 on, stay open.
pub fn close_inherited(kept: u32) {
    // absence: an inherited descriptor stays open
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = listed
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers
        .into_iter()
        .filter(|number| i64::from(*number) > 2 + i64::from(kept))
    {
        // SAFETY: F_GETFD takes a number, reads the flags of that descriptor and changes nothing.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if flags != -1 && flags & libc::FD_CLOEXEC == 0 {
            // SAFETY: a descriptor without close-on-exec is owned by no value of this process, whose own descriptors
            // all have it.
            unsafe { libc::close(number) };
        }
    }
}

/// Closes every descriptor from `first` on, except those in `kept`.
pub(crate) fn close_others<I: Iterator<Item = i32>>(first: u32, kept: impl Fn() -> I) -> Result<(), Errno> {
    let mut first = first;
    loop {
        let next = kept()
            .filter_map(|fd| u32::try_from(fd).ok())
            .filter(|fd| *fd >= first)
            .min();
        let last = match next {
            Some(next) if next == first => {
                first += 1;
                continue;
            }
            Some(next) => next - 1,
            None => u32::MAX,
        };
        // SAFETY: owners of the closed descriptors are in the lists and registers of this process, which are never
        // dropped, as it ends by execve or _exit; and no operation after this one uses them.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == -1 {
            return Err(errno());
        }
        match next {
            Some(next) => first = next + 1,
            None => return Ok(()),
        }
    }
}
