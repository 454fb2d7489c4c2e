//! Signals: a set, a descriptor that reads them, and the few calls around them.

use crate::Errno;
use crate::outcome::best_effort;
use crate::outcome::errno;
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// A set of signals.
#[derive(Clone, Copy)]
pub struct SignalSet(libc::sigset_t);

impl std::fmt::Debug for SignalSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignalSet")
    }
}

impl SignalSet {
    /// Returns the set without any signal.
    #[must_use]
    pub fn empty() -> Self {
        // SAFETY: all-zero bytes are a valid sigset_t.
        let mut set = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a local sigset_t that outlives the call.
        unsafe { libc::sigemptyset(&raw mut set) };
        Self(set)
    }

    /// Returns the set of all signals.
    #[must_use]
    pub fn full() -> Self {
        let mut set = Self::empty();
        // SAFETY: `set.0` is a valid sigset_t that outlives the call.
        unsafe { libc::sigfillset(&raw mut set.0) };
        set
    }

    /// Adds one signal; an invalid number adds nothing.
    #[must_use]
    pub fn with(mut self, signo: i32) -> Self {
        // SAFETY: `self.0` is a valid sigset_t; a bad number only makes the call return an error.
        unsafe { libc::sigaddset(&raw mut self.0, signo) };
        self
    }

    /// Removes one signal.
    #[must_use]
    pub fn without(mut self, signo: i32) -> Self {
        // SAFETY: `self.0` is a valid sigset_t; a bad number only makes the call return an error.
        unsafe { libc::sigdelset(&raw mut self.0, signo) };
        self
    }

    /// Removes SIGHUP if this process ignores it: `nohup tote run` asks that a terminal which goes away ends nothing,
    /// so the container is not to get that signal either.
    #[must_use]
    pub fn without_ignored_hangup(self) -> Self {
        if is_ignored(libc::SIGHUP) {
            self.without(libc::SIGHUP)
        } else {
            self
        }
    }
}

/// A descriptor from which blocked signals are read, signalfd(2). The signals stay blocked after it is dropped.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks the signals and opens a descriptor for them.
    ///
    /// # Errors
    /// signalfd(2)'s.
    pub fn new(signals: &SignalSet) -> Result<Self, Errno> {
        set_mask(libc::SIG_BLOCK, signals)?;
        // SAFETY: `signals` is a valid set; -1 asks for a new descriptor.
        match unsafe { libc::signalfd(-1, &raw const signals.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) } {
            -1 => Err(errno()),
            // SAFETY: signalfd returned a new descriptor that nothing else owns.
            fd => Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) })),
        }
    }

    /// Returns the number of the next pending signal, if any.
    ///
    /// # Errors
    /// read(2)'s.
    pub fn next(&self) -> Result<Option<i32>, Errno> {
        let mut bytes = [0u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.0, &mut bytes) {
            Ok(length) if length == bytes.len() => {
                // ssi_signo is the first field of signalfd_siginfo.
                Ok(Some(i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])))
            }
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set_mask(how: i32, signals: &SignalSet) -> Result<(), Errno> {
    // SAFETY: the set is valid, and a null pointer asks for no old one.
    match unsafe { libc::sigprocmask(how, &raw const signals.0, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Restores the signal state that a new program expects: no signal blocked, and none ignored. An ignored signal stays
/// ignored across execve(2): SIGPIPE, which tote itself ignores, and the signals that tote's caller ignored, as a
/// shell ignores SIGINT and SIGQUIT for a command that it starts with `&`.
pub(crate) fn reset() {
    // This is the kernel's own struct, whose fields have the size of a pointer each: SIG_DFL, no flags, an empty
    // mask. The C library would leave out the two signals that it keeps to itself.
    let default = [0_usize; 4];
    for signo in 1..=LAST {
        // SAFETY: the kernel reads the struct and the size of its mask, and writes nothing; SIG_DFL is always a valid
        // disposition. SIGKILL and SIGSTOP only make it fail.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signo,
                default.as_ptr(),
                std::ptr::null_mut::<usize>(),
                MASK_SIZE,
            )
        };
    }
    unblock_all();
}

/// Number of the last signal, and bytes in the kernel's signal mask.
const LAST: usize = 64;
const MASK_SIZE: usize = LAST / 8;

/// Unblocks signals that this process has inherited blocked, or has read by a descriptor until now. One that waits has its effect at
/// once.
///
/// # Errors
/// sigprocmask(2)'s.
pub fn unblock(signals: &SignalSet) -> Result<(), Errno> {
    set_mask(libc::SIG_UNBLOCK, signals)
}

/// Unblocks every signal.
pub(crate) fn unblock_all() {
    // sigprocmask(2) cannot fail with a valid set.
    best_effort(set_mask(libc::SIG_SETMASK, &SignalSet::empty()));
}

/// True if this process ignores a signal.
fn is_ignored(signo: i32) -> bool {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call changes nothing, and `action` is a local value for the kernel to write to; an invalid signal
    // number only makes the call fail.
    let asked = unsafe { libc::sigaction(signo, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Lets the usual signals end this process although it is the first of its PID namespace, for which the kernel drops
/// signals without a handler. This holds until execve(2), which resets handlers.
pub(crate) fn die_of_signals() {
    extern "C" fn die(signo: i32) {
        // SAFETY: _exit is async-signal-safe and does not return.
        unsafe { libc::_exit(128 + signo) }
    }
    for signo in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: the handler calls only _exit, which is async-signal-safe; these signals can be caught.
        unsafe { libc::signal(signo, die as *const () as libc::sighandler_t) };
    }
}

/// Number of the first noted signal; 0 before one has come.
static NOTED: AtomicI32 = AtomicI32::new(0);

/// Notes the first of these signals that comes from now on, see [`noted`], and does nothing else; the same signal
/// once more has its default effect. Programs that this process executes have the default from the start.
pub fn note(signals: &[i32]) {
    extern "C" fn remember(signo: i32) {
        // A handler may use an atomic, and signal(2).
        if NOTED.load(Ordering::Relaxed) == 0 {
            NOTED.store(signo, Ordering::Relaxed);
        }
        // SAFETY: SIG_DFL is always a valid disposition.
        unsafe { libc::signal(signo, libc::SIG_DFL) };
    }
    for signo in signals {
        // SAFETY: the handler uses only an atomic and signal(2), which a handler may; an invalid number only makes
        // the call fail.
        unsafe { libc::signal(*signo, remember as *const () as libc::sighandler_t) };
    }
}

/// Returns the first signal that has come since [`note`] was asked for it.
pub fn noted() -> Option<i32> {
    Some(NOTED.load(Ordering::Relaxed)).filter(|signo| *signo != 0)
}

/// Returns the first of these signals that is blocked and pending; it stays pending.
#[must_use]
pub fn pending_signal(signals: &[i32]) -> Option<i32> {
    let mut pending = SignalSet::empty();
    // SAFETY: `pending` is a local sigset_t for the kernel to write to.
    if unsafe { libc::sigpending(&raw mut pending.0) } != 0 {
        return None;
    }
    // SAFETY: the set is valid; an invalid signal number is in no set.
    let waits = |signo: &i32| unsafe { libc::sigismember(&raw const pending.0, *signo) } == 1;
    signals.iter().copied().find(waits)
}

/// Blocks every signal that can be blocked.
pub(crate) fn block_all() -> Result<(), Errno> {
    set_mask(libc::SIG_SETMASK, &SignalSet::full())
}

/// Waits for any blocked signal.
pub(crate) fn wait_any() -> Option<i32> {
    let all = SignalSet::full();
    // SAFETY: the set is valid, and a null pointer asks for no details.
    let signo = unsafe { libc::sigwaitinfo(&raw const all.0, std::ptr::null_mut()) };
    (signo > 0).then_some(signo)
}

/// Calls kill(2); a process that has ended needs no signal.
pub(crate) fn kill(pid: i32, signo: i32) {
    // SAFETY: kill takes two numbers, any of which are allowed.
    unsafe { libc::kill(pid, signo) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_is_noted() {
        note(&[libc::SIGUSR1, libc::SIGUSR2]);
        assert_eq!(noted(), None);
        // SAFETY: raise sends the signal to this very thread, where it has a handler.
        unsafe { libc::raise(libc::SIGUSR2) };
        // SAFETY: raise sends the signal to this very thread, where it has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        assert_eq!(noted(), Some(libc::SIGUSR2));
    }
}
