//! The holder: the process that keeps the namespaces of a user's networks, and the way from there to the machine.

use super::pasta::Pasta;
use super::ports::Published;
use super::{Namespaces, namespaces, socket};
use crate::Home;
use crate::container::failure_line;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::SocketFlags;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::{Duration, Instant};
use tote_sys::{Errno, best_effort};

/// Word by which it says that its socket is there.
pub(crate) const READY: &str = "ready";
/// How long it stays when no process is in the namespaces: the next container finds them, and the networks that are still up.
const PATIENCE: Duration = Duration::from_secs(1);
/// Name of a file that is there while pasta starts.
const BESIDE: &str = ".rootless-pasta";
/// The longest path of a state root.
const LONGEST_PATH: u64 = 8192;

/// Main function of the holder; by `line` it learns the state root, and says when it is ready, or why it is not.
pub(crate) fn live(line: OwnedFd) {
    tote_state::process::set_title("tote rootless networks");
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
    let home = Home::open(Some(Path::new(&OsString::from_vec(root)))).map_err(|error| error.to_string())?;
    let user = |home| {
        let made =
            namespaces(home).map_err(|error| String::from_utf8_lossy(&failure_line(&error)).into_owned())?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let user = rustix::fs::open("/proc/self/ns/user", flags, Mode::empty()).map_err(in_words)?;
        Ok::<_, String>((user, made))
    };
    let (user, Namespaces { network }) = user(&home)?;
    let published = Published::new(&network).map_err(in_words)?;
    Ok(Holder {
        listener: socket::listen(&home).map_err(in_words)?,
        home,
        user,
        network,
        pasta: None,
        warning: String::new(),
        begun: None,
        connections: Vec::new(),
        published,
    })
}

struct Holder {
    home: Home,
    listener: OwnedFd,
    user: OwnedFd,
    network: OwnedFd,
    pasta: Option<Pasta>,
    /// Reason why pasta does not run, for people.
    warning: String,
    /// When a pasta was started last.
    begun: Option<Instant>,
    /// Connections of processes in the namespaces, and of commands that ask something.
    connections: Vec<OwnedFd>,
    published: Published,
}

impl Holder {
    /// Has pasta started.
    fn connect_networks(&mut self) {
        self.begun = Some(Instant::now());
        self.warning.clear();
        match Pasta::start(self.network.as_fd(), &self.home.networks().join(BESIDE)) {
            Ok(pasta) => self.pasta = Some(pasta),
            Err(reason) => {
                self.warning =
                    format!("containers of this user reach nothing outside of their networks: {reason}");
            }
        }
    }

    /// Serves until no process has been in the namespaces for a while.
    fn watch(mut self) {
        let mut idle_since = Some(Instant::now());
        loop {
            self.wait(idle_since);
            self.look_after_pasta();
            self.accept();
            self.serve();
            self.published.advance();
            idle_since = match idle_since {
                _ if !self.connections.is_empty() => None,
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

    /// Waits until something happens, or it is time to end.
    fn wait(&self, idle_since: Option<Instant>) {
        let mut fds: Vec<BorrowedFd<'_>> = vec![self.listener.as_fd(), self.published.as_fd()];
        fds.extend(self.pasta.iter().flat_map(Pasta::fds));
        fds.extend(self.connections.iter().map(AsFd::as_fd));
        let mut fds: Vec<_> = fds
            .iter()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        let until_end = idle_since.map(|since| PATIENCE.saturating_sub(since.elapsed()));
        let until = [until_end, self.published.patience()].into_iter().flatten().min();
        let until = until.and_then(|until| Timespec::try_from(until).ok());
        best_effort(poll(&mut fds, until.as_ref()));
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

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(connection) = rustix::net::accept_with(&self.listener, flags) {
            self.connections.push(connection);
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
        if [socket::ENTER, socket::KNOW].contains(&&*request) {
            if self.pasta.is_none() && request == socket::ENTER {
                self.connect_networks();
            }
            let fds = [self.user.as_fd(), self.network.as_fd()];
            return socket::send_with(connection, &self.warning, &fds).is_ok();
        }
        let answer = self.published.answer(&request);
        socket::send(connection, &answer).is_ok()
    }

    /// Removes the socket, unless a command comes.
    fn ends(&mut self) -> bool {
        let Ok(Some(_lock)) = socket::lock(&self.home) else {
            return false;
        };
        self.accept();
        if !self.connections.is_empty() {
            return false;
        }
        best_effort(socket::remove(&self.home));
        true
    }
}
