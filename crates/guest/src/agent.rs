//! The loop of process 1.

use crate::entrant::{self, Outputs};
use crate::error::GuestError;
use crate::session::{Asked, STREAMS, Session};
use crate::spare::Spare;
use crate::worker::Errands;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::{WaitOptions, wait};
use std::collections::BTreeMap;
use tote_channel::{Guest, Order, Stream};
use tote_sys::{Errno, ExitStatus};

/// Bytes that are read of the channel at a time: the driver of the port returns no more.
const CHUNK: usize = 4096;

/// Time without work in which the next worker is made.
const QUIET: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// Something that a descriptor is ready for.
#[derive(Clone, Copy, Debug)]
enum Work {
    Channel,
    Process,
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
        outputs: None,
        is_tired: false,
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
    /// Pipes of the next process without a worker.
    outputs: Option<Outputs>,
    /// True if pages of this process have been left to another one as well since it last had nothing to do.
    is_tired: bool,
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
                Work::Process | Work::Reports | Work::Input | Work::Output(_) => self.advance(number, work),
            }
        }
        self.tell()?;
        // A process that is about to begin is not to share the processor with that.
        let mut entrants = self.sessions.values().filter_map(Session::entrant);
        if entrants.all(|entrant| entrant.moment().is_none()) && self.reap() {
            self.tell()?;
        }
        Ok(false)
    }

    /// Tells the host of ends, and everything else that it is to know.
    fn tell(&mut self) -> Result<(), GuestError> {
        let guest = &mut self.guest;
        self.sessions.retain(|_, session| !session.tell_end(guest));
        crate::port::send(&self.port, self.guest.outgoing())
    }

    /// Reaps workers, and orphans of what containers have left; true if the end of a process is news for the host.
    fn reap(&mut self) -> bool {
        let mut is_news = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let status = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => ExitStatus::Code(code),
                (None, signal) => ExitStatus::Signal(signal.unwrap_or_default()),
            };
            let guest = &mut self.guest;
            let mut sessions = self.sessions.values_mut();
            is_news |= sessions.any(|session| session.reaped(pid, status, guest));
        }
        is_news
    }

    fn advance(&mut self, number: u16, work: Work) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        match work {
            Work::Reports => session.read_reports(&mut self.guest),
            Work::Input => session.write_input(&mut self.guest),
            Work::Output(stream) => session.read_output(stream, &mut self.guest),
            Work::Process => session.end_process(&mut self.guest),
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
            let entrant = session.entrant();
            let process = entrant.map(|entrant| (Work::Process, entrant.process(), PollFlags::IN));
            let input = session
                .waiting_input()
                .map(|fd| (Work::Input, fd, PollFlags::OUT));
            let outputs = STREAMS.into_iter().filter_map(readable);
            for (work, fd, flags) in outputs.chain(process).chain(reports).chain(input) {
                works.push((*number, work));
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        }
        // Before a container runs, no process can join it; and one that begins is not to share the processor.
        let is_quiet = self.has_begun && self.sessions.values().all(Session::runs);
        let has_work = self.is_tired || (self.spare.is_none() && !self.tried);
        let quiet = (is_quiet && has_work).then_some(QUIET);
        let moments = self
            .sessions
            .values()
            .filter_map(|session| session.entrant()?.moment());
        let moment = moments.min().and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, moment.as_ref().or(quiet.as_ref())) {
            Ok(0) if moment.is_some() => return Ok(Vec::new()),
            Ok(0) => {
                drop(fds);
                self.rest();
                return Ok(Vec::new());
            }
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(errno) => return Err(GuestError::kernel("wait for", "the host")(errno)),
        }
        let ready = fds.iter().zip(works).filter(|(fd, _)| !fd.revents().is_empty());
        Ok(ready.map(|(_, work)| work).collect())
    }

    /// Does what the next process would have to wait for.
    fn rest(&mut self) {
        if self.spare.is_none() {
            // The worker is not to have them.
            self.outputs = None;
            // Without memory for it, the next process has another one made.
            self.tried = true;
            self.spare = Spare::fork(&mut self.sessions, None, self.errands).ok();
        }
        if self.outputs.is_none() {
            self.outputs = Outputs::new().ok();
        }
        tote_sys::own_pages();
        self.is_tired = false;
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
                Err((code, reason)) => self.guest.failed(session, code, &reason),
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

    /// Begins a process, in the namespaces of another one if it joins that; an error has its exit code.
    fn begin(
        &mut self,
        number: u16,
        plan: &[u8],
        terminal: Option<(u16, u16)>,
        joins: Option<u16>,
    ) -> Result<Session, (u8, String)> {
        let failed = |error: GuestError| (125, tote_sys::chain(&error));
        let joined = joins
            .map(|joins| self.joined(joins))
            .transpose()
            .map_err(failed)?;
        (self.has_begun, self.tried) = (true, false);
        let alone = joined.as_ref().filter(|_| terminal.is_none());
        if let Some(plan) = alone.and_then(|joined| entrant::plan(plan, joined)) {
            self.is_tired = true;
            return Session::enter(number, (plan, self.outputs.take()), &mut self.guest);
        }
        let asked = Asked {
            plan,
            size: terminal,
            joined,
        };
        // The worker is not to have them.
        self.outputs = None;
        let spare = match self.spare.take() {
            Some(spare) => spare,
            None => Spare::fork(&mut self.sessions, None, self.errands).map_err(failed)?,
        };
        Session::begin(number, &asked, spare).map_err(failed)
    }

    /// Returns a pidfd of the process that another one joins.
    fn joined(&self, joins: u16) -> Result<OwnedFd, GuestError> {
        let process = self.sessions.get(&joins).and_then(Session::process);
        let process = process.ok_or(GuestError::NoProcess(joins))?;
        let copy = rustix::io::fcntl_dupfd_cloexec(process, 3);
        copy.map_err(GuestError::kernel("hold", "a process"))
    }
}
