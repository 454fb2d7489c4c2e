//! Descriptors that whoever started this program has left open.

/// Closes every descriptor above standard error that survives execve(2). This program's own are all close-on-exec, so
/// these are the ones that it was started with: a long-lived process must not keep a stranger's pipe open. The first
/// `kept` of them, from 3 on, stay.
pub fn close_inherited(kept: u32) {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = listed
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers
        .into_iter()
        .filter(|number| i64::from(*number) > 2 + i64::from(kept))
    {
        // SAFETY: fcntl(2) takes a number here and changes nothing.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if flags != -1 && flags & libc::FD_CLOEXEC == 0 {
            // SAFETY: what is without close-on-exec is owned by no value of this process, whose descriptors all have it.
            unsafe { libc::close(number) };
        }
    }
}
