//! The holder: the process that keeps what containers need of the machine and no container is there for.
//!
//! Of users other than root these are the namespaces of their networks, and the way from there to the machine. The holder of
//! either leads ports of the machine to containers. Root has one while ports are published so that they pass the machine's rules
//! for its own programs. It is not the process that watches the container: that one may be a command in the foreground, which no
//! other command can tell of a port, and neither a log nor a terminal is to wait for a transfer.

mod near;
mod onward;
mod ports;
pub(super) mod socket;

pub(super) use ports::{holder, lead, lead_less};

use super::rootless::{Namespaces, Pasta, namespaces};
use super::{NetworkFault, PublishFault, RootlessFault};
use crate::container::failure_line;
use crate::{Caller, EngineError, Home};
use ports::Published;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::time::{Duration, Instant};
use tote_network::MachineAddresses;
use tote_sys::{Accepted, Errno, best_effort, chain};

/// Word by which it says that its socket is there.
pub(crate) const READY: &str = "ready";
/// How long it stays when no process is in the namespaces: the next container finds them, and the networks that are still up.
const PATIENCE: Duration = Duration::from_secs(1);
/// Name of a file that is there while pasta starts.
const BESIDE: &str = ".rootless-pasta";
/// The longest path of a state root.
const LONGEST_PATH: u64 = 8192;

/// Starts the holder, unless another command has done so meanwhile.
pub(super) fn start(home: &Home) -> Result<OwnedFd, EngineError> {
    let failed = |errno| unanswered(home, errno);
    let _lock = socket::lock(home, true)?;
    match socket::connect(home) {
        Ok(connection) => return Ok(connection),
        // It is there, and another one would take its socket away.
        Err(Errno::TIMEDOUT) => return Err(failed(Errno::TIMEDOUT)),
        Err(_) => {}
    }
    let (here, there) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(failed)?;
    // It keeps none of this process's descriptors: locks are among them.
    // process: holder of a user's networks
    tote_sys::fork_apart(there, live).map_err(failed)?;
    sockopt::set_socket_timeout(&here, Timeout::Recv, Some(socket::ANSWER)).map_err(failed)?;
    let mut line = File::from(here);
    let mut said = String::new();
    let root = home.root().as_os_str().as_bytes();
    let told = line
        .write_all(&[root, &[0]].concat())
        .and_then(|()| line.read_to_string(&mut said));
    match (told, said.as_str()) {
        (Ok(_), READY) => socket::connect(home).map_err(failed),
        _ => Err(RootlessFault::Holder(said).into()),
    }
}

/// The error of a holder that does not answer.
pub(super) fn unanswered(home: &Home, errno: Errno) -> EngineError {
    match home.caller {
        Caller::User => entering(home, errno).into(),
        Caller::Root | Caller::NestedRoot => match silent(home, errno) {
            Some(fault) => fault.into(),
            None => PublishFault::Listener(errno).into(),
        },
    }
}

/// The error of a process that cannot enter the namespaces of a user's networks.
pub(super) fn entering(home: &Home, errno: Errno) -> NetworkFault {
    let fault = silent(home, errno);
    fault.unwrap_or(RootlessFault::Enter(errno)).into()
}

/// The error of a holder that is there and lets commands wait.
fn silent(home: &Home, errno: Errno) -> Option<RootlessFault> {
    let process = Some(home)
        .filter(|_| errno == Errno::TIMEDOUT)
        .and_then(socket::listening)?;
    let seconds = socket::ANSWER.as_secs();
    Some(RootlessFault::Silent { process, seconds })
}

/// Main function of the holder; by `line` it learns the state root, and says when it is ready, or why it is not.
pub(crate) fn live(line: OwnedFd) {
    let mut line = File::from(line);
    let said = match begin(&mut line) {
        Ok(holder) => {
            best_effort(line.write_all(READY.as_bytes()));
            drop(line);
            holder.watch();
            return;
        }
        Err(text) => text,
    };
    best_effort(line.write_all(said.as_bytes()));
}

fn begin(line: &mut File) -> Result<Holder, String> {
    let mut root = Vec::new();
    let path = std::io::Read::by_ref(line).take(LONGEST_PATH);
    let read = BufReader::new(path).read_until(0, &mut root);
    read.map_err(|error| error.to_string())?;
    if root.last() == Some(&0) {
        root.pop();
    }
    let in_words = |errno: Errno| errno.to_string();
    // Each connection takes two at least.
    tote_sys::raise_descriptor_limit();
    let home = Home::open(Some(Path::new(&OsString::from_vec(root)))).map_err(|error| error.to_string())?;
    let open = |path| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let (user, network) = if home.caller == Caller::User {
        // process: holder of a user's networks
        tote_state::process::set_title("tote rootless networks");
        let Namespaces { network } =
            namespaces(&home).map_err(|error| String::from_utf8_lossy(&failure_line(&error)).into_owned())?;
        let user = open("/proc/self/ns/user").map_err(in_words)?;
        (Some(user), network)
    } else {
        // process: holder of a user's networks
        tote_state::process::set_title("tote published ports");
        (None, open("/proc/self/ns/net").map_err(in_words)?)
    };
    let published = Published::new(&home, &network).map_err(in_words)?;
    let listener = socket::listen(&home).map_err(in_words)?;
    let own = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(in_words)?;
    watch(&own, listener.as_fd()).map_err(in_words)?;
    let machine = match &user {
        Some(_) => Some(MachineAddresses::of(network.as_fd()).map_err(|error| chain(&error))?),
        None => None,
    };
    for fd in machine.iter().flat_map(MachineAddresses::fds) {
        watch(&own, fd).map_err(in_words)?;
    }
    published.wait_beside(own.as_fd()).map_err(in_words)?;
    Ok(Holder {
        listener,
        own,
        home,
        user,
        network,
        machine,
        pasta: None,
        warning: String::new(),
        begun: None,
        connections: Vec::new(),
        published,
        reserve: Reserve::default(),
    })
}

/// Has the holder wake up while a descriptor can be read, for as long as that is open.
fn watch(own: &OwnedFd, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    epoll::add(own, fd, EventData::new_u64(0), EventFlags::IN)
}

/// A line for people about networks that nothing leads out of.
fn alone(reason: &str) -> String {
    format!("containers of this user reach nothing outside of their networks: {reason}")
}

struct Holder {
    home: Home,
    listener: OwnedFd,
    /// The wait for the listener, the connections and pasta, beside that for clients of ports: what passes by ports is to cost no calls for
    /// these.
    own: OwnedFd,
    /// The user namespace of a user's networks; `None` of root, whose networks are the machine's.
    user: Option<OwnedFd>,
    network: OwnedFd,
    /// The machine's addresses, which containers of a user do not reach.
    machine: Option<MachineAddresses>,
    pasta: Option<Pasta>,
    /// Reason why pasta does not run, for people.
    warning: String,
    /// When a pasta was started last.
    begun: Option<Instant>,
    /// Connections of processes in the namespaces, and of commands that ask something.
    connections: Vec<OwnedFd>,
    published: Published,
    reserve: Reserve,
}

/// Descriptors that clients of ports do not get, for what commands ask: a connection of a command, ports that are to be led, files that
/// are to be read.
#[derive(Default)]
struct Reserve(Vec<OwnedFd>);

impl Reserve {
    /// Number of descriptors. Ports that a command publishes at a time are seldom more.
    const SIZE: usize = 24;

    /// Takes as many descriptors as are free. What clients have taken meanwhile comes back at their end.
    fn fill(&mut self) {
        while self.0.len() < Self::SIZE {
            match rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) {
                Ok((one, other)) => self.0.extend([one, other]),
                Err(_) => return,
            }
        }
    }

    /// Frees the descriptors.
    fn open(&mut self) {
        self.0.clear();
    }
}

impl Holder {
    /// Has pasta started.
    fn connect_networks(&mut self) {
        self.begun = Some(Instant::now());
        self.warning.clear();
        match Pasta::start(self.network.as_fd(), &self.home.networks().join(BESIDE)) {
            Ok(pasta) => {
                for fd in pasta.fds() {
                    best_effort(watch(&self.own, fd));
                }
                self.pasta = Some(pasta);
                self.close_machine();
            }
            Err(reason) => self.warning = alone(&reason),
        }
    }

    /// Has the machine's addresses lead nowhere; where that fails, nothing leads out.
    fn close_machine(&mut self) {
        if let Some(Err(error)) = self.machine.as_mut().map(MachineAddresses::close) {
            self.pasta = None;
            self.warning = alone(&chain(&error));
        }
    }

    /// Whether it is there for something: for processes in the namespaces, or for root's ports.
    fn is_needed(&self) -> bool {
        !self.connections.is_empty() || (self.user.is_none() && !self.published.is_idle())
    }

    /// Serves until it has not been needed for a while.
    fn watch(mut self) {
        let mut idle_since = Some(Instant::now());
        loop {
            let until_end = idle_since.map(|since| PATIENCE.saturating_sub(since.elapsed()));
            if self.published.wait(until_end) {
                self.reserve.open();
                self.look_after_pasta();
                if self.machine.as_ref().is_some_and(MachineAddresses::have_changed) {
                    self.close_machine();
                }
                self.accept();
                self.serve();
            }
            self.reserve.fill();
            idle_since = match idle_since {
                _ if self.is_needed() => None,
                None => Some(Instant::now()),
                since => since,
            };
            if idle_since.is_some_and(|since| since.elapsed() >= PATIENCE) {
                if self.ends() {
                    return;
                }
                idle_since = Some(Instant::now());
            }
        }
    }

    /// Reads what pasta says, and starts another one where it was killed.
    fn look_after_pasta(&mut self) {
        let Some(pasta) = &self.pasta else { return };
        drop(pasta.read());
        if pasta.has_ended() {
            self.pasta = None;
            // One that ends at once would be started without end; the next command tries again.
            if self.begun.is_some_and(|begun| begun.elapsed() > PATIENCE) {
                self.connect_networks();
            }
        }
    }

    /// Accepts commands. Clients of ports may have every descriptor but the reserved ones, which commands get.
    fn accept(&mut self) {
        while let Accepted::Client(connection, _) = tote_sys::accept(&self.listener) {
            if watch(&self.own, connection.as_fd()).is_ok() {
                self.connections.push(connection);
            }
        }
    }

    /// Answers requests, and forgets connections that were closed.
    fn serve(&mut self) {
        for connection in std::mem::take(&mut self.connections) {
            if self.serve_one(connection.as_fd()) {
                self.connections.push(connection);
            }
        }
    }

    /// False where the connection was closed.
    fn serve_one(&mut self, connection: BorrowedFd<'_>) -> bool {
        let mut bytes = [0; socket::LONGEST];
        let length = match rustix::net::recv(connection, &mut bytes, rustix::net::RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok((length, _)) => length,
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Err(_) => return false,
        };
        let request = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default());
        if self.user.is_some() && self.pasta.is_none() && request == socket::ENTER {
            self.connect_networks();
        }
        if let Some(user) = &self.user
            && [socket::ENTER, socket::KNOW].contains(&&*request)
        {
            let fds = [user.as_fd(), self.network.as_fd()];
            return socket::send_with(connection, &self.warning, &fds).is_ok();
        }
        let answer = self.published.answer(&request);
        socket::send(connection, &answer).is_ok()
    }

    /// Removes the socket, unless a command comes.
    fn ends(&mut self) -> bool {
        let Ok(Some(_lock)) = socket::lock(&self.home, false) else {
            return false;
        };
        self.accept();
        if self.is_needed() {
            return false;
        }
        best_effort(socket::remove(&self.home));
        true
    }
}
