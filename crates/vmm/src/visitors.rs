//! Visitors: processes of tote in the same sandbox, each of which has the guest perform a plan in the container.
//!
//! A visitor speaks to the attendant as the attendant does to the guest, by the messages of `channel`. So the windows of both
//! conversations are the same, and what the attendant passes on it has room for.

use crate::VmmError;
use crate::exchange::Exchange;
use crate::machine::Spare;
use crate::plug::Change;
use crate::visitor::{Scene, Visitor};
use crate::vmm::Booted;
use rustix::event::PollFlags;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::collections::BTreeMap;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};
use tote_channel::{Event, Host, MAX_SESSIONS, Session};
use tote_sys::{Errno, Wait};

/// Name of the attendant's socket in the abstract namespace: it is in the sandbox's network namespace, which no other container shares
/// but those of the same machine. Their attendants have names of their own.
pub const NAME: &str = "tote-vm";

/// Attempt of a visitor.
const REACH: &str = "reach the attendant of the virtual machine";

/// Time in which an attendant that has just been started begins to listen.
const MOMENT: Duration = Duration::from_secs(5);

/// Time between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(1);

/// Returns the socket on which an attendant of this name hears of visitors.
///
/// # Errors
/// [`VmmError::Kernel`].
pub fn listen(name: &str) -> Result<UnixListener, VmmError> {
    let listener = || {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        listener.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(listener)
    };
    listener().map_err(failed("listen for commands"))
}

/// Connects to the attendant of this name, in this network namespace.
pub(crate) fn connect(name: &str) -> Result<UnixStream, VmmError> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    connect_by(socket.map_err(VmmError::kernel(REACH))?, name)
}

/// Connects to the attendant of this name, in the network namespace to which the socket belongs.
pub(crate) fn connect_by(socket: OwnedFd, name: &str) -> Result<UnixStream, VmmError> {
    let connected = reach(&socket, name.as_bytes()).and_then(|()| rustix::io::ioctl_fionbio(&socket, true));
    connected.map_err(VmmError::kernel(REACH))?;
    Ok(socket.into())
}

/// Connects to that name, at which an attendant may listen only in a moment: a container counts as started when the attendant begins.
pub(crate) fn reach(socket: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let address = SocketAddrUnix::new_abstract_name(name)?;
    let begin = Instant::now();
    loop {
        match Wait::within(MOMENT).connect(socket, &address) {
            Err(Errno::CONNREFUSED) if begin.elapsed() < MOMENT => _ = Wait::within(PAUSE).poll(&mut []),
            done => return done,
        }
    }
}

fn failed(attempt: &'static str) -> impl FnOnce(std::io::Error) -> VmmError {
    move |error| VmmError::kernel(attempt)(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// All visitors of a machine.
#[derive(Debug)]
pub(crate) struct Visitors {
    listener: Option<UnixListener>,
    all: BTreeMap<u32, Visitor>,
    last: u32,
    /// Release of the guest's kernel, once it is up.
    kernel: String,
    exchange: Exchange,
}

/// Something that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A visitor has come.
    Came,
    /// The one of this number has something to say, or can be told something.
    Speaks(u32),
}

impl Visitors {
    pub(crate) fn new(listener: Option<UnixListener>) -> Self {
        Self {
            listener,
            all: BTreeMap::new(),
            last: 0,
            kernel: String::new(),
            exchange: Exchange::default(),
        }
    }

    /// Takes a spare disk, for files that visitors bring.
    pub(crate) fn have(&mut self, spare: Option<Spare>) {
        self.exchange = Exchange::of(spare);
    }

    /// Puts the file of a visitor on the spare disk, as far as the guest and the VMM are ready.
    pub(crate) fn exchange(&mut self, booted: &mut dyn Booted, host: &mut Host) {
        let Some((session, done)) = self.exchange.advance(booted, host) else {
            return;
        };
        if let Some(visitor) = of(&mut self.all, session) {
            let event = match done {
                Ok(()) => Event::Runs(session),
                Err(reason) => Event::Failed(session, 126, reason),
            };
            visitor.tell(event, session);
        }
    }

    /// Returns what to wait for.
    pub(crate) fn waits(&self) -> Vec<(Call, BorrowedFd<'_>, PollFlags)> {
        let is_full = self.all.len() >= MAX_SESSIONS;
        let listener = self.listener.as_ref().filter(|_| !is_full);
        let came = listener.map(|listener| (Call::Came, listener.as_fd(), PollFlags::IN));
        // A new one may bring disks that another one is about to give back.
        let leaves = self.all.values().any(|visitor| visitor.stream.is_none());
        let speaks = self.all.iter().filter_map(|(number, visitor)| {
            let stream = visitor.stream.as_ref().filter(|_| !leaves || !visitor.is_new())?;
            let waits = visitor.guest.has_outgoing();
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, waits);
            Some((Call::Speaks(*number), stream.as_fd(), flags))
        });
        came.into_iter().chain(speaks).collect()
    }

    /// True if disks of a container may come or go.
    pub(crate) fn has_members(&self) -> bool {
        self.all.values().any(|visitor| visitor.member.is_some())
    }

    /// Notes the release of the guest's kernel, which visitors are told.
    pub(crate) fn kernel(&mut self, release: &str) {
        release.clone_into(&mut self.kernel);
    }

    /// Does what a visitor asks for.
    pub(crate) fn serve(
        &mut self,
        call: Call,
        (host, container): (&mut Host, Session),
        machine: &mut dyn Booted,
    ) -> Result<(), VmmError> {
        let number = match call {
            Call::Came => {
                self.admit();
                return Ok(());
            }
            Call::Speaks(number) => number,
        };
        let members = self.members();
        let Some(visitor) = self.all.get_mut(&number) else {
            return Ok(());
        };
        let mut scene = Scene {
            host,
            machine,
            container,
            members: &members,
            exchange: &mut self.exchange,
        };
        let is_gone = match visitor.read(&mut scene) {
            Ok(()) => return Ok(()),
            Err(VmmError::Channel(_)) => visitor.go(scene.host, scene.machine)?,
            Err(error) => return Err(error),
        };
        if is_gone {
            self.all.remove(&number);
        }
        Ok(())
    }

    /// Returns the first processes of members, by their names.
    fn members(&self) -> BTreeMap<String, Session> {
        let members = self.all.values().filter_map(|visitor| visitor.member.as_ref());
        let running = members.filter_map(|member| Some((member.name.clone(), member.first?)));
        running.collect()
    }

    /// Takes what has become of disks.
    pub(crate) fn changed(
        &mut self,
        changes: Vec<Change>,
        (host, container): (&mut Host, Session),
        machine: &mut dyn Booted,
    ) -> Result<(), VmmError> {
        let members = self.members();
        let mut scene = Scene {
            host,
            machine,
            container,
            members: &members,
            exchange: &mut self.exchange,
        };
        for change in changes {
            let (Change::Attached(serial) | Change::Refused(serial, _) | Change::Detached(serial)) = &change;
            let brings = |visitor: &&mut Visitor| {
                let member = visitor.member.as_ref();
                member.is_some_and(|member| member.brings(serial))
            };
            if let Some(visitor) = self.all.values_mut().find(brings) {
                visitor.changed(change, &mut scene)?;
            }
        }
        self.all.retain(|_, visitor| !visitor.is_forgotten());
        Ok(())
    }

    fn admit(&mut self) {
        // One that has gone already is not there.
        let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else {
            return;
        };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        self.last = self.last.wrapping_add(1);
        let visitor = Visitor::new(stream, &self.kernel);
        self.all.insert(self.last, visitor);
    }

    /// Passes on what the guest says of another process than the container's first one.
    pub(crate) fn hear(
        &mut self,
        event: Event,
        host: &mut Host,
        machine: &mut dyn Booted,
    ) -> Result<(), VmmError> {
        if self.exchange.hear(&event) {
            return Ok(());
        }
        let session = match &event {
            Event::Ready(_) => return Ok(()),
            Event::Runs(session)
            | Event::Output(session, ..)
            | Event::Room(session, _)
            | Event::Warning(session, _)
            | Event::Failed(session, ..)
            | Event::Ended(session, _) => *session,
        };
        let is_end = matches!(event, Event::Ended(..) | Event::Failed(..));
        match of(&mut self.all, session) {
            Some(visitor) if is_end => match &mut visitor.member {
                // Its disks are needed no longer.
                Some(member) if member.first == Some(session) => {
                    return member.leave(Some(event), machine);
                }
                _ => visitor.tell(event, session),
            },
            Some(visitor) if visitor.stream.is_some() => visitor.tell(event, session),
            _ => {
                if let Event::Output(session, stream, bytes) = event {
                    host.consumed(session, stream, bytes.len());
                }
            }
        }
        Ok(())
    }

    /// Sends as much as the visitors take, and lets those go who know the end.
    pub(crate) fn send(&mut self) {
        self.all.retain(|_, visitor| visitor.send());
    }
}

/// Finds the visitor whose process this is.
fn of(all: &mut BTreeMap<u32, Visitor>, session: Session) -> Option<&mut Visitor> {
    let mut all = all.values_mut();
    all.find(|visitor| visitor.processes.values().any(|own| *own == session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attendant_may_listen_later() {
        let name = format!("tote-vmm-test-{}-later", std::process::id());
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let (tries, tried) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let reached = scope.spawn(|| {
                tries.send(()).unwrap();
                reach(&socket, name.as_bytes())
            });
            tried.recv().unwrap();
            let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
            assert_eq!(reached.join().unwrap(), Ok(()));
        });
    }
}
