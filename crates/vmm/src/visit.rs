//! A visitor: has a machine that exists perform a plan in its container.

use crate::VmmError;
use crate::attend::{Attendant, Verdict, failed};
use crate::member::line;
use crate::pass;
use crate::plug::{Change, Plug};
use crate::streams::Streams;
use crate::visitors::{NAME, connect, connect_by};
use crate::vmm::Booted;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use tote_sys::Errno;

/// Runs another process in the container whose attendant has this name: has its machine perform the plan, and passes streams and
/// signals on until the end. `warn` gets lines about what the process has to do without.
#[must_use]
pub fn visit(name: &str, plan: &[u8], streams: Streams<'_>, warn: &mut dyn FnMut(String)) -> Verdict {
    speak(connect(name), plan, streams, (&mut || {}, warn))
}

/// Does what [`visit`] does outside of the sandbox: the socket belongs to its network namespace. `sent` is called when the attendant has the plan,
/// for what can be done while the guest is at work.
#[must_use]
pub fn visit_by(
    (socket, name): (OwnedFd, &str),
    plan: &[u8],
    streams: Streams<'_>,
    (sent, warn): (&mut dyn FnMut(), &mut dyn FnMut(String)),
) -> Verdict {
    speak(connect_by(socket, name), plan, streams, (sent, warn))
}

/// Has a file on the machine's spare disk, which is the standard input, and then runs a process as [`visit`] does, without input: in the
/// container of the member of this name, or in the machine's first one.
#[must_use]
pub fn bring(
    member: Option<&str>,
    plan: &[u8],
    streams: Streams<'_>,
    warn: &mut dyn FnMut(String),
) -> Verdict {
    let begun = connect(NAME).and_then(|channel| {
        if let Some(name) = member {
            let sent = pass::send(&channel, &line(name, None)?, &[]);
            sent.map_err(VmmError::kernel("name the container"))?;
        }
        Another::begin(streams, channel)
    });
    match begun {
        Ok((attendant, machine)) => attendant.bringing().attend(machine, (None, plan), warn),
        Err(error) => failed(&error, false),
    }
}

fn speak(
    channel: Result<UnixStream, VmmError>,
    plan: &[u8],
    streams: Streams<'_>,
    (sent, warn): (&mut dyn FnMut(), &mut dyn FnMut(String)),
) -> Verdict {
    let begun = channel.and_then(|channel| {
        let (mut attendant, machine) = Another::begin(streams, channel)?;
        attendant.begin_at_once(plan)?;
        Ok((attendant, machine))
    });
    sent();
    match begun {
        Ok((attendant, machine)) => attendant.attend(machine, (None, plan), warn),
        Err(error) => failed(&error, false),
    }
}

/// A machine that another process attends: it ends with the connection to that one.
#[derive(Debug)]
pub(crate) struct Another(UnixStream);

impl Another {
    /// Begins to speak to the attendant of a machine.
    pub(crate) fn begin(
        streams: Streams<'_>,
        channel: UnixStream,
    ) -> Result<(Attendant<'_>, Box<dyn Booted>), VmmError> {
        let again = channel.try_clone().map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            VmmError::kernel("hold the attendant of the virtual machine")(errno)
        })?;
        Ok((Attendant::join(streams, channel), Box::new(Self(again))))
    }
}

impl Booted for Another {
    fn control(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn ended(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn advance(&mut self) -> Result<Vec<Change>, VmmError> {
        Ok(Vec::new())
    }

    fn attach(&mut self, _: Plug) -> Result<(), VmmError> {
        Err(VmmError::Elsewhere)
    }

    fn detach(&mut self, _: &str) -> Result<(), VmmError> {
        Err(VmmError::Elsewhere)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visitors::listen;
    use std::io::Write as _;
    use std::time::Duration;
    use tote_sys::{SignalFd, SignalSet, Wait};

    /// A guest that is up, and does not begin what it is asked for, keeps its visitor for a limited time.
    #[test]
    fn a_guest_that_begins_nothing_is_given_up() {
        let name = format!("tote-vmm-test-{}-deaf", std::process::id());
        let listener = listen(&name).unwrap();
        let attendant = std::thread::spawn(move || {
            assert!(
                Wait::within(Duration::from_secs(60))
                    .readable(listener.as_fd())
                    .unwrap()
            );
            let (mut stream, _) = listener.accept().unwrap();
            let greeting = std::mem::take(tote_channel::Guest::new("6.1").outgoing());
            stream.write_all(&greeting).unwrap();
            stream
        });
        let nothing = std::fs::File::open("/dev/null").unwrap();
        let out = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        let streams = Streams {
            input: nothing.as_fd(),
            outputs: [out.as_fd(), out.as_fd()],
            signals: SignalFd::new(&SignalSet::empty()).unwrap(),
            plain: true,
            mute: true,
            patience: Duration::from_millis(200),
            visitors: None,
        };
        let verdict = visit(&name, b"the plan", streams, &mut |_| {});
        let message = verdict.message.unwrap_or_default();
        assert_eq!(verdict.code, 125);
        assert!(
            message.starts_with("the guest did not answer within"),
            "{message}"
        );
        drop(attendant.join().unwrap());
    }
}
