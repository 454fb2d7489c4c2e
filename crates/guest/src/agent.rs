//! The loop of process 1.

use crate::error::GuestError;
use crate::session::{Asked, STREAMS, Session};
use crate::spare::Spare;
use crate::worker::Errands;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::{WaitOptions, wait};
use std::collections::BTreeMap;
use std::time::Duration;
use tote_channel::{Guest, Order, Stream};
use tote_sys::{Endless, Errno, Wait};

/// Bytes that are read of the channel at a time: the driver of the port returns no more.
const CHUNK: usize = 4096;

/// Time without work in which the next worker is made.
const QUIET: Duration = Duration::from_millis(5);

/// Something that a descriptor is ready for.
#[derive(Clone, Copy, Debug)]
enum Work {
    Channel,
    Reports,
    Input,
    Output(Stream),
}

/// Serves the host until the machine is to end.
pub(crate) fn serve((port, spare): (OwnedFd, Option<Spare>), errands: Errands) -> Result<(), GuestError> {
    let mut agent = Agent {
        port,
        errands,
        guest: Guest::new(&crate::machine::release()),
        sessions: BTreeMap::new(),
        spare,
        has_begun: false,
        tried: false,
    };
    crate::spare::seal();
    while !agent.turn()? {}
    Ok(())
}

struct Agent {
    port: OwnedFd,
    errands: Errands,
    guest: Guest,
    sessions: BTreeMap<u16, Session>,
    /// The next worker, once there was time to make it.
    spare: Option<Spare>,
    /// True once a process was asked for.
    has_begun: bool,
    /// True once it was made since the last one was given work.
    tried: bool,
}

impl Agent {
    /// Waits, and does what can be done; true if the machine is to end.
    fn turn(&mut self) -> Result<bool, GuestError> {
        for (number, work) in self.wait()? {
            match work {
                Work::Channel => {
                    if self.read()? {
                        return Ok(true);
                    }
                }
                Work::Reports | Work::Input | Work::Output(_) => self.advance(number, work),
            }
        }
        let guest = &mut self.guest;
        self.sessions.retain(|_, session| !session.tell_end(guest));
        // Workers, and orphans of what containers have left.
        #[expect(clippy::disallowed_methods, reason = "it does not wait")]
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        self.write().map(|()| false)
    }

    fn advance(&mut self, number: u16, work: Work) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        match work {
            Work::Reports => session.read_reports(&mut self.guest),
            Work::Input => session.write_input(&mut self.guest),
            Work::Output(stream) => session.read_output(stream, &mut self.guest),
            Work::Channel => {}
        }
    }

    /// Waits until something is ready; returns what, by the number of its session.
    fn wait(&mut self) -> Result<Vec<(u16, Work)>, GuestError> {
        let sends = !self.guest.outgoing().is_empty();
        let channel = if sends {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        let mut works = vec![(0, Work::Channel)];
        let mut fds = vec![PollFd::from_borrowed_fd(self.port.as_fd(), channel)];
        for (number, session) in &self.sessions {
            let readable = |stream| {
                let fd = session.readable(&self.guest, stream)?;
                Some((Work::Output(stream), fd, PollFlags::IN))
            };
            let reports = session.reports().map(|fd| (Work::Reports, fd, PollFlags::IN));
            let input = session
                .waiting_input()
                .map(|fd| (Work::Input, fd, PollFlags::OUT));
            let outputs = STREAMS.into_iter().filter_map(readable);
            for (work, fd, flags) in outputs.chain(reports).chain(input) {
                works.push((*number, work));
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        }
        // Before a container runs, no process can join it; and one that begins is not to share the processor.
        let is_quiet = self.has_begun && self.sessions.values().all(Session::runs);
        let timeout = (is_quiet && self.spare.is_none() && !self.tried).then_some(QUIET);
        match Wait::within_or(timeout, Endless::Calls).poll(&mut fds) {
            Ok(0) => {
                drop(fds);
                // Without memory for it, the next process has another one made.
                self.tried = true;
                self.spare = Spare::fork(&mut self.sessions, None, self.errands).ok();
                return Ok(Vec::new());
            }
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(errno) => return Err(GuestError::kernel("wait for", "the host")(errno)),
        }
        let ready = fds.iter().zip(works).filter(|(fd, _)| !fd.revents().is_empty());
        Ok(ready.map(|(_, work)| work).collect())
    }

    /// Takes what the host has sent; true if the machine is to end.
    fn read(&mut self) -> Result<bool, GuestError> {
        let mut buffer = [0; CHUNK];
        let length = match rustix::io::read(&self.port, &mut buffer) {
            // The host is gone.
            Ok(0) => return Ok(true),
            Ok(length) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(errno) => return Err(GuestError::kernel("read", "the channel")(errno)),
        };
        for order in self.guest.received(&buffer[..length])? {
            if matches!(order, Order::PowerOff) {
                return Ok(true);
            }
            self.follow(order);
        }
        Ok(false)
    }

    fn follow(&mut self, order: Order) {
        match order {
            Order::Begin {
                session,
                plan,
                terminal,
                joins,
            } => match self.begin(session, &plan, terminal, joins) {
                Ok(begun) => _ = self.sessions.insert(session, begun),
                Err(error) => self.guest.failed(session, 125, &tote_sys::chain(&error)),
            },
            Order::Input(number, bytes) => {
                if let Some(session) = self.sessions.get_mut(&number) {
                    session.take_input(&bytes, &mut self.guest);
                }
            }
            Order::InputEnd(number) => {
                if let Some(session) = self.sessions.get_mut(&number) {
                    session.end_input(&mut self.guest);
                }
            }
            Order::Signal(number, signal) => {
                if let Some(session) = self.sessions.get_mut(&number) {
                    session.signal(signal);
                }
            }
            Order::Resize(number, rows, columns) => {
                if let Some(session) = self.sessions.get_mut(&number) {
                    session.resize(rows, columns);
                }
            }
            // What there is room for is found at the next turn.
            Order::Room(..) | Order::PowerOff | Order::Wake(_) => {}
        }
    }

    /// Begins a process, in the namespaces of another one if it joins that.
    fn begin(
        &mut self,
        number: u16,
        plan: &[u8],
        terminal: Option<(u16, u16)>,
        joins: Option<u16>,
    ) -> Result<Session, GuestError> {
        let joined = match joins {
            None => None,
            Some(joins) => {
                let process = self.sessions.get(&joins).and_then(Session::process);
                let process = process.ok_or(GuestError::NoProcess(joins))?;
                let copy = rustix::io::fcntl_dupfd_cloexec(process, 3);
                Some(copy.map_err(GuestError::kernel("hold", "a process"))?)
            }
        };
        let asked = Asked {
            plan,
            size: terminal,
            joined,
        };
        (self.has_begun, self.tried) = (true, false);
        let spare = match self.spare.take() {
            Some(spare) => spare,
            None => Spare::fork(&mut self.sessions, None, self.errands)?,
        };
        Session::begin(number, &asked, spare)
    }

    /// Sends as much as the channel takes.
    fn write(&mut self) -> Result<(), GuestError> {
        crate::port::send(&self.port, self.guest.outgoing())
    }
}
