//! The process that passes connections on: one epoll(7) for all of them, and nothing that blocks.

use super::greeting::{Cookies, Greeting};
use super::peers::{LENGTH, MountNamespace};
use super::store::Store;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, shutdown, socket_with, sockopt,
};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tote_sys::{ACCEPT_AGAIN, Accepted, Endless, Wait, accept, best_effort, connect_at_once};

/// Number of connections at a time; further clients wait in the listeners' queues.
const CONNECTIONS: usize = 256;

/// Time after which an attempt that had to wait for nothing that can be polled is repeated: a full queue of a server of a Unix
/// socket, or a lack of descriptors.
const AGAIN: Duration = ACCEPT_AGAIN;

/// Number of times that bytes are moved for one connection before the others have their turn.
const TURNS: usize = 16;

/// Where connections go.
pub(super) enum Server {
    Socket(SocketAddrUnix),
    /// A port of 127.0.0.1, else of ::1.
    Port(u16),
}

/// A listener, and where its connections go.
pub(super) struct Way {
    pub listener: OwnedFd,
    pub(super) server: Server,
    /// Cookies of an X server.
    pub(super) cookies: Option<Cookies>,
}

/// A connection to a server.
enum Outgoing {
    /// Attempt that could not be begun yet.
    Waiting,
    /// Attempt under way; `second` if to the second address.
    Begun {
        fd: OwnedFd,
        second: bool,
    },
    Made(OwnedFd),
}

struct Passage<'a> {
    way: usize,
    client: OwnedFd,
    outgoing: Outgoing,
    /// The first message of the client of an X server, until it is whole.
    greeting: Option<Greeting<'a>>,
    /// Bytes that the client has sent, and bytes that the server has sent.
    stores: [Store; 2],
    ended: [bool; 2],
    shut: [bool; 2],
}

/// Passes connections on until this process is killed. From `word` comes the mount namespace of the session: only its processes are answered at
/// sockets, and no client before it is known.
///
/// # Errors
/// Those of epoll(7).
pub(super) fn relay(ways: &[Way], word: &OwnedFd) -> Result<(), Errno> {
    let mut relay = Relay {
        epoll: epoll::create(CreateFlags::CLOEXEC)?,
        ways,
        passages: BTreeMap::new(),
        next: ways.len() as u64 + 1,
        session: None,
        waits: false,
        unfinished: Vec::new(),
    };
    for (number, way) in ways.iter().enumerate() {
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(
            &relay.epoll,
            &way.listener,
            EventData::new_u64(number as u64),
            flags,
        )?;
    }
    let told = ways.len() as u64;
    epoll::add(&relay.epoll, word, EventData::new_u64(told), EventFlags::IN)?;
    let mut events = Vec::with_capacity(64);
    loop {
        relay.wait(&mut events)?;
        for event in events.drain(..) {
            let number = event.data.u64();
            match usize::try_from(number).ok().filter(|number| *number < ways.len()) {
                Some(way) => relay.accept(way),
                None if number == told => relay.learn(word)?,
                None => relay.advance(number),
            }
        }
        for number in std::mem::take(&mut relay.unfinished) {
            relay.advance(number);
        }
        if relay.waits {
            relay.waits = false;
            (0..ways.len()).for_each(|way| relay.accept(way));
            let waiting: Vec<u64> = relay
                .passages
                .iter()
                .filter(|(_, passage)| matches!(passage.outgoing, Outgoing::Waiting))
                .map(|(number, _)| *number)
                .collect();
            waiting.into_iter().for_each(|number| relay.advance(number));
        }
    }
}

struct Relay<'a> {
    epoll: OwnedFd,
    ways: &'a [Way],
    passages: BTreeMap<u64, Passage<'a>>,
    next: u64,
    /// Mount namespace of the session, once it runs.
    session: Option<MountNamespace>,
    /// True if something is to be tried again after a moment.
    waits: bool,
    /// Connections that have more to move, and no event to come: others had to have their turn.
    unfinished: Vec<u64>,
}

impl<'a> Relay<'a> {
    fn wait(&self, events: &mut Vec<Event>) -> Result<(), Errno> {
        let wait = match self.waits {
            _ if !self.unfinished.is_empty() => Wait::now(),
            true => Wait::within(AGAIN),
            false => Wait::endless(Endless::Calls),
        };
        match wait.epoll(&self.epoll, rustix::buffer::spare_capacity(events)) {
            Err(Errno::INTR) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Learns which processes are the session's, and takes the clients that wait.
    fn learn(&mut self, word: &OwnedFd) -> Result<(), Errno> {
        let mut bytes = [0; LENGTH];
        if rustix::io::retry_on_intr(|| rustix::io::read(word, &mut bytes))? == LENGTH {
            self.session = Some(MountNamespace::from_bytes(bytes));
        }
        // There is one word, and nothing behind it but the end.
        epoll::delete(&self.epoll, word)?;
        (0..self.ways.len()).for_each(|way| self.accept(way));
        Ok(())
    }

    /// True if a client may be answered: at a port, or in the session.
    fn answers(&self, way: &Way, client: &OwnedFd) -> bool {
        match way.server {
            Server::Port(_) => true,
            Server::Socket(_) => self.session.is_some_and(|session| session.has(client.as_fd())),
        }
    }

    /// Takes the waiting clients of a listener.
    fn accept(&mut self, way: usize) {
        let ways: &'a [Way] = self.ways;
        let (number_of_way, way) = (way, &ways[way]);
        if self.session.is_none() && matches!(way.server, Server::Socket(_)) {
            return;
        }
        loop {
            if self.passages.len() >= CONNECTIONS {
                self.waits = true;
                return;
            }
            let client = match accept(&way.listener) {
                Accepted::Client(client, _) => client,
                Accepted::NoMore => return,
                Accepted::NoRoom => {
                    self.waits = true;
                    return;
                }
            };
            if !self.answers(way, &client) {
                continue;
            }
            let number = self.next;
            self.next += 1;
            let watched = self.watch(&client, number);
            let stores = match &way.server {
                Server::Socket(_) => Ok([Store::messages(), Store::messages()]),
                Server::Port(_) => Store::pipe().and_then(|one| Ok([one, Store::pipe()?])),
            };
            // Without room for it, the client sees its connection closed.
            let (Ok(()), Ok(stores)) = (watched, stores) else {
                continue;
            };
            let passage = Passage {
                way: number_of_way,
                client,
                outgoing: Outgoing::Waiting,
                greeting: way.cookies.as_ref().map(Greeting::new),
                stores,
                ended: [false; 2],
                shut: [false; 2],
            };
            self.passages.insert(number, passage);
            self.advance(number);
        }
    }

    fn watch(&self, fd: &OwnedFd, number: u64) -> Result<(), Errno> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, fd, EventData::new_u64(number), flags)
    }

    /// Does what can be done for a connection; forgets it when it is over.
    fn advance(&mut self, number: u64) {
        let Some(mut passage) = self.passages.remove(&number) else {
            return;
        };
        let state = match self.connected(&mut passage, number) {
            Ok(true) => passage.pump().unwrap_or(Progress::Over),
            Ok(false) => Progress::Waits,
            Err(_) => Progress::Over,
        };
        if state == Progress::More {
            self.unfinished.push(number);
        }
        if state != Progress::Over {
            self.passages.insert(number, passage);
        }
    }

    /// Connects to the server; true if the connection is there.
    fn connected(&mut self, passage: &mut Passage<'_>, number: u64) -> Result<bool, Errno> {
        loop {
            let (outgoing, is_there) = match std::mem::replace(&mut passage.outgoing, Outgoing::Waiting) {
                Outgoing::Made(fd) => (Outgoing::Made(fd), true),
                Outgoing::Waiting => match begin(&self.ways[passage.way].server, false) {
                    Ok((fd, done)) => {
                        self.watch(&fd, number)?;
                        let begun = Outgoing::Begun { fd, second: false };
                        passage.outgoing = begun;
                        if !done {
                            return Ok(false);
                        }
                        continue;
                    }
                    Err(Errno::AGAIN | Errno::MFILE | Errno::NFILE) => {
                        self.waits = true;
                        (Outgoing::Waiting, false)
                    }
                    Err(errno) => return Err(errno),
                },
                Outgoing::Begun { fd, second } => match sockopt::socket_error(&fd)? {
                    // An event of the client may come before the connection is made.
                    Ok(()) if is_connecting(&fd) => (Outgoing::Begun { fd, second }, false),
                    Ok(()) => (Outgoing::Made(fd), true),
                    Err(Errno::CONNREFUSED)
                        if !second && matches!(self.ways[passage.way].server, Server::Port(_)) =>
                    {
                        let (fd, _) = begin(&self.ways[passage.way].server, true)?;
                        self.watch(&fd, number)?;
                        (Outgoing::Begun { fd, second: true }, false)
                    }
                    Err(errno) => return Err(errno),
                },
            };
            passage.outgoing = outgoing;
            return Ok(is_there);
        }
    }
}

/// True for a socket without a peer, which is still being connected.
fn is_connecting(fd: &OwnedFd) -> bool {
    matches!(rustix::net::getpeername(fd), Err(Errno::NOTCONN))
}

/// Begins a connection; true if it is there at once.
fn begin(server: &Server, second: bool) -> Result<(OwnedFd, bool), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let open = |family| socket_with(family, SocketType::STREAM, flags, None);
    let (fd, result) = match server {
        Server::Socket(address) => {
            let fd = open(AddressFamily::UNIX)?;
            let result = connect_at_once(&fd, address);
            (fd, result)
        }
        Server::Port(port) if second => {
            let fd = open(AddressFamily::INET6)?;
            let result = connect_at_once(&fd, &SocketAddr::from((Ipv6Addr::LOCALHOST, *port)));
            (fd, result)
        }
        Server::Port(port) => {
            let fd = open(AddressFamily::INET)?;
            let result = connect_at_once(&fd, &SocketAddr::from((Ipv4Addr::LOCALHOST, *port)));
            (fd, result)
        }
    };
    match result {
        Ok(()) => Ok((fd, true)),
        Err(Errno::INPROGRESS) => Ok((fd, false)),
        Err(errno) => Err(errno),
    }
}

/// State of a connection.
#[derive(PartialEq)]
enum Progress {
    Waits,
    More,
    Over,
}

impl Passage<'_> {
    /// Moves bytes in both directions until both ends have to be waited for, or others have their turn.
    ///
    /// # Errors
    /// The connection is broken.
    fn pump(&mut self) -> Result<Progress, Errno> {
        let Outgoing::Made(server) = &self.outgoing else {
            return Ok(Progress::Waits);
        };
        if let Some(greeting) = &mut self.greeting {
            // The server says nothing before it has this message.
            let Some(read) = greeting.read(&self.client)? else {
                return Ok(Progress::Waits);
            };
            self.stores[0] = Store::holding(read);
            self.greeting = None;
        }
        let ends = [&self.client, server];
        for _ in 0..TURNS {
            let mut progress = false;
            for from in 0..2 {
                let (store, to) = (&mut self.stores[from], ends[1 - from]);
                if !self.ended[from] {
                    match store.fill(ends[from].as_fd())? {
                        Some(0) => self.ended[from] = true,
                        Some(_) => progress = true,
                        None => {}
                    }
                }
                progress |= store.drain(to.as_fd())?.is_some_and(|moved| moved > 0);
                if self.ended[from] && store.is_empty() && !self.shut[from] {
                    best_effort(shutdown(to, Shutdown::Write));
                    self.shut[from] = true;
                }
            }
            if !progress {
                let is_over = self.shut == [true; 2];
                return Ok(if is_over { Progress::Over } else { Progress::Waits });
            }
        }
        Ok(Progress::More)
    }
}
