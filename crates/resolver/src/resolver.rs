//! The resolver: its sockets, the questions under way, and the connections of clients.

use crate::framed::{Framed, Progress};
use crate::heard::Heard;
use crate::message::{Answer, NoQuestion, Question, Refusal};
use crate::relay::{Client, Fate, Relay};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tote_sys::{Errno, Wait, best_effort};

/// The most questions that servers have at a time; one more fails at once.
const MOST_RELAYS: usize = 128;
/// The most connections of clients; one more is closed.
const MOST_CONNECTIONS: usize = 16;
/// The most datagrams that are taken at a time: the process that watches the container has more to do.
const AT_ONCE: usize = 64;
/// The longest question.
const LONGEST: usize = 4096;
/// How long a client may leave a connection unused, or take to read an answer.
const IDLE: Duration = Duration::from_secs(10);

/// Numbers by which epoll(7) tells the sockets apart: one of these, a question, or a connection.
const UDP: u64 = 0;
const TCP: u64 = 1;
const TIMER: u64 = 2;
const RELAYS: u64 = 0x100;
const CONNECTIONS: u64 = 0x1000;

/// The names as they are at the moment of a question, and the servers for all others.
pub trait Names: std::fmt::Debug {
    /// The addresses of a name, in an order that is for the client; `None` if the name is unknown. The name is in lower
    /// case, its labels are of letters, digits, `-` and `_`, and it has no dot at its end.
    fn addresses(&self, name: &str) -> Option<Vec<IpAddr>>;

    /// The name of an address, with the same letters.
    fn name(&self, address: IpAddr) -> Option<String>;

    /// The servers that are asked for all that is not known here, in this order; `None` if no server may be asked.
    fn servers(&self) -> Option<Vec<Server>>;

    /// Decides what is done with questions about this name, which is in lower case; `None` is a name that no host
    /// can have. The client is known where it has asked by UDP just now.
    fn hearing(&self, _name: Option<&str>, _client: Option<SocketAddr>) -> Hearing {
        Hearing::Passed
    }

    /// Hears the answer about a name before the client gets it, where [`Names::hearing`] says so. False if the client is not to
    /// get it.
    fn hear(&self, _name: &str, _heard: &Heard) -> bool {
        true
    }
}

/// Way of a question that a server would have to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// The question goes to a server as it came, and so does the answer to the client.
    Passed,
    /// The question goes as it came, and the answer is heard before the client gets it.
    Heard,
    /// The answer is heard before the client gets it, and the question is made anew: the client cannot tell a server anything but a name
    /// and a kind of records. A kind that programs do not ask for has no records.
    Held,
    /// No server is asked: to the client there is no such name.
    Refused,
}

/// A server that answers questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub address: SocketAddr,
    /// Whether the container's network namespace leads there, and not this process's.
    pub is_inside: bool,
}

/// A client's connection.
#[derive(Debug)]
struct Connection {
    framed: Framed,
    number: u64,
    /// Whether its question is with a server.
    waits: bool,
    deadline: Instant,
}

/// Answers the questions of one container.
#[derive(Debug)]
pub struct Resolver<N> {
    epoll: OwnedFd,
    timer: OwnedFd,
    udp: OwnedFd,
    tcp: OwnedFd,
    /// The container's network namespace.
    network: OwnedFd,
    names: N,
    relays: Vec<Option<Relay>>,
    connections: Vec<Option<Connection>>,
    /// How many connections there ever were.
    count: u64,
    /// When the timer goes off.
    armed: Option<Instant>,
}

impl<N: Names> Resolver<N> {
    /// A resolver that hears what comes to these sockets of a container's network namespace: the second one listens.
    ///
    /// # Errors
    /// epoll_create(2)'s and timerfd_create(2)'s.
    pub fn new((udp, tcp): (OwnedFd, OwnedFd), network: OwnedFd, names: N) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        for (socket, token) in [(&udp, UDP), (&tcp, TCP), (&timer, TIMER)] {
            rustix::io::ioctl_fionbio(socket, true)?;
            epoll::add(&epoll, socket, EventData::new_u64(token), EventFlags::IN)?;
        }
        Ok(Self {
            epoll,
            timer,
            udp,
            tcp,
            network,
            names,
            relays: Vec::new(),
            connections: Vec::new(),
            count: 0,
            armed: None,
        })
    }

    /// Does what can be done now, and waits for nothing. To be called when the descriptor is readable.
    pub fn advance(&mut self) {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; 64];
        let ready: Vec<_> = match Wait::now().epoll(&self.epoll, &mut events) {
            Ok((ready, _)) => ready
                .iter()
                .map(|event| (event.data.u64(), event.flags))
                .collect(),
            Err(_) => return,
        };
        for (token, flags) in ready {
            match token {
                UDP => self.datagrams(),
                TCP => self.accept(),
                // The deadlines are looked at below.
                TIMER => best_effort(rustix::io::read(&self.timer, &mut [0; 8])),
                CONNECTIONS.. => self.serve(place(token - CONNECTIONS), flags),
                _ => self.hear(place(token - RELAYS)),
            }
        }
        if !self.relays.is_empty() || !self.connections.is_empty() {
            self.expire(Instant::now());
        }
    }

    fn datagrams(&mut self) {
        let mut message = [0; LONGEST];
        for _ in 0..AT_ONCE {
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            match rustix::net::recvfrom(&self.udp, &mut message, flags) {
                Ok((_, length, Some(from))) if length <= LONGEST => {
                    if let Ok(from) = SocketAddr::try_from(from) {
                        self.ask(&message[..length], Client::Udp(from));
                    }
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }

    /// Answers a question, or passes it on.
    fn ask(&mut self, message: &[u8], client: Client) {
        let question = match Question::parse(message, client.transport()) {
            Ok(question) => question,
            Err(NoQuestion::Refused(answer)) => return self.reply(client, &answer),
            Err(NoQuestion::Silence) => return self.dismiss(client),
        };
        if let Some(answer) = self.known(&question) {
            return self.reply(client, &question.answer(&answer));
        }
        let hearing = self.names.hearing(question.name.as_deref(), client.address());
        let is_held = hearing == Hearing::Held;
        if hearing == Hearing::Refused || is_held && !question.is_of_internet() {
            return self.reply(client, &question.refuse(Refusal::NoSuchName));
        }
        if is_held && !question.is_usual() {
            return self.reply(client, &question.answer(&Answer::Addresses(Vec::new())));
        }
        let Some(servers) = self.names.servers() else {
            return self.reply(client, &question.refuse(Refusal::NoSuchName));
        };
        let is_same = |relay: &Relay| relay.client == client && relay.question == question;
        if self.relays.iter().flatten().any(is_same) {
            return; // The client has lost patience before the server.
        }
        let Some(place) = free(&mut self.relays, MOST_RELAYS) else {
            return self.reply(client, &question.refuse(Refusal::Failed));
        };
        let plain = is_held.then(|| question.plain());
        let asked = (question, plain.as_deref().unwrap_or(message));
        match Relay::begin(client, asked, servers, self.network.as_fd()) {
            Ok(relay) => self.wait_for(place, relay),
            Err(answer) => self.reply(client, &answer),
        }
    }

    fn known(&self, question: &Question) -> Option<Answer> {
        if !question.is_of_internet() {
            return None;
        }
        if let Some(address) = question.address() {
            return self.names.name(address).map(Answer::Name);
        }
        let addresses = self.names.addresses(question.name.as_deref()?)?;
        Some(Answer::Addresses(addresses))
    }

    /// Waits for the answer to a question that has just been sent.
    fn wait_for(&mut self, place: usize, relay: Relay) {
        let token = EventData::new_u64(RELAYS + number(place));
        match epoll::add(&self.epoll, relay.fd(), token, relay.interest()) {
            Ok(()) => self.relays[place] = Some(relay),
            Err(_) => self.reply(relay.client, &relay.question.refuse(Refusal::Failed)),
        }
    }

    /// Hears a server.
    fn hear(&mut self, place: usize) {
        let Some(relay) = self.relays.get_mut(place).and_then(Option::as_mut) else {
            return;
        };
        match relay.advance() {
            Fate::Waits => {
                let token = EventData::new_u64(RELAYS + number(place));
                // What cannot be changed is over by its deadline.
                best_effort(epoll::modify(&self.epoll, relay.fd(), token, relay.interest()));
            }
            Fate::Fails => self.go_on(place),
            Fate::Answered(answer) => {
                if let Some(relay) = self.forget(place) {
                    let answer = self.heard(&relay.question, answer);
                    self.reply(relay.client, &answer);
                }
            }
        }
    }

    /// Returns the message that the client gets in place of an answer, or the answer.
    fn heard(&self, question: &Question, answer: Vec<u8>) -> Vec<u8> {
        let name = question.name.as_deref();
        let is_heard = |name: &&str| {
            matches!(
                self.names.hearing(Some(name), None),
                Hearing::Heard | Hearing::Held
            )
        };
        let Some(name) = name.filter(is_heard) else {
            return answer;
        };
        match Heard::read(&answer, name) {
            None => question.refuse(Refusal::Failed),
            Some(heard) if !self.names.hear(name, &heard) => question.refuse(Refusal::NoSuchName),
            Some(_) => answer,
        }
    }

    /// Asks the next server.
    fn go_on(&mut self, place: usize) {
        let Some(mut relay) = self.forget(place) else {
            return;
        };
        match relay.go_on(self.network.as_fd()) {
            Ok(()) => self.wait_for(place, relay),
            Err(answer) => self.reply(relay.client, &answer),
        }
    }

    fn forget(&mut self, place: usize) -> Option<Relay> {
        let relay = self.relays.get_mut(place)?.take()?;
        best_effort(epoll::delete(&self.epoll, relay.fd()));
        Some(relay)
    }

    /// Sends an answer. A client that is gone gets none.
    fn reply(&mut self, client: Client, answer: &[u8]) {
        match client {
            Client::Udp(to) => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                best_effort(rustix::net::sendto(&self.udp, answer, flags, &to));
            }
            Client::Tcp(place, number) => {
                if let Some(connection) = self.connection(place, number) {
                    connection.waits = false;
                    connection.framed.put(answer);
                    connection.deadline = Instant::now() + IDLE;
                    self.flush(place);
                }
            }
        }
    }

    /// Has nothing more to do with a client that did not ask.
    fn dismiss(&mut self, client: Client) {
        if let Client::Tcp(place, _) = client {
            self.close(place);
        }
    }

    fn connection(&mut self, place: usize, number: u64) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(place)?.as_mut();
        connection.filter(|connection| connection.number == number)
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(socket) = rustix::net::accept_with(&self.tcp, flags) {
            let Some(place) = free(&mut self.connections, MOST_CONNECTIONS) else {
                continue;
            };
            let token = EventData::new_u64(CONNECTIONS + number(place));
            if epoll::add(&self.epoll, &socket, token, EventFlags::IN).is_ok() {
                self.count += 1;
                self.connections[place] = Some(Connection {
                    framed: Framed::new(socket, LONGEST),
                    number: self.count,
                    waits: false,
                    deadline: Instant::now() + IDLE,
                });
            }
        }
    }

    /// Goes on with a client's connection.
    fn serve(&mut self, place: usize, flags: EventFlags) {
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            return self.close(place);
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(place);
        }
        let Some(connection) = self.connections.get_mut(place).and_then(Option::as_mut) else {
            return;
        };
        if connection.waits || connection.framed.has_more() || !flags.contains(EventFlags::IN) {
            return;
        }
        match connection.framed.read() {
            Progress::Waits => {}
            Progress::Gone => self.close(place),
            Progress::Message(message) => {
                let client = Client::Tcp(place, connection.number);
                connection.waits = true;
                self.ask(&message, client);
                self.watch(place);
            }
        }
    }

    fn flush(&mut self, place: usize) {
        let Some(connection) = self.connections.get_mut(place).and_then(Option::as_mut) else {
            return;
        };
        match connection.framed.flush() {
            Ok(()) => self.watch(place),
            Err(_) => self.close(place),
        }
    }

    /// Waits for what a connection can go on with: the next question comes after the answer to the last one.
    fn watch(&self, place: usize) {
        let Some(Some(connection)) = self.connections.get(place) else {
            return;
        };
        let interest = match (connection.framed.has_more(), connection.waits) {
            (true, _) => EventFlags::OUT,
            (false, true) => EventFlags::empty(),
            (false, false) => EventFlags::IN,
        };
        let token = EventData::new_u64(CONNECTIONS + number(place));
        // What cannot be changed is over by its deadline.
        best_effort(epoll::modify(&self.epoll, &connection.framed, token, interest));
    }

    fn close(&mut self, place: usize) {
        if let Some(connection) = self.connections.get_mut(place).and_then(Option::take) {
            best_effort(epoll::delete(&self.epoll, &connection.framed));
        }
    }

    /// Ends what has taken too long, and has the timer go off at the next deadline.
    fn expire(&mut self, now: Instant) {
        for place in 0..self.relays.len() {
            if self.relays[place]
                .as_ref()
                .is_some_and(|relay| relay.deadline <= now)
            {
                self.go_on(place);
            }
        }
        for place in 0..self.connections.len() {
            let is_over = |connection: &Connection| !connection.waits && connection.deadline <= now;
            if self.connections[place].as_ref().is_some_and(is_over) {
                self.close(place);
            }
        }
        shorten(&mut self.relays);
        shorten(&mut self.connections);
        let relays = self.relays.iter().flatten().map(|relay| relay.deadline);
        let idle = self.connections.iter().flatten();
        let idle = idle.filter(|connection| !connection.waits);
        let next = relays.chain(idle.map(|connection| connection.deadline)).min();
        // One that goes off too early does no harm: only an earlier deadline needs another time.
        if let Some(next) = next
            && self.armed.is_none_or(|armed| armed <= now || next < armed)
        {
            self.arm(next.saturating_duration_since(now));
            self.armed = Some(next);
        }
    }

    fn arm(&self, after: Duration) {
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let after = after.max(Duration::from_millis(1));
        let time = Itimerspec {
            it_interval: zero,
            it_value: Timespec::try_from(after).unwrap_or(zero),
        };
        best_effort(timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time));
    }
}

impl<N> AsFd for Resolver<N> {
    /// The one descriptor to wait for, until it can be read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn number(place: usize) -> u64 {
    u64::try_from(place).unwrap_or(u64::MAX)
}

/// A place where nothing is, if there may be one more.
fn free<T>(places: &mut Vec<Option<T>>, most: usize) -> Option<usize> {
    let found = places.iter().position(Option::is_none);
    found.or_else(|| {
        let place = places.len();
        (place < most).then(|| {
            places.push(None);
            place
        })
    })
}

/// Gives back the places at the end where nothing is.
fn shorten<T>(places: &mut Vec<Option<T>>) {
    let used = places
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |last| last + 1);
    places.truncate(used);
    if used == 0 {
        places.shrink_to_fit();
    }
}
