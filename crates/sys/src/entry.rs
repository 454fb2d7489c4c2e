//! The beginning of the program.

use crate::child::best_effort;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::io::Write as _;
use std::process::ExitCode;

/// Makes this function the program's first, in place of `fn main`; the binary says `#![no_main]`.
///
/// The standard library's own beginning reads `/proc/self/maps` and prepares a second stack to say of an overflow of the
/// first what it was: a fifth of the system calls of a short command.
#[macro_export]
macro_rules! entry {
    ($run:path) => {
        const _: () = {
            // SAFETY: the one symbol of that name, with C's signature; the C library calls it once, with one thread.
            #[unsafe(no_mangle)]
            extern "C" fn main(_: i32, _: *const *const u8) -> i32 {
                $crate::enter($run)
            }
        };
    };
}

/// What the standard library does of it that is needed: descriptors 0 to 2 are open, a pipe that nobody reads is an error
/// and no end, and what was printed is written. Gives the exit status.
pub fn enter(run: fn() -> ExitCode) -> i32 {
    open_standard();
    // SAFETY: to ignore a signal is no handler that could do something wrong.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let code = run();
    // Whoever was to read it may have gone.
    best_effort(std::io::stdout().flush());
    // The type tells nothing but whether two are the same.
    (0..=u8::MAX)
        .find(|status| ExitCode::from(*status) == code)
        .map_or(1, i32::from)
}

/// What is opened later must not become somebody's standard output.
fn open_standard() {
    let (stdin, stdout, stderr) = (
        rustix::stdio::stdin(),
        rustix::stdio::stdout(),
        rustix::stdio::stderr(),
    );
    let mut fds = [&stdin, &stdout, &stderr].map(|fd| PollFd::new(fd, PollFlags::empty()));
    if poll(&mut fds, Some(&Timespec::default())).is_err() {
        return;
    }
    for _ in fds.iter().filter(|fd| fd.revents().contains(PollFlags::NVAL)) {
        // The lowest number that is free.
        if let Ok(null) = rustix::fs::open(c"/dev/null", OFlags::RDWR, Mode::empty()) {
            std::mem::forget(null);
        }
    }
}
