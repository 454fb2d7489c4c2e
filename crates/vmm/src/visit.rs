//! A visitor: has a machine that exists perform a plan in its container.

use crate::VmmError;
use crate::attend::{Attendant, Verdict, failed};
use crate::streams::Streams;
use crate::visitors::{connect, connect_by};
use crate::vmm::Booted;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Runs another process in the container of this sandbox's machine: has it perform the plan, and passes streams and signals on
/// until the end. `warn` gets lines about what the process has to do without.
#[must_use]
pub fn visit(plan: &[u8], streams: Streams<'_>, warn: &mut dyn FnMut(String)) -> Verdict {
    match connect().and_then(|channel| begin(channel, streams)) {
        Ok((attendant, machine)) => attendant.attend(machine, (None, plan), warn),
        Err(error) => failed(&error, false),
    }
}

/// Does what [`visit`] does outside of the sandbox: the socket belongs to its network namespace.
#[must_use]
pub fn visit_by(socket: OwnedFd, plan: &[u8], streams: Streams<'_>, warn: &mut dyn FnMut(String)) -> Verdict {
    match connect_by(socket).and_then(|channel| begin(channel, streams)) {
        Ok((attendant, machine)) => attendant.attend(machine, (None, plan), warn),
        Err(error) => failed(&error, false),
    }
}

/// Has a file on the machine's spare disk, which is the standard input, and then runs a process as [`visit`] does, without input.
#[must_use]
pub fn bring(plan: &[u8], streams: Streams<'_>, warn: &mut dyn FnMut(String)) -> Verdict {
    match connect().and_then(|channel| begin(channel, streams)) {
        Ok((attendant, machine)) => attendant.bringing().attend(machine, (None, plan), warn),
        Err(error) => failed(&error, false),
    }
}

fn begin(channel: UnixStream, streams: Streams<'_>) -> Result<(Attendant<'_>, Box<dyn Booted>), VmmError> {
    let again = channel.try_clone().map_err(|error| {
        let errno = tote_sys::Errno::from_io_error(&error).unwrap_or(tote_sys::Errno::IO);
        VmmError::kernel("hold the attendant of the virtual machine")(errno)
    })?;
    Ok((Attendant::join(streams, channel), Box::new(Another(again))))
}

/// A machine that another process attends: it ends with the connection to that one.
#[derive(Debug)]
struct Another(UnixStream);

impl Booted for Another {
    fn control(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn ended(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn advance(&mut self) -> Result<(), VmmError> {
        Ok(())
    }

    fn replace(&mut self, _: &str, _: OwnedFd) -> Result<(), VmmError> {
        Err(VmmError::Elsewhere)
    }

    fn replaced(&mut self) -> Option<Result<(), VmmError>> {
        None
    }

    fn end(&mut self) -> String {
        String::new()
    }
}
