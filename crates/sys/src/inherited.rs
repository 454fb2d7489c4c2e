//! Descriptors that the program which started this one has left open.

/// Closes every descriptor above standard error that survives execve(2). All descriptors of this program's own are
/// close-on-exec, so the others were inherited at its start, and a long-lived process must not keep a stranger's pipe
/// open. The first `kept` inherited descriptors, from 3 on, stay open.
pub fn close_inherited(kept: u32) {
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
