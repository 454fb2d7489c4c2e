//! Waits. Every call of tote's that may block for descriptors, for the end of a process or for a connection goes by a [`Wait`], which says how long
//! the call may last: until a moment, or without an end for one of the reasons in [`Endless`]. Clippy refuses the calls themselves elsewhere.

use crate::Errno;
use crate::outcome::best_effort;
use rustix::buffer::Buffer;
use rustix::event::epoll::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::SocketAddrUnix;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, WaitStatus, pidfd_open, waitid,
    waitpid,
};
use std::io::{Error, ErrorKind, Read, Result as IoResult};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest limit that counts, a year: a later moment would never come.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Time in which the kernel ends a process that was killed. One that waits for a disk ends when the disk answers, which may be never: then the
/// process is left to the one that adopts it.
const ENDS: Duration = Duration::from_secs(10);

/// Most bytes that are kept of each output of a program that is asked something.
const MOST_SAID: usize = 64 << 20;

/// Reasons why a wait may have no end of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endless {
    /// A program of the user's runs for as long as it likes: a container, a step of a build, a hook, an editor. This process is there for its end.
    Program,
    /// The user waits for what comes, and ends the wait: `attach`, `logs -f`, `events`.
    User,
    /// A reader takes its time, and a pipe makes its writer wait for it until the reader has closed it.
    Reader,
    /// A server waits for its next call, and for the end of what it serves.
    Calls,
    /// A copy of this process or another child has its work to do, which ends, and ends with this process.
    Worker,
}

/// Length of a wait.
#[derive(Clone, Copy, Debug)]
pub struct Wait(Limit);

#[derive(Clone, Copy, Debug)]
enum Limit {
    Now,
    Until(Instant),
    Endless,
}

impl Wait {
    /// A look, which does not wait.
    #[must_use]
    pub const fn now() -> Self {
        Self(Limit::Now)
    }

    /// A wait of that time from now on, at most a year.
    #[must_use]
    pub fn within(limit: Duration) -> Self {
        if limit.is_zero() {
            return Self::now();
        }
        Self(Limit::Until(Instant::now() + limit.min(LONGEST)))
    }

    /// The wait for the end of a process that was killed, or has said its last word: ten seconds.
    #[must_use]
    pub fn ending() -> Self {
        Self::within(ENDS)
    }

    /// A wait until that moment.
    #[must_use]
    pub const fn until(moment: Instant) -> Self {
        Self(Limit::Until(moment))
    }

    /// A wait without an end of its own.
    #[must_use]
    pub const fn endless(_: Endless) -> Self {
        Self(Limit::Endless)
    }

    /// A wait until that moment if there is one, and otherwise one without an end for this reason.
    #[must_use]
    pub fn until_or(moment: Option<Instant>, reason: Endless) -> Self {
        moment.map_or(Self::endless(reason), Self::until)
    }

    /// A wait of that time if there is a limit, and otherwise one without an end for this reason.
    #[must_use]
    pub fn within_or(limit: Option<Duration>, reason: Endless) -> Self {
        limit.map_or(Self::endless(reason), Self::within)
    }

    /// Returns the time that is left, which may be none; `None` for a wait without an end.
    #[must_use]
    pub fn left(self) -> Option<Duration> {
        match self.0 {
            Limit::Now => Some(Duration::ZERO),
            Limit::Until(moment) => Some(moment.saturating_duration_since(Instant::now())),
            Limit::Endless => None,
        }
    }

    pub(crate) fn timeout(self) -> Option<Timespec> {
        // A year fits.
        self.left()
            .map(|left| Timespec::try_from(left).unwrap_or_default())
    }

    /// Waits until one of the descriptors is ready; returns the number of those, which is 0 once the time is over.
    ///
    /// # Errors
    /// Those of poll(2), `EINTR` included.
    #[expect(clippy::disallowed_methods, reason = "this type is what bounds the call")]
    pub fn poll(self, fds: &mut [PollFd<'_>]) -> Result<usize, Errno> {
        poll(fds, self.timeout().as_ref())
    }

    /// Waits for events; returns what the buffer makes of them: of none once the time is over.
    ///
    /// # Errors
    /// Those of epoll_wait(2), `EINTR` included.
    #[expect(clippy::disallowed_methods, reason = "this type is what bounds the call")]
    pub fn epoll<B: Buffer<Event>>(self, epoll: impl AsFd, events: B) -> Result<B::Output, Errno> {
        epoll::wait(epoll, events, self.timeout().as_ref())
    }

    /// Waits until the descriptor is readable, or has been closed at its other end; `false` once the time is over.
    ///
    /// # Errors
    /// Those of poll(2) but for `EINTR`, after which the wait goes on.
    pub fn readable(self, fd: BorrowedFd<'_>) -> Result<bool, Errno> {
        loop {
            match self.poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)]) {
                Err(Errno::INTR) => {}
                ready => return ready.map(|ready| ready > 0),
            }
        }
    }

    /// Waits for the end of a child with this pidfd, and reaps it; `None` once the time is over.
    ///
    /// # Errors
    /// Those of poll(2) and waitid(2) but for `EINTR`, after which the wait goes on.
    #[expect(clippy::disallowed_methods, reason = "this type is what bounds the call")]
    pub fn reap(self, pidfd: BorrowedFd<'_>) -> Result<Option<WaitIdStatus>, Errno> {
        let mut options = WaitIdOptions::EXITED;
        if let Some(left) = self.left() {
            if !left.is_zero() && !self.readable(pidfd)? {
                return Ok(None);
            }
            options |= WaitIdOptions::NOHANG;
        }
        rustix::io::retry_on_intr(|| waitid(WaitId::PidFd(pidfd), options))
    }

    /// Waits for the end of a child, and reaps it; `None` once the time is over.
    ///
    /// # Errors
    /// Those of pidfd_open(2), poll(2) and waitpid(2) but for `EINTR`, after which the wait goes on.
    #[expect(clippy::disallowed_methods, reason = "this type is what bounds the call")]
    pub fn reap_child(self, child: Pid) -> Result<Option<WaitStatus>, Errno> {
        let mut options = WaitOptions::empty();
        if let Some(left) = self.left() {
            if !left.is_zero() {
                let pidfd = pidfd_open(child, PidfdFlags::empty())?;
                if !self.readable(pidfd.as_fd())? {
                    return Ok(None);
                }
            }
            options |= WaitOptions::NOHANG;
        }
        let ended = rustix::io::retry_on_intr(|| waitpid(Some(child), options))?;
        Ok(ended.map(|(_, status)| status))
    }

    /// Waits for the end of a program, and reaps it; `None` once the time is over.
    ///
    /// # Errors
    /// Those of [`Self::reap_child`].
    #[expect(clippy::disallowed_methods, reason = "this type is what bounds the call")]
    pub fn finish(self, child: &mut Child) -> IoResult<Option<ExitStatus>> {
        if let Some(left) = self.left() {
            if !left.is_zero() && child.try_wait()?.is_none() {
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let pidfd = pidfd_open(pid.ok_or(Errno::CHILD)?, PidfdFlags::empty())?;
                self.readable(pidfd.as_fd())?;
            }
            return child.try_wait();
        }
        child.wait().map(Some)
    }

    /// Runs a program to its end, and returns what it has said, of each output 64 MiB. A program that has not ended when the time is over is
    /// killed.
    ///
    /// # Errors
    /// Those of its start, and `TimedOut`.
    pub fn output(self, command: &mut Command) -> IoResult<Output> {
        self.collect(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    }

    /// Does the same for a program that runs already.
    ///
    /// # Errors
    /// Those of poll(2) and waitpid(2), and `TimedOut`.
    pub fn collect(self, mut child: Child) -> IoResult<Output> {
        let said = self.listen(&mut child);
        let ended = said.and_then(|said| Ok(self.finish(&mut child)?.map(|status| (said, status))));
        if !matches!(ended, Ok(Some(_))) {
            best_effort(child.kill());
            best_effort(Self::ending().finish(&mut child));
        }
        let ((stdout, stderr), status) = ended?.ok_or_else(late)?;
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    }

    /// Reads both outputs of a program to their end.
    fn listen(self, child: &mut Child) -> IoResult<(Vec<u8>, Vec<u8>)> {
        let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while out.is_some() || err.is_some() {
            let fds = [out.as_ref().map(AsFd::as_fd), err.as_ref().map(AsFd::as_fd)];
            let mut waits: Vec<_> = fds.into_iter().flatten().map(readable).collect();
            match self.poll(&mut waits) {
                Ok(0) => return Err(late()),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let mut ready = waits.iter().map(|fd| !fd.revents().is_empty());
            let [out_speaks, err_speaks] = fds.map(|fd| fd.is_some() && ready.next() == Some(true));
            drop(waits);
            if out_speaks && !take(out.as_mut(), &mut stdout)? {
                out = None;
            }
            if err_speaks && !take(err.as_mut(), &mut stderr)? {
                err = None;
            }
        }
        Ok((stdout, stderr))
    }

    /// Connects to a socket of this machine, which blocks while its listener does not accept the connections that are waiting there already.
    ///
    /// # Errors
    /// `TIMEDOUT`, and those of connect(2).
    #[expect(clippy::disallowed_methods, reason = "this type is what bounds the call")]
    pub fn connect(self, socket: impl AsFd, address: &SocketAddrUnix) -> Result<(), Errno> {
        let socket = socket.as_fd();
        let limit = self.left();
        if let Some(left) = limit {
            // No time at all would mean any time.
            set_socket_timeout(socket, Timeout::Send, Some(left.max(Duration::from_millis(1))))?;
        }
        let connected = rustix::net::connect(socket, address);
        if limit.is_some() {
            set_socket_timeout(socket, Timeout::Send, None)?;
        }
        match connected {
            Err(Errno::AGAIN) => Err(Errno::TIMEDOUT),
            connected => connected,
        }
    }
}

/// Waits for the end of a program of the user's, or of one that does the user's work, however long that takes; returns how it ended.
///
/// # Errors
/// waitpid(2)'s.
#[expect(
    clippy::disallowed_methods,
    reason = "it is for the programs that take as long as they like"
)]
pub fn await_program(child: &mut Child) -> IoResult<ExitStatus> {
    child.wait()
}

fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// Reads once, from a descriptor that is readable; `false` at the end.
fn take(from: Option<&mut impl Read>, to: &mut Vec<u8>) -> IoResult<bool> {
    let Some(from) = from else { return Ok(false) };
    let mut bytes = [0; 4096];
    match from.read(&mut bytes) {
        Ok(0) => Ok(false),
        Ok(length) => {
            if to.len() < MOST_SAID {
                to.extend_from_slice(&bytes[..length]);
            }
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

fn late() -> Error {
    ErrorKind::TimedOut.into()
}

/// Begins a connection of a socket that does not block: the call waits for nothing, and fails with `INPROGRESS` or `AGAIN` where it would.
///
/// # Errors
/// Those of connect(2).
#[expect(clippy::disallowed_methods, reason = "the caller's socket does not block")]
pub fn connect_at_once(
    socket: impl AsFd,
    address: &impl rustix::net::addr::SocketAddrArg,
) -> Result<(), Errno> {
    let socket = socket.as_fd();
    debug_assert!(
        rustix::fs::fcntl_getfl(socket).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK)),
        "a socket that blocks"
    );
    rustix::net::connect(socket, address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType};

    const MOMENT: Duration = Duration::from_millis(30);

    #[test]
    fn a_wait_for_descriptors_ends() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let begin = Instant::now();
        assert_eq!(Wait::within(MOMENT).readable(reader.as_fd()), Ok(false));
        assert!(begin.elapsed() >= MOMENT);
        assert_eq!(Wait::now().readable(reader.as_fd()), Ok(false));
        rustix::io::write(&writer, b"x").unwrap();
        for wait in [
            Wait::now(),
            Wait::within(Duration::MAX),
            Wait::endless(Endless::Calls),
            Wait::until_or(None, Endless::User),
            Wait::within_or(Some(MOMENT), Endless::User),
        ] {
            assert_eq!(wait.readable(reader.as_fd()), Ok(true), "{wait:?}");
        }
    }

    #[test]
    fn a_wait_for_an_end_ends() {
        let child = crate::fork_worker(|| {
            best_effort(Wait::endless(Endless::Program).poll(&mut []));
            0
        });
        let Ok(child) = child else { return };
        let pidfd = pidfd_open(child, PidfdFlags::empty()).unwrap();
        for wait in [Wait::now(), Wait::within(MOMENT)] {
            assert!(wait.reap(pidfd.as_fd()).unwrap().is_none());
            assert!(wait.reap_child(child).unwrap().is_none());
        }
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
        let ended = Wait::within(Duration::from_secs(60)).reap_child(child).unwrap();
        assert_eq!(ended.and_then(WaitStatus::terminating_signal), Some(9));
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a program that does not end has to be one"
    )]
    fn a_program_that_does_not_end_is_killed() {
        let asked = |line: &str, wait: Wait| wait.output(Command::new("/bin/sh").args(["-c", line]));
        let said = asked(
            "echo out; echo err >&2; exit 3",
            Wait::within(Duration::from_secs(60)),
        )
        .unwrap();
        assert_eq!((&*said.stdout, &*said.stderr), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(said.status.code(), Some(3));
        for line in ["exec sleep 1000", "exec >&- 2>&-; exec sleep 1000"] {
            let late = asked(&format!("exec 0<&-; {line}"), Wait::within(MOMENT)).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::TimedOut, "{line}");
        }
    }

    #[test]
    fn a_connection_that_nobody_accepts_ends() {
        let name = format!("tote-sys-wait-{}", std::process::id());
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let socket = || rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let listener = socket();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let mut waiting = Vec::new();
        loop {
            let client = socket();
            match Wait::within(MOMENT).connect(&client, &address) {
                Ok(()) => waiting.push(client),
                late => {
                    assert_eq!(late, Err(Errno::TIMEDOUT));
                    break;
                }
            }
            assert!(waiting.len() < 10);
        }
    }
}
