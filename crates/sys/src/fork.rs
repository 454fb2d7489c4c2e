//! fork(2) for processes of this program that live beside it.

use crate::outcome::{best_effort, errno, exit};
use crate::signal::{SignalFd, SignalSet};
use crate::wait::{Endless, Wait};
use crate::{Errno, Footprint};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use std::time::{Duration, Instant};

/// Makes a process that performs `work` and ends with the exit code that it returns; the parent reaps the process.
///
/// # Errors
/// fork(2)'s; `EBUSY` if this process has other threads, whose locks would stay locked in the new process.
pub fn fork_worker(work: impl FnOnce() -> u8) -> Result<Pid, Errno> {
    alone()?;
    // SAFETY: this process has one thread, so its copy finds no lock held and no structure half changed; it runs on as
    // this process would, and ends by _exit, past the destructors and exit handlers that belong to the parent.
    match unsafe { libc::fork() } {
        -1 => Err(errno()),
        0 => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            exit(done.map_or(101, i32::from))
        }
        pid => Pid::from_raw(pid).ok_or(Errno::CHILD),
    }
}

/// Time for threads whose work is done to go: they are joined before the kernel has forgotten them.
const END_OF_THREADS: Duration = Duration::from_millis(500);

/// Waits until this process has no other thread.
fn alone() -> Result<(), Errno> {
    let begin = Instant::now();
    // The directory's link count is 2 plus one for each thread.
    while rustix::fs::stat("/proc/self/task")?.st_nlink > 3 {
        if begin.elapsed() > END_OF_THREADS {
            return Err(Errno::BUSY);
        }
        rustix::thread::sched_yield();
    }
    Ok(())
}

/// Does [`fork_worker`] for a process that outlives this one: when the function returns, the process that adopts
/// orphans is its parent. An init that is told of an adopted process waits for its end, but not for that of other
/// processes' children.
///
/// # Errors
/// Those of [`fork_worker`].
pub fn fork_orphan(work: impl FnOnce() -> u8) -> Result<(), Errno> {
    let between = fork_worker(move || match fork_worker(work) {
        Ok(_) => 0,
        Err(errno) => u8::try_from(errno.raw_os_error()).unwrap_or(u8::MAX),
    })?;
    let status = Wait::endless(Endless::Worker).reap_child(between)?;
    let status = status.ok_or(Errno::CHILD)?;
    match status.exit_status() {
        Some(0) => Ok(()),
        Some(code) => Err(Errno::from_raw_os_error(code)),
        None => Err(Errno::CHILD),
    }
}

/// How the work of [`fork_parent`] came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing is left of it; the exit code.
    Done(u8),
    /// Processes that it started go on; the number is for the caller.
    GoesOn(u8),
}

/// Signals that a caller passes on to the work which it waits for. Those about the terminal reach both from there.
const PASSED_ON: [i32; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTERM,
];

/// Does [`fork_worker`] for work that starts processes which may outlive this one, and returns how it ended. If they go
/// on, the worker stays until they have ended, and keeps nothing of this process meanwhile: without it they would be
/// orphans, and an init that does not reap orphans keeps the first process of their PID namespace from ending. With
/// `attended`, signals that this process gets meanwhile go to the worker.
///
/// # Errors
/// Those of [`fork_worker`]; pipe2(2)'s; `ECHILD` for a worker that was killed.
pub fn fork_parent(attended: bool, work: impl FnOnce() -> Work) -> Result<Work, Errno> {
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // Before the fork, so that no signal comes between; the worker reads its own by the same means.
    let set = PASSED_ON.into_iter().fold(SignalSet::empty(), SignalSet::with);
    let signals = attended.then(|| SignalFd::new(&set)).transpose()?;
    let worker = fork_worker(move || {
        // Without it the work would go on although its caller has ended.
        best_effort(crate::die_with_parent());
        match work() {
            Work::Done(code) => code,
            Work::GoesOn(number) => {
                if let Some(line) = alone_with(theirs) {
                    await_children(line, number);
                }
                0
            }
        }
    })?;
    if let Some(signals) = signals {
        pass_signals_on(worker, ours.as_fd(), &signals)?;
    }
    let mut byte = [0];
    if rustix::io::retry_on_intr(|| rustix::io::read(&ours, &mut byte))? == 1 {
        return Ok(Work::GoesOn(byte[0]));
    }
    let ended = Wait::endless(Endless::Worker).reap_child(worker)?;
    let code = ended.and_then(WaitStatus::exit_status);
    let code = code
        .and_then(|code| u8::try_from(code).ok())
        .ok_or(Errno::CHILD)?;
    Ok(Work::Done(code))
}

/// Sends signals on until the worker writes to the line, or ends.
fn pass_signals_on(worker: Pid, line: BorrowedFd<'_>, signals: &SignalFd) -> Result<(), Errno> {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(line, PollFlags::IN),
            PollFd::new(signals, PollFlags::IN),
        ];
        rustix::io::retry_on_intr(|| Wait::endless(Endless::Program).poll(&mut fds))?;
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
        while let Some(signal) = signals.next()? {
            if let Some(signal) = Signal::from_named_raw(signal) {
                // It is not reaped yet, so the number is still its own.
                best_effort(kill_process(worker, signal));
            }
        }
    }
}

/// Lets the caller of [`fork_parent`] go, and reaps all children of this process.
fn await_children(line: OwnedFd, number: u8) {
    best_effort(crate::prctl::outlive_parent());
    // The work may have taken it to a container's user namespace, where others have rights over it.
    best_effort(crate::set_dumpable(false));
    // A caller that is gone needs no answer.
    best_effort(rustix::io::write(&line, &[number]));
    drop(line);
    Footprint::new().trim();
    #[expect(
        clippy::disallowed_methods,
        reason = "the children are programs of the user's, which take as long as they like"
    )]
    let reaped = || wait(WaitOptions::empty());
    while matches!(reaped(), Ok(_) | Err(Errno::INTR)) {}
}

/// Makes a process that keeps nothing of this one but the descriptor: a session of its own, `/dev/null` for its
/// standard descriptors. The caller does not reap it and should end soon.
///
/// # Errors
/// Those of [`fork_worker`].
pub fn fork_apart(fd: OwnedFd, work: fn(OwnedFd)) -> Result<(), Errno> {
    fork_worker(move || {
        if let Some(fd) = alone_with(fd) {
            work(fd);
        }
        0
    })
    .map(drop)
}

/// Prepares the child. Returns the descriptor under its new number.
fn alone_with(fd: OwnedFd) -> Option<OwnedFd> {
    const NUMBER: i32 = 3;
    rustix::process::setsid().ok()?;
    rustix::process::chdir(c"/").ok()?;
    // absence: the process is not made, and its caller goes on without
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
    rustix::stdio::dup2_stdin(&null).ok()?;
    rustix::stdio::dup2_stdout(&null).ok()?;
    rustix::stdio::dup2_stderr(&null).ok()?;
    let same = fd.as_raw_fd() == NUMBER;
    // SAFETY: the value that owns this number in the parent is never used nor dropped in here: the work that follows
    // is a plain function, which captures nothing, and the process ends by _exit.
    let moved = same || unsafe { libc::dup3(fd.as_raw_fd(), NUMBER, libc::O_CLOEXEC) } == NUMBER;
    // SAFETY: the owners of all higher numbers are likewise never used nor dropped in this process.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, NUMBER + 1, u32::MAX, 0) } == 0;
    // Both are closed already.
    std::mem::forget((fd, null));
    // SAFETY: the descriptor is open, and nothing else owns it.
    (moved && closed).then(|| unsafe { OwnedFd::from_raw_fd(NUMBER) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_beside_other_threads() {
        // The harness runs tests in threads of their own.
        assert_eq!(fork_worker(|| 0), Err(Errno::BUSY));
        assert_eq!(fork_orphan(|| 0), Err(Errno::BUSY));
        assert_eq!(fork_parent(false, || Work::Done(0)), Err(Errno::BUSY));
    }
}
