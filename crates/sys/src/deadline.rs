//! Waits that end: for descriptors until a point in time, and for calls that block in the kernel and have no limit of their own.

use crate::Errno;
use crate::outcome::{best_effort, errno};
use crate::wait::Wait;
use rustix::event::PollFd;
use std::mem::MaybeUninit;
use std::sync::Once;
use std::time::{Duration, Instant};

/// Longest limit that counts, a year: a later deadline would never come.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Point in time at which a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// Deadline after that time from now on, at most a year.
    #[must_use]
    pub fn after(limit: Duration) -> Self {
        Self(Instant::now() + limit.min(LONGEST))
    }

    /// Time that is left, which may be none.
    #[must_use]
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// True if no time is left.
    #[must_use]
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// Waits until one of the descriptors is ready. Returns the number of those, which is 0 after the deadline.
    ///
    /// # Errors
    /// Those of poll(2) but for `EINTR`, after which the wait goes on.
    pub fn poll(self, fds: &mut [PollFd<'_>]) -> Result<usize, Errno> {
        loop {
            match Wait::until(self.0).poll(fds) {
                Err(Errno::INTR) => {}
                ready => return ready,
            }
        }
    }

    /// Repeats a call that blocks in the kernel until it succeeds or fails; `None` if it still blocks at the deadline.
    ///
    /// The call has to end with `EINTR` when a signal comes. A timer sends one to this thread at the deadline, and again and again
    /// after it, because the first one may come just before the call has begun to block.
    ///
    /// # Errors
    /// Those of the call, and of timer_create(2).
    pub(crate) fn interrupt<T>(self, call: impl Fn() -> Result<T, Errno>) -> Result<Option<T>, Errno> {
        let _alarm = Alarm::set(self.left())?;
        loop {
            match call() {
                Err(Errno::INTR) if self.is_over() => return Ok(None),
                Err(Errno::INTR) => {}
                done => return done.map(Some),
            }
        }
    }
}

/// Interval of the timer once the deadline is over.
const AGAIN: Duration = Duration::from_millis(20);

/// Timer that interrupts what this thread does in the kernel.
struct Alarm {
    timer: libc::timer_t,
    /// Signals that were blocked before.
    blocked: libc::sigset_t,
}

/// Signal of the timer: the last one, which no program means anything by.
fn signo() -> i32 {
    libc::SIGRTMAX()
}

/// Handler of the signal. Its only effect is the end of the call that the signal interrupts.
extern "C" fn interrupt(_: i32) {}

impl Alarm {
    fn set(after: Duration) -> Result<Self, Errno> {
        handle();
        let mut timer = MaybeUninit::<libc::timer_t>::uninit();
        // SAFETY: a C structure of numbers and pointers, for which all zeros is a value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signo();
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        // SAFETY: the call reads the one structure and writes the other, which both live until it returns.
        match unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr()) } {
            0 => {}
            _ => return Err(errno()),
        }
        // SAFETY: timer_create(2) has succeeded, and so has written the timer.
        let timer = unsafe { timer.assume_init() };
        let alarm = Self {
            timer,
            blocked: let_through()?,
        };
        // A timer that is set to zero is off.
        let times = libc::itimerspec {
            it_interval: time(AGAIN),
            it_value: time(after.max(Duration::from_nanos(1))),
        };
        // SAFETY: the timer is this value's own, the call reads the structure, and a null pointer asks for no former one.
        match unsafe { libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()) } {
            0 => Ok(alarm),
            _ => Err(errno()),
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer is this value's own, and is not used afterwards. A signal that it has sent comes before the call returns,
        // and so before it is blocked again.
        unsafe { libc::timer_delete(self.timer) };
        // SAFETY: the set is a valid one, which pthread_sigmask(3) has written; a null pointer asks for no former one.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.blocked, std::ptr::null_mut()) };
    }
}

fn time(duration: Duration) -> libc::timespec {
    libc::timespec {
        // Neither is near its limit: the times are a year at most.
        tv_sec: duration.as_secs() as libc::time_t,
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Handles the signal from now on. The handler stays: a timer of another thread may be about to send the signal, which would end a
/// process without a handler. execve(2) forgets the handler.
fn handle() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(|| {
        // SAFETY: a C structure of numbers and pointers, for which all zeros is a value: no flags, so that a call is not begun again.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = interrupt as *const () as libc::sighandler_t;
        // SAFETY: the handler touches nothing, and the call reads the structure; a null pointer asks for no former one. It cannot fail
        // for a signal of this range.
        unsafe { libc::sigaction(signo(), &raw const action, std::ptr::null_mut()) };
    });
}

/// Lets the signal through to this thread, and returns which signals were blocked.
fn let_through() -> Result<libc::sigset_t, Errno> {
    // SAFETY: all-zero bytes are a valid sigset_t.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    let mut blocked = set;
    // SAFETY: `set` is a local sigset_t that outlives the call.
    best_effort(match unsafe { libc::sigaddset(&raw mut set, signo()) } {
        0 => Ok(()),
        _ => Err(errno()),
    });
    // SAFETY: both are local sets that outlive the call.
    match unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, &raw mut blocked) } {
        0 => Ok(blocked),
        code => Err(Errno::from_raw_os_error(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::PollFlags;

    #[test]
    fn a_wait_ends_at_its_deadline() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let begin = Instant::now();
        let mut fds = [PollFd::new(&reader, PollFlags::IN)];
        assert_eq!(Deadline::after(Duration::from_millis(30)).poll(&mut fds), Ok(0));
        assert!(begin.elapsed() >= Duration::from_millis(30));
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(Deadline::after(Duration::MAX).poll(&mut fds), Ok(1));
    }

    /// Calls that block are interrupted in several threads at once, also where the signal was blocked before.
    #[test]
    fn a_call_that_blocks_is_interrupted() {
        let blocks = || {
            let (reader, _writer) = rustix::pipe::pipe().unwrap();
            let deadline = Deadline::after(Duration::from_millis(30));
            let read = deadline.interrupt(|| rustix::io::read(&reader, &mut [0_u8; 1][..]).map(|_| ()));
            assert_eq!(read, Ok(None));
            assert!(deadline.is_over());
        };
        std::thread::scope(|scope| {
            let blocked = || {
                let all = crate::SignalSet::full();
                let _signals = crate::SignalFd::new(&all).unwrap();
                blocks();
                assert_eq!(
                    crate::pending_signal(&[signo()]),
                    None,
                    "it stays for the container"
                );
            };
            let threads = [scope.spawn(blocks), scope.spawn(blocks), scope.spawn(blocked)];
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        let deadline = Deadline::after(Duration::from_secs(60));
        let read = deadline.interrupt(|| rustix::io::read(&reader, &mut [0_u8; 1][..]));
        assert_eq!(read, Ok(Some(1)));
    }
}
