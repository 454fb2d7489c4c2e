//! Entry point of the program, in place of the standard library's.

use crate::outcome::best_effort;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::io::Write as _;
use std::process::ExitCode;

/// Makes this function the program's entry point, in place of `fn main`; the binary has to say `#![no_main]`.
///
/// The standard library's entry point reads `/proc/self/maps` and prepares a second stack, only to report a stack
/// overflow as such: that is a fifth of the system calls of a short command.
#[macro_export]
macro_rules! entry {
    ($run:path) => {
        const _: () = {
            // SAFETY: the symbol `main` is defined once, with C's signature; the C library calls it once, with one
            // thread.
            #[unsafe(no_mangle)]
            extern "C" fn main(_: i32, _: *const *const u8) -> i32 {
                $crate::enter($run)
            }
        };
    };
}

/// Does the needed part of the standard library's start-up: descriptors 0 to 2 are open, a write to a closed pipe
/// fails with EPIPE instead of killing the process, and buffered output is written. Returns the exit status.
pub fn enter(run: fn() -> ExitCode) -> i32 {
    open_standard();
    // SAFETY: SIG_IGN installs no handler, so no code runs in a signal's context.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let code = run();
    // The reader of the output may have gone.
    best_effort(std::io::stdout().flush());
    // `ExitCode` does not give out its number; it can only be compared.
    (0..=u8::MAX)
        .find(|status| ExitCode::from(*status) == code)
        .map_or(1, i32::from)
}

/// Opens `/dev/null` in place of closed standard descriptors, so that a file opened later does not become standard
/// output.
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
        // open(2) takes the lowest free number.
        if let Ok(null) = rustix::fs::open(c"/dev/null", OFlags::RDWR, Mode::empty()) {
            std::mem::forget(null);
        }
    }
}
