//! A question on its way to a server, and to the next one where that does not answer.

use crate::Server;
use crate::framed::{Framed, Progress};
use crate::message::{Question, Refusal, Transport, is_failure, renumbered};
use rustix::event::epoll::EventFlags;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tote_sys::Errno;

/// How long a server has for its answer. Clients ask again after five seconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most datagrams that are taken at a time.
const AT_ONCE: usize = 64;
/// The longest message.
const LONGEST: usize = 65535;

/// The client that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// By UDP, from there.
    Udp(SocketAddr),
    /// By a connection: its place, and its number among all that there ever were.
    Tcp(usize, u64),
}

impl Client {
    pub(crate) fn transport(self) -> Transport {
        match self {
            Self::Udp(_) => Transport::Udp,
            Self::Tcp(..) => Transport::Tcp,
        }
    }

    /// The client's address, of one that asks by UDP.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Udp(from) => Some(from),
            Self::Tcp(..) => None,
        }
    }
}

/// A socket of its own for each question: the kernel chooses a port at random, and passes on what comes from the server
/// alone.
#[derive(Debug)]
enum Line {
    Udp(OwnedFd),
    Tcp(Framed),
}

/// A question that a server has.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) client: Client,
    pub(crate) question: Question,
    /// The message that servers get, as it came or made anew.
    query: Vec<u8>,
    /// The servers that were not asked yet, the next one last.
    servers: Vec<Server>,
    /// The number of the message on this line.
    id: u16,
    line: Line,
    pub(crate) deadline: Instant,
    /// The answer of a server that failed, for when none does better.
    failure: Option<Vec<u8>>,
}

/// State of a question after its server was heard.
#[derive(Debug)]
pub(crate) enum Fate {
    /// The server has time.
    Waits,
    /// Another server is to be asked.
    Fails,
    /// The answer, as the client is to get it.
    Answered(Vec<u8>),
}

impl Relay {
    /// Asks the first server that can be asked.
    ///
    /// # Errors
    /// The answer to the client, where no server can be asked.
    pub(crate) fn begin(
        client: Client,
        (question, query): (Question, &[u8]),
        servers: Vec<Server>,
        network: BorrowedFd<'_>,
    ) -> Result<Self, Vec<u8>> {
        let mut servers: Vec<_> = servers.into_iter().rev().collect();
        while let Some(server) = servers.pop() {
            if let Ok((line, id)) = ask(server, client.transport(), query, network) {
                return Ok(Self {
                    client,
                    question,
                    query: query.to_vec(),
                    servers,
                    id,
                    line,
                    deadline: Instant::now() + PATIENCE,
                    failure: None,
                });
            }
        }
        Err(question.refuse(Refusal::Failed))
    }

    /// Asks the next server that can be asked.
    ///
    /// # Errors
    /// The answer to the client, where no server is left.
    pub(crate) fn go_on(&mut self, network: BorrowedFd<'_>) -> Result<(), Vec<u8>> {
        while let Some(server) = self.servers.pop() {
            if let Ok(asked) = ask(server, self.client.transport(), &self.query, network) {
                (self.line, self.id) = asked;
                self.deadline = Instant::now() + PATIENCE;
                return Ok(());
            }
        }
        let failure = self.failure.take();
        Err(failure.unwrap_or_else(|| self.question.refuse(Refusal::Failed)))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match &self.line {
            Line::Udp(socket) => socket.as_fd(),
            Line::Tcp(framed) => framed.as_fd(),
        }
    }

    /// The events to wait for.
    pub(crate) fn interest(&self) -> EventFlags {
        match &self.line {
            Line::Tcp(framed) if framed.has_more() => EventFlags::IN | EventFlags::OUT,
            Line::Udp(_) | Line::Tcp(_) => EventFlags::IN,
        }
    }

    /// Hears the server, without waiting. Messages that do not answer the question are dropped.
    pub(crate) fn advance(&mut self) -> Fate {
        let answer = match &mut self.line {
            Line::Udp(socket) => {
                let mut message = vec![0; LONGEST];
                let mut tries = 0..AT_ONCE;
                loop {
                    // A server that floods this socket is heard again after the other sockets.
                    if tries.next().is_none() {
                        return Fate::Waits;
                    }
                    match recv(&*socket, &mut message[..], RecvFlags::DONTWAIT) {
                        Ok((_, length)) => {
                            let message = &message[..length.min(LONGEST)];
                            if self.question.is_answered_by(message, (&self.query, self.id)) {
                                break message.to_vec();
                            }
                        }
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => return Fate::Waits,
                        // The server does not listen.
                        Err(_) => return Fate::Fails,
                    }
                }
            }
            Line::Tcp(framed) => {
                match framed.flush() {
                    // It is being connected.
                    Ok(()) | Err(Errno::NOTCONN) => {}
                    Err(_) => return Fate::Fails,
                }
                match framed.read() {
                    Progress::Waits => return Fate::Waits,
                    Progress::Message(message)
                        if self.question.is_answered_by(&message, (&self.query, self.id)) =>
                    {
                        message
                    }
                    Progress::Message(_) | Progress::Gone => return Fate::Fails,
                }
            }
        };
        let is_failure = is_failure(&answer);
        let answer = self.question.given_back(answer);
        if is_failure {
            self.failure = Some(answer);
            return Fate::Fails;
        }
        Fate::Answered(answer)
    }
}

/// Sends a question with a number of its own; gives the socket and that number.
fn ask(
    server: Server,
    transport: Transport,
    query: &[u8],
    network: BorrowedFd<'_>,
) -> Result<(Line, u16), Errno> {
    let mut number = [0; 2];
    rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
    let id = u16::from_be_bytes(number);
    let query = renumbered(query, id);
    let family = match server.address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let kind = match transport {
        Transport::Udp => SocketType::DGRAM,
        Transport::Tcp => SocketType::STREAM,
    };
    let socket = if server.is_inside {
        tote_sys::socket_in(network, (family, kind, None))?
    } else {
        rustix::net::socket_with(family, kind, rustix::net::SocketFlags::CLOEXEC, None)?
    };
    rustix::io::ioctl_fionbio(&socket, true)?;
    match tote_sys::connect_at_once(&socket, &server.address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno),
    }
    let line = match transport {
        Transport::Udp => {
            send(&socket, &query, SendFlags::NOSIGNAL)?;
            Line::Udp(socket)
        }
        Transport::Tcp => {
            let mut framed = Framed::new(socket, LONGEST);
            framed.put(&query);
            Line::Tcp(framed)
        }
    };
    Ok((line, id))
}
