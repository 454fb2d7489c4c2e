//! Saving a machine whose guest is ready: what others go on from.

use crate::VmmError;
use crate::console::{Tail, last_words};
use crate::machine::Machine;
use crate::vmm::{Booted, Vmm, Wires};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tote_channel::{Event, Host};
use tote_sys::{Errno, Wait};

/// Bytes that are read of a stream at a time.
const CHUNK: usize = 4096;

/// Boots a machine, waits until its guest says that it is ready, and has the VMM write the state of its devices to the file: the memory
/// is in the template's file already. Nothing was told to the guest, and it has no device of a container's. The VMM has ended when the call returns.
///
/// # Errors
/// [`VmmError`], with the last words of the machine.
pub fn save(vmm: &dyn Vmm, machine: &Machine, state: OwnedFd) -> Result<(), VmmError> {
    save_within(crate::attend::BOOT, (vmm, machine), state)
}

/// Does so for a guest that has this time.
pub(crate) fn save_within(
    patience: Duration,
    (vmm, machine): (&dyn Vmm, &Machine),
    state: OwnedFd,
) -> Result<(), VmmError> {
    let (wires, channel, console) = Wires::pairs()?;
    // process: QEMU that makes a template
    let mut booted = vmm.boot(machine, wires)?;
    let mut saver = Saver {
        host: Host::new(),
        channel,
        console,
        last: Tail::default(),
        state: Some(state),
        begin: Instant::now(),
        patience,
    };
    let saved = loop {
        match saver.turn(booted.as_mut()) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let words = Some(booted.end()).filter(|words| !words.is_empty());
    let last = || last_words(&[words.into_iter().collect(), saver.last.lines(2)]);
    saved.map_err(|error| match error {
        VmmError::Ended { .. } => VmmError::Unsaved { last: last() },
        VmmError::Silent { seconds, .. } => VmmError::Silent {
            seconds,
            last: last(),
        },
        error => error,
    })
}

struct Saver {
    host: Host,
    channel: UnixStream,
    console: UnixStream,
    last: Tail,
    /// The file, until the VMM has it.
    state: Option<OwnedFd>,
    begin: Instant,
    patience: Duration,
}

impl Saver {
    /// Waits, and does what can be done; true once the machine is saved.
    fn turn(&mut self, booted: &mut dyn Booted) -> Result<bool, VmmError> {
        let left = self.patience.saturating_sub(self.begin.elapsed());
        let silent = || VmmError::Silent {
            seconds: self.patience.as_secs(),
            last: String::new(),
        };
        if left.is_zero() {
            return Err(silent());
        }
        let waits = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let (channel, console) = (self.channel.as_fd(), self.console.as_fd());
        let control = booted.control();
        let mut fds = vec![waits(channel), waits(console), waits(booted.ended())];
        fds.extend(control.map(waits));
        match Wait::within(left).poll(&mut fds) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(errno) => return Err(VmmError::kernel("wait for the virtual machine")(errno)),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[1] {
            self.read_console();
        }
        if ready.get(3) == Some(&true) {
            booted.advance()?;
            if booted.is_saved() {
                return Ok(true);
            }
        }
        if ready[0] && self.hears_ready()? {
            let state = self.state.take();
            let state = state.ok_or(VmmError::Qmp("the guest is ready twice".to_owned()))?;
            booted.save(state)?;
        }
        if ready[2] {
            return Err(VmmError::Ended { last: String::new() });
        }
        Ok(false)
    }

    fn read_console(&mut self) {
        let mut buffer = [0; CHUNK];
        if let Ok(length) = rustix::io::read(&self.console, &mut buffer) {
            self.last.push(&buffer[..length]);
        }
    }

    /// Reads the channel; true if the guest says that it is ready.
    fn hears_ready(&mut self) -> Result<bool, VmmError> {
        let mut buffer = [0; CHUNK];
        match rustix::io::read(&self.channel, &mut buffer) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Ok(0) | Err(_) => Err(VmmError::Ended { last: String::new() }),
            Ok(length) => {
                let events = self.host.received(&buffer[..length])?;
                Ok(events.iter().any(|event| matches!(event, Event::Ready(_))))
            }
        }
    }
}
