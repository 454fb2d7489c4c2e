//! The loop: one poll(2) in which the monitor sleeps until something happens.

use crate::clients::{Client, Clients, Heard, MOST_CLIENTS};
use crate::frame::Size;
use crate::input::Input;
use crate::log::LogFile;
use crate::output::{Kind, Output, Quota};
use crate::{Chores, Container, Ended, Exit, Monitor, MonitorError, Verdict};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::Signal;
use rustix::termios::{Winsize, tcsetwinsize};
use std::time::{Duration, Instant};
use tote_sys::{Endless, Errno, ExitStatus, Footprint, Guardian, Wait, best_effort};

/// Time after the last byte until the buffers are given back.
const QUIET: Duration = Duration::from_secs(1);

/// Descriptors of the container, while it runs.
struct Running<'a> {
    pidfd: BorrowedFd<'a>,
    guardian: Option<&'a Guardian>,
    outputs: [Option<Output>; 2],
    input: Input,
    console: Option<OwnedFd>,
}

impl<'a> Running<'a> {
    fn new(container: Container<'a>) -> Result<Self, Errno> {
        let Container {
            pidfd,
            guardian,
            stdin,
            stdout,
            stderr,
            console,
        } = container;
        let copy = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        let stdout = console.as_ref().map(copy).transpose()?.or(stdout);
        let stdin = console.as_ref().map(copy).transpose()?.or(stdin);
        let output = |kind, fd: Option<OwnedFd>| fd.map(|fd| Output::new(kind, fd)).transpose();
        Ok(Self {
            pidfd,
            guardian,
            outputs: [output(Kind::Stdout, stdout)?, output(Kind::Stderr, stderr)?],
            input: Input::new(stdin)?,
            console,
        })
    }
}

/// Result of poll(2).
#[derive(Default)]
struct Ready {
    signal: bool,
    ended: bool,
    chore: bool,
    listener: bool,
    input: bool,
    outputs: [bool; 2],
}

/// Wait of the monitor: for a container's end, or for a moment without a container.
pub(crate) struct Watch<'m, 'a> {
    monitor: &'m mut Monitor,
    running: Option<Running<'a>>,
    /// Events of each client from poll(2), in order.
    heard: [PollFlags; MOST_CLIENTS],
    /// Clients that have told that the container is in other networks.
    telling: Vec<Client>,
    asked_to_stop: bool,
    kill_at: Option<Instant>,
    rest_at: Option<Instant>,
    quota: Quota,
    /// True if everything was given back that is not needed while nothing happens.
    rests: bool,
}

impl<'m, 'a> Watch<'m, 'a> {
    pub(crate) fn new(
        monitor: &'m mut Monitor,
        container: Option<Container<'a>>,
    ) -> Result<Self, MonitorError> {
        let prepare = |source| MonitorError::Prepare {
            attempt: "use its output",
            source,
        };
        Ok(Self {
            running: container.map(Running::new).transpose().map_err(prepare)?,
            quota: Quota::new(monitor.settings.output_limit),
            monitor,
            heard: [PollFlags::empty(); MOST_CLIENTS],
            telling: Vec::new(),
            asked_to_stop: false,
            kill_at: None,
            rest_at: Some(Instant::now() + QUIET),
            rests: false,
        })
    }

    /// Waits until the container has ended. It is reaped then, and the last of its output is in the log and with the
    /// clients.
    pub(crate) fn through_its_end(mut self, chores: &mut dyn Chores) -> Result<Ended, MonitorError> {
        loop {
            let ready = self.wait(chores, None)?;
            if self.step(&ready, chores)? || ready.ended {
                break;
            }
        }
        self.drain();
        let exit = match &self.running {
            Some(running) => reap(running)?,
            None => return Err(MonitorError::Watch(Errno::CHILD)),
        };
        Ok(Ended {
            exit,
            asked_to_stop: self.asked_to_stop,
            output_over: self.quota.is_exceeded(),
            lost_entries: self.monitor.log.as_ref().map_or(0, LogFile::lost),
        })
    }

    /// Waits until that moment, or until this process is asked to end. True if the moment has come.
    pub(crate) fn until(mut self, moment: Instant, chores: &mut dyn Chores) -> Result<bool, MonitorError> {
        while Instant::now() < moment {
            let ready = self.wait(chores, Some(moment))?;
            if self.step(&ready, chores)? || self.asked_to_stop {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Handles all events except the end of the container. True if the caller's chores end the wait.
    fn step(&mut self, ready: &Ready, chores: &mut dyn Chores) -> Result<bool, MonitorError> {
        let now = Instant::now();
        if ready.signal {
            self.signals(now, chores)?;
        }
        self.outputs(ready, now);
        self.clients(ready, now);
        if !self.telling.is_empty() {
            let done = chores.networks_changed();
            self.telling
                .drain(..)
                .filter(|_| done)
                .for_each(|client| client.done());
        }
        if let Some(log) = &mut self.monitor.log {
            log.flush();
        }
        let over = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if over(self.kill_at) {
            self.kill_at = None;
            self.signal(Signal::KILL.as_raw());
        }
        if over(self.rest_at) {
            self.rest_at = None;
            self.rest();
        }
        if ready.chore || over(chores.due()) {
            match chores.perform(now) {
                Verdict::Live => {}
                Verdict::Kill => {
                    self.signal(Signal::KILL.as_raw());
                    return Ok(self.running.is_none());
                }
                Verdict::End => self.end(now),
                Verdict::Stop => self.stop(now, chores),
            }
        }
        Ok(false)
    }

    fn wait(&mut self, chores: &dyn Chores, moment: Option<Instant>) -> Result<Ready, MonitorError> {
        let now = Instant::now();
        let Monitor { clients, signals, .. } = &*self.monitor;
        let own = [moment, chores.due(), self.kill_at, self.rest_at];
        let due = own.into_iter().chain([clients.deadline(now)]).flatten().min();
        let running = self.running.as_ref();
        let output = |number: usize| running.and_then(|running| running.outputs[number].as_ref());
        let [first_chore, second_chore, third_chore] = chores.waits_for();
        let wanted = [
            (Some(signals.as_fd()), PollFlags::IN),
            (running.map(|running| running.pidfd), PollFlags::IN),
            (first_chore, PollFlags::IN),
            (second_chore, PollFlags::IN),
            (third_chore, PollFlags::IN),
            (clients.listener(now), PollFlags::IN),
            (running.and_then(|running| running.input.wanted()), PollFlags::OUT),
            (output(0).and_then(Output::wanted), PollFlags::IN),
            (output(1).and_then(Output::wanted), PollFlags::IN),
        ];
        // Unused places are not passed to poll(2); the values in them have no meaning.
        let mut fds: [_; 9 + MOST_CLIENTS] =
            std::array::from_fn(|_| PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::empty()));
        let room = running.is_some_and(|running| running.input.has_room());
        let fixed = wanted
            .into_iter()
            .map(|(fd, flags)| Some(PollFd::from_borrowed_fd(fd?, flags)));
        let mut length = 0;
        for fd in fixed.chain(clients.poll_fds(room)).flatten() {
            fds[length] = fd;
            length += 1;
        }
        let wait = Wait::until_or(due, Endless::Program);
        let rests = std::mem::take(&mut self.rests);
        let result = match self.monitor.footprint.as_ref().filter(|_| rests) {
            Some(footprint) => footprint.sleep(&mut fds[..length], wait),
            None => wait.poll(&mut fds[..length]),
        };
        match result {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(MonitorError::Watch(errno)),
        }
        let mut said = fds[..length].iter().map(PollFd::revents);
        let mut next = |waited: bool| {
            let said = if waited { said.next() } else { None };
            said.unwrap_or(PollFlags::empty())
        };
        let [
            signal,
            ended,
            first_chore,
            second_chore,
            third_chore,
            listener,
            input,
            stdout,
            stderr,
        ] = wanted.map(|(fd, _)| !next(fd.is_some()).is_empty());
        for (waited, heard) in clients.poll_fds(room).zip(&mut self.heard) {
            *heard = next(waited.is_some());
        }
        Ok(Ready {
            signal,
            ended,
            chore: first_chore || second_chore || third_chore,
            listener,
            input,
            outputs: [stdout, stderr],
        })
    }

    fn signals(&mut self, now: Instant, chores: &mut dyn Chores) -> Result<(), MonitorError> {
        while self
            .monitor
            .signals
            .next()
            .map_err(MonitorError::Watch)?
            .is_some()
        {
            if self.asked_to_stop {
                self.signal(Signal::KILL.as_raw());
            } else {
                self.stop(now, chores);
            }
        }
        Ok(())
    }

    /// Ends the container for good.
    fn stop(&mut self, now: Instant, chores: &mut dyn Chores) {
        self.asked_to_stop = true;
        chores.asked_to_stop();
        self.end(now);
    }

    /// Sends the stop signal, and sets the time at which the container is killed.
    fn end(&mut self, now: Instant) {
        self.signal(self.monitor.settings.stop_signal);
        self.kill_at = self.monitor.settings.stop_timeout.map(|timeout| now + timeout);
    }

    fn signal(&self, signo: i32) {
        if let Some(running) = &self.running {
            // A process that has just ended needs no signal.
            best_effort(tote_sys::send_signal(running.pidfd, signo));
        }
    }

    fn outputs(&mut self, ready: &Ready, now: Instant) {
        let Some(running) = &mut self.running else { return };
        let Monitor { clients, log, .. } = &mut *self.monitor;
        for (output, ready) in running.outputs.iter_mut().zip(ready.outputs) {
            let Some(output) = output else { continue };
            if ready && output.read(&mut self.quota, log.as_mut()) {
                self.rest_at = Some(now + QUIET);
                if !clients.send(output.kind, output.chunk(), now) {
                    output.release();
                }
            }
        }
        if self.quota.is_exceeded() {
            self.signal(Signal::KILL.as_raw());
        }
    }

    fn clients(&mut self, ready: &Ready, now: Instant) {
        if let Some(running) = self.running.as_mut().filter(|_| ready.input) {
            running.input.flush();
        }
        // The order is from the last to the first, because removing a client moves the last one to its place.
        for place in (0..self.monitor.clients.len()).rev() {
            let flags = self.heard[place];
            if flags.intersects(PollFlags::HUP | PollFlags::ERR) {
                self.monitor.clients.closed(place);
            }
            if flags.contains(PollFlags::IN) {
                self.hear(place, now);
            }
        }
        while let Some(place) = self.monitor.clients.overdue(now) {
            self.drop_client(place);
        }
        if let Some(running) = &mut self.running {
            let clients = &mut self.monitor.clients;
            for output in running.outputs.iter_mut().flatten() {
                if !output.chunk().is_empty() && !clients.resend(output.kind, output.chunk(), now) {
                    output.release();
                }
            }
        }
        if ready.listener {
            self.monitor.clients.accept(now);
        }
    }

    fn hear(&mut self, place: usize, now: Instant) {
        let input = self.running.as_mut().map(|running| &mut running.input);
        let input = input.filter(|input| input.has_room());
        match self
            .monitor
            .clients
            .hear(place, input.map(|input| &mut *input.buffer))
        {
            Heard::Nothing => {}
            Heard::Size(size) => self.resize(size),
            Heard::Input(length) => {
                self.rest_at = Some(now + QUIET);
                if let Some(running) = &mut self.running {
                    running.input.take(length);
                }
            }
            Heard::EndOfInput => self.end_input(),
            Heard::Networks => self.telling.push(self.monitor.clients.remove(place)),
            Heard::Gone => self.drop_client(place),
        }
    }

    fn drop_client(&mut self, place: usize) {
        if self.monitor.clients.remove(place).sends_input() {
            self.end_input();
        }
    }

    /// Ends input after the first client, docker's `StdinOnce`. The input of a terminal has no end.
    fn end_input(&mut self) {
        if let Some(running) = self
            .running
            .as_mut()
            .filter(|running| self.monitor.settings.stdin_once && running.console.is_none())
        {
            running.input.end();
        }
    }

    fn resize(&self, (ws_row, ws_col): Size) {
        let size = Winsize {
            ws_row,
            ws_col,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        if let Some(console) = self.running.as_ref().and_then(|running| running.console.as_ref()) {
            // A console that is gone has no size.
            best_effort(tcsetwinsize(console, size));
        }
    }

    /// Gives the memory of empty buffers back.
    fn rest(&mut self) {
        if let Some(running) = &mut self.running {
            running.outputs.iter_mut().flatten().for_each(Output::rest);
            running.input.rest();
        }
        if let Some(log) = &mut self.monitor.log {
            log.rest();
        }
        self.monitor.clients.rest();
        let footprint = self.monitor.footprint.get_or_insert_with(Footprint::new);
        footprint.trim();
        self.rests = true;
    }

    /// Passes on the rest in the container's pipes. A client that does not take it within its patience is cut off.
    fn drain(&mut self) {
        let Some(running) = &mut self.running else { return };
        let Monitor {
            clients,
            log,
            settings,
            ..
        } = &mut *self.monitor;
        clients.widen();
        let patience = Instant::now() + settings.patience;
        for output in running.outputs.iter_mut().flatten() {
            let mut left = output.capacity();
            loop {
                while !output.chunk().is_empty() && clients.resend(output.kind, output.chunk(), patience) {
                    wait_for(clients, patience);
                }
                output.release();
                if left == 0 || !output.read(&mut self.quota, log.as_mut()) {
                    break;
                }
                left = left.saturating_sub(output.chunk().len());
                clients.send(output.kind, output.chunk(), patience);
            }
            output.close(log.as_mut());
        }
        if let Some(log) = log {
            log.flush();
        }
    }
}

/// Waits until a client that has not received everything takes more, or is gone; drops such clients when that moment
/// has come.
fn wait_for(clients: &mut Clients, until: Instant) {
    let left = until.saturating_duration_since(Instant::now());
    let mut fds: Vec<_> = clients.owed_fds().collect();
    let result = Wait::within(left).poll(&mut fds);
    drop(fds);
    if left.is_zero() || result.is_err_and(|errno| errno != Errno::INTR) {
        clients.drop_owed();
    }
}

fn reap(running: &Running<'_>) -> Result<Exit, MonitorError> {
    let status = match running.guardian {
        Some(guardian) => guardian.reap(),
        None => ExitStatus::of(running.pidfd).map_err(MonitorError::Watch)?,
    };
    Ok(status.into())
}
