//! A process of the machine as the agent sees it: its worker, and the pipes between both and the host.

use crate::error::GuestError;
use crate::member::is_member;
use crate::report::Report;
use crate::spare::{Pipes, Spare};
use crate::terminal::{Terminal, pair};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use tote_channel::{End, Guest, Stream};
use tote_sys::{Errno, best_effort};

/// Bytes that are read of a pipe at a time.
const CHUNK: usize = 32 << 10;

/// Longest line of a report.
const LINE: usize = 8192;

/// Both outputs.
pub(crate) const STREAMS: [Stream; 2] = [Stream::Out, Stream::Err];

/// A process that the host asks for.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    /// Its plan in the byte form.
    pub(crate) plan: &'a [u8],
    /// Rows and columns of its terminal, if it has one.
    pub(crate) size: Option<(u16, u16)>,
    /// Pidfd of the process that it joins, if it joins one.
    pub(crate) joined: Option<OwnedFd>,
}

/// A process, from its plan to its end.
#[derive(Debug)]
pub(crate) struct Session {
    number: u16,
    reports: Option<OwnedFd>,
    /// Beginning of a report that has not come as a whole.
    line: Vec<u8>,
    input: Option<OwnedFd>,
    /// Input that the process has not read: no more than a window.
    pending: Vec<u8>,
    input_ends: bool,
    outputs: [Option<OwnedFd>; 2],
    /// The worker, for the size of its terminal.
    worker: Pid,
    /// Its terminal, whose other end is the worker's standard input: then `input` is empty.
    terminal: Option<Terminal>,
    process: Option<OwnedFd>,
    /// Signals that came before the process did.
    early: Vec<u8>,
    runs: bool,
    /// True if others may hold its outputs when it has ended: those of a container end with it.
    outlived: bool,
    end: Option<Report>,
}

impl Session {
    /// Has a worker perform the plan.
    pub(crate) fn begin(number: u16, asked: &Asked<'_>, spare: Spare) -> Result<Self, GuestError> {
        let terminal = asked.size.map(pair).transpose();
        let terminal = terminal.map_err(GuestError::kernel("make", "a terminal"))?;
        let slave = terminal.as_ref().map(|(_, (slave, _))| slave);
        spare.order(asked, slave)?;
        let Spare { pipes, worker, .. } = spare;
        let Pipes {
            input,
            output,
            errors,
            reports,
        } = pipes;
        let (terminal, input) = match terminal {
            Some((terminal, (_, master))) => {
                rustix::io::ioctl_fionbio(&master, true)
                    .map_err(GuestError::kernel("change", "a terminal"))?;
                (Some(terminal), master)
            }
            None => (None, input),
        };
        Ok(Self {
            number,
            reports: Some(reports),
            line: Vec::new(),
            input: Some(input),
            pending: Vec::new(),
            input_ends: false,
            outputs: [Some(output), Some(errors)],
            worker,
            terminal,
            process: None,
            early: Vec::new(),
            runs: false,
            outlived: asked.joined.is_some() && !is_member(asked.plan),
            end: None,
        })
    }

    /// Returns a pidfd of the process, once its program runs.
    pub(crate) fn process(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().filter(|_| self.runs).map(OwnedFd::as_fd)
    }

    /// True once its program has begun.
    pub(crate) fn runs(&self) -> bool {
        self.runs
    }

    /// Gives the terminal another size: the worker is told as `tote run` is on a host, whose terminal changes.
    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        if let Some(terminal) = &mut self.terminal {
            terminal.resize(rows, columns);
            self.tell_size();
        }
    }

    fn tell_size(&self) {
        if self.terminal.is_some() && self.runs {
            // A worker that has ended has no terminal.
            best_effort(kill_process(self.worker, Signal::WINCH));
        }
    }

    /// Returns the descriptor of the reports, until they have ended.
    pub(crate) fn reports(&self) -> Option<BorrowedFd<'_>> {
        self.reports.as_ref().map(OwnedFd::as_fd)
    }

    /// Returns the descriptor of the input, if something has to be written to it.
    pub(crate) fn waiting_input(&self) -> Option<BorrowedFd<'_>> {
        self.input
            .as_ref()
            .filter(|_| !self.pending.is_empty())
            .map(OwnedFd::as_fd)
    }

    /// Returns the descriptor of an output, if the host takes more of it.
    pub(crate) fn readable(&self, guest: &Guest, stream: Stream) -> Option<BorrowedFd<'_>> {
        let output = self.outputs[index(stream)].as_ref();
        output
            .filter(|_| guest.room(self.number, stream) > 0)
            .map(OwnedFd::as_fd)
    }

    /// Takes input of the host.
    pub(crate) fn take_input(&mut self, bytes: &[u8], guest: &mut Guest) {
        self.pending.extend_from_slice(bytes);
        self.write_input(guest);
    }

    /// Notes that the input ends after what has come of it.
    pub(crate) fn end_input(&mut self, guest: &mut Guest) {
        self.input_ends = true;
        self.write_input(guest);
    }

    /// Writes as much input as the pipe takes.
    pub(crate) fn write_input(&mut self, guest: &mut Guest) {
        while !self.pending.is_empty() {
            let written = match &self.input {
                Some(input) => rustix::io::write(input, &self.pending),
                None => Err(Errno::PIPE),
            };
            let count = match written {
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                // The process has closed its input: what comes is lost, as in a pipe.
                Err(_) => {
                    self.input = None;
                    self.pending.len()
                }
            };
            self.pending.drain(..count);
            guest.consumed(self.number, count);
        }
        // The end of a terminal would be a hangup.
        if self.input_ends && self.terminal.is_none() {
            self.input = None;
        }
    }

    /// Sends a signal to the process, as soon as there is one.
    pub(crate) fn signal(&mut self, number: u8) {
        let signal = Signal::from_named_raw(i32::from(number));
        match (&self.process, signal) {
            // A process that has ended needs no signal.
            (Some(process), Some(signal)) => best_effort(pidfd_send_signal(process, signal)),
            (None, Some(_)) if self.early.len() < 64 => self.early.push(number),
            _ => {}
        }
    }

    /// Passes on what an output has.
    pub(crate) fn read_output(&mut self, stream: Stream, guest: &mut Guest) {
        let place = &mut self.outputs[index(stream)];
        let Some(output) = place else { return };
        let mut buffer = Vec::with_capacity(guest.room(self.number, stream).min(CHUNK));
        match read_into(output, &mut buffer) {
            Ok(0) if buffer.capacity() > 0 => *place = None,
            Ok(_) => _ = guest.output(self.number, stream, &buffer),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => *place = None,
        }
    }

    /// Passes on what an output still has, as far as the host takes it, and closes it then: the worker has ended, so the process
    /// has written everything, and what it has left behind in the container goes on without a reader.
    fn finish_output(&mut self, stream: Stream, guest: &mut Guest) {
        while let Some(output) = &self.outputs[index(stream)] {
            let mut buffer = Vec::with_capacity(guest.room(self.number, stream).min(CHUNK));
            if buffer.capacity() == 0 {
                return;
            }
            match read_into(output, &mut buffer) {
                Ok(length) if length > 0 => _ = guest.output(self.number, stream, &buffer),
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => self.outputs[index(stream)] = None,
            }
        }
    }

    /// Reads reports of the worker.
    pub(crate) fn read_reports(&mut self, guest: &mut Guest) {
        let Some(reports) = &self.reports else { return };
        let mut buffer = [0; 4096];
        match rustix::io::read(reports, &mut buffer) {
            Ok(0) => self.reports = None,
            Ok(length) => self.line.extend_from_slice(&buffer[..length]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.reports = None,
        }
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            if let Some(report) = Report::parse(String::from_utf8_lossy(&line[..end]).as_ref()) {
                self.note(report, guest);
            }
        }
        self.line.truncate(LINE);
    }

    fn note(&mut self, report: Report, guest: &mut Guest) {
        match report {
            Report::Born(pid) => self.born(pid),
            Report::Runs => self.began(guest),
            Report::Began(pid) => {
                self.born(pid);
                self.began(guest);
            }
            Report::Warning(text) => guest.warn(self.number, &text),
            // The end of the worker itself would say nothing more.
            end @ (Report::Failed(..) | Report::Ended(_)) => (self.end, self.reports) = (Some(end), None),
        }
    }

    fn born(&mut self, pid: i32) {
        let pid = Pid::from_raw(pid);
        // A process that has ended already needs no signals.
        self.process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        for number in std::mem::take(&mut self.early) {
            self.signal(number);
        }
    }

    fn began(&mut self, guest: &mut Guest) {
        self.runs = true;
        self.tell_size();
        guest.runs(self.number);
    }

    /// True if the process has ended, and everything that it has written is on its way: the host is told then.
    pub(crate) fn tell_end(&mut self, guest: &mut Guest) -> bool {
        if self.reports.is_none() && self.outlived {
            STREAMS
                .into_iter()
                .for_each(|stream| self.finish_output(stream, guest));
        }
        if self.reports.is_some() || self.outputs.iter().any(Option::is_some) {
            return false;
        }
        if !self.outlived {
            // The host ends the machine then. What is still in memory would not be on the disks.
            rustix::fs::sync();
        }
        match &self.end {
            Some(Report::Ended(end)) => guest.ended(self.number, *end),
            Some(Report::Failed(code, text)) => guest.failed(self.number, *code, text),
            // The kernel has killed the worker, and with it the process.
            _ if self.runs => guest.ended(self.number, End::Signal(9)),
            _ => guest.failed(
                self.number,
                125,
                "the guest has killed the process that starts the container",
            ),
        }
        true
    }
}

/// Reads as much as the buffer has room for. Memory that gets nothing is not touched: after a fork, each page that is takes a fault.
fn read_into(from: &OwnedFd, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
    rustix::io::read(from, rustix::buffer::spare_capacity(buffer))
}

fn index(stream: Stream) -> usize {
    usize::from(stream.number()) - 1
}
