//! Descriptors that the attendant waits for.

use super::Attendant;
use crate::VmmError;
use crate::visitors::Call;
use crate::vmm::Booted;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsFd as _;
use tote_sys::{Endless, Errno, Wait};

/// Descriptors that are ready.
#[derive(Clone, Debug, Default)]
pub(super) struct Ready {
    pub(super) channel: bool,
    pub(super) console: bool,
    pub(super) control: bool,
    pub(super) server: bool,
    pub(super) ended: bool,
    pub(super) signals: bool,
    pub(super) input: bool,
    pub(super) outputs: [bool; 2],
    pub(super) calls: Vec<Call>,
    pub(super) bringer: bool,
}

impl Attendant<'_> {
    /// True while the guest has to say something within its time: that it is up, and to a visitor that it has begun what that one asks for.
    pub(super) fn is_awaited(&self) -> bool {
        !self.host.is_ready() || (self.joins.is_some() && !self.runs)
    }

    /// Waits until something is ready, or the time of the guest is over.
    pub(super) fn wait(&mut self, booted: &dyn Booted) -> Result<Ready, VmmError> {
        let mut channel = PollFlags::IN;
        channel.set(PollFlags::OUT, !self.host.outgoing().is_empty());
        let room = self.session.map_or(0, |session| self.host.room(session));
        let wants_input = room > 0 && !self.input_ended;
        let [out, err] = self.streams.outputs;
        let candidates = [
            // The kernel looks at one after another, and a visitor has one connection for both: words that come meanwhile are to be seen with the end.
            Some(PollFd::from_borrowed_fd(booted.ended(), PollFlags::IN)),
            (!self.channel_ended).then(|| PollFd::from_borrowed_fd(self.channel.as_fd(), channel)),
            self.console
                .as_ref()
                .map(|console| PollFd::from_borrowed_fd(console.as_fd(), PollFlags::IN)),
            booted
                .control()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
            self.server
                .as_ref()
                .map(|server| PollFd::from_borrowed_fd(server.errors(), PollFlags::IN)),
            Some(PollFd::new(&self.streams.signals, PollFlags::IN)),
            wants_input.then(|| PollFd::from_borrowed_fd(self.streams.input, PollFlags::IN)),
            (!self.waiting[0].is_empty()).then(|| PollFd::from_borrowed_fd(out, PollFlags::OUT)),
            (!self.waiting[1].is_empty()).then(|| PollFd::from_borrowed_fd(err, PollFlags::OUT)),
            self.bringer
                .as_ref()
                .filter(|_| self.host.is_ready() && self.rehearsal.is_none())
                .and_then(|bringer| Some(PollFd::from_borrowed_fd(bringer.comes()?, PollFlags::IN))),
        ];
        let asked = candidates.each_ref().map(Option::is_some);
        let mut fds: Vec<_> = candidates.into_iter().flatten().collect();
        // The attendant hears early visitors once the container has begun.
        let waits = if self.runs {
            self.visitors.waits()
        } else {
            Vec::new()
        };
        fds.extend(
            waits
                .iter()
                .map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)),
        );
        let left = self.patience.saturating_sub(self.begin.elapsed());
        match Wait::within_or(self.is_awaited().then_some(left), Endless::Program).poll(&mut fds) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(errno) => return Err(VmmError::kernel("wait for the virtual machine")(errno)),
        }
        let mut found = fds.iter().map(|fd| !fd.revents().is_empty());
        let [
            ended,
            channel,
            console,
            control,
            server,
            signals,
            input,
            out,
            err,
            bringer,
        ] = asked.map(|asked| asked && found.next() == Some(true));
        let calls = waits.iter().filter(|_| found.next() == Some(true));
        Ok(Ready {
            channel,
            console,
            control,
            server,
            ended,
            signals,
            input,
            outputs: [out, err],
            calls: calls.map(|(call, ..)| *call).collect(),
            bringer,
        })
    }
}
