//! Entry point of the program, in place of the standard library's.

use crate::outcome::best_effort;
use crate::wait::Wait;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use std::ffi::{CStr, OsString, c_char};
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::process::ExitCode;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

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
            extern "C" fn main(count: i32, words: *const *const std::ffi::c_char) -> i32 {
                // SAFETY: the C library passes the arguments that the kernel has put on the stack, which stay there.
                unsafe { $crate::keep_arguments(count, words) };
                $crate::enter($run)
            }
        };
    };
}

/// The arguments of the process: their number, and their addresses.
///
/// The standard library has them from its own entry point, or from glibc, but not from musl.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static WORDS: AtomicPtr<*const c_char> = AtomicPtr::new(null_mut());

/// Keeps the arguments of `main` for [`arguments`].
///
/// # Safety
/// `words` points to `count` strings, which end with a null byte. Both stay as they are until the process ends.
pub unsafe fn keep_arguments(count: i32, words: *const *const c_char) {
    COUNT.store(usize::try_from(count).unwrap_or_default(), Ordering::Relaxed);
    WORDS.store(words.cast_mut(), Ordering::Relaxed);
}

/// Returns the arguments of this process, with the program's name first.
#[must_use]
pub fn arguments() -> Vec<OsString> {
    let words = WORDS.load(Ordering::Relaxed);
    if words.is_null() {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test has the entry point of the standard library"
        )]
        return std::env::args_os().collect();
    }
    let text = |at: usize| {
        // SAFETY: `keep_arguments` was given an array of more pointers than `at`.
        let place = unsafe { words.add(at) };
        // SAFETY: the place is within that array, which lasts as long as the process.
        let word = unsafe { *place };
        // SAFETY: `keep_arguments` was given strings that end with a null byte and last as long as the process.
        let word = unsafe { CStr::from_ptr(word) };
        OsString::from_vec(word.to_bytes().to_vec())
    };
    (0..COUNT.load(Ordering::Relaxed)).map(text).collect()
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
    if Wait::now().poll(&mut fds).is_err() {
        return;
    }
    for _ in fds.iter().filter(|fd| fd.revents().contains(PollFlags::NVAL)) {
        // open(2) takes the lowest free number.
        // absence: a number that stays free is refused where it is used
        if let Ok(null) = rustix::fs::open(c"/dev/null", OFlags::RDWR, Mode::empty()) {
            std::mem::forget(null);
        }
    }
}
