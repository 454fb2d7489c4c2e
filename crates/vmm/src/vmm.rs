//! The few functions of a virtual machine monitor.

use crate::plug::{Change, Plug};
use crate::{Machine, VmmError};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::fmt;
use std::os::unix::net::UnixStream;
use tote_sys::Errno;

/// Ends of a machine's lines; the other ends are the attendant's.
#[derive(Debug)]
pub struct Wires {
    /// The channel to process 1.
    pub channel: UnixStream,
    /// The console of the kernel: text for people.
    pub console: UnixStream,
    /// The server of shared directories, if there are any.
    pub shares: Option<UnixStream>,
}

impl Wires {
    /// Makes the lines that each machine has; returns the other ends of channel and console as well.
    pub(crate) fn pairs() -> Result<(Self, UnixStream, UnixStream), VmmError> {
        let pair = || {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            Ok::<_, std::io::Error>((ours, theirs))
        };
        let make = || Ok::<_, std::io::Error>((pair()?, pair()?));
        let ((channel, theirs), (console, console_theirs)) = make().map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            VmmError::kernel("make sockets for the virtual machine")(errno)
        })?;
        let wires = Self {
            channel: theirs,
            console: console_theirs,
            shares: None,
        };
        Ok((wires, channel, console))
    }
}

/// A program that runs machines.
pub trait Vmm: fmt::Debug {
    /// Starts a machine, and returns as soon as it exists; the guest may take longer.
    ///
    /// # Errors
    /// [`VmmError`] if the machine does not begin.
    fn boot(&self, machine: &Machine, wires: Wires) -> Result<Box<dyn Booted>, VmmError>;
}

/// A machine.
pub trait Booted: fmt::Debug {
    /// Returns a descriptor that is readable if [`Booted::advance`] has something to do.
    fn control(&self) -> Option<BorrowedFd<'_>>;

    /// Returns a descriptor that is readable once the machine has ended.
    fn ended(&self) -> BorrowedFd<'_>;

    /// Takes what the VMM has to say, and answers; returns what has become of disks.
    ///
    /// # Errors
    /// [`VmmError`] if the machine cannot run.
    fn advance(&mut self) -> Result<Vec<Change>, VmmError>;

    /// Gives a machine that grows another disk; [`Booted::advance`] tells when it is there.
    ///
    /// # Errors
    /// [`VmmError`] if the VMM cannot be told.
    fn attach(&mut self, plug: Plug) -> Result<(), VmmError>;

    /// Takes the disk with this serial number away; [`Booted::advance`] tells when it is gone.
    ///
    /// # Errors
    /// [`VmmError`] if the VMM cannot be told.
    fn detach(&mut self, serial: &str) -> Result<(), VmmError>;

    /// Begins to put a file in the place of what a disk has, read-only; [`Booted::replaced`] tells of the end.
    ///
    /// # Errors
    /// [`VmmError`] if the VMM cannot be asked.
    fn replace(&mut self, serial: &str, file: OwnedFd) -> Result<(), VmmError>;

    /// Returns how [`Booted::replace`] has ended, once.
    fn replaced(&mut self) -> Option<Result<(), VmmError>>;

    /// True once the guest runs, or goes on.
    fn runs(&self) -> bool {
        true
    }

    /// Has the machine saved that began in order to be, with the state of its devices in this file. It stands still from then on.
    ///
    /// # Errors
    /// [`VmmError`] if the VMM does not listen.
    fn save(&mut self, state: OwnedFd) -> Result<(), VmmError> {
        drop(state);
        Err(VmmError::kernel("save the machine")(Errno::OPNOTSUPP))
    }

    /// True once the machine is saved.
    fn is_saved(&self) -> bool {
        false
    }

    /// Ends the machine at once, and returns the last words of the VMM.
    fn end(&mut self) -> String;
}
