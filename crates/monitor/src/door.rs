//! Socket of a command that watches a container itself: clients wait there for the end, or ask for a monitor.

use crate::clients::{MOST_CLIENTS, farewell};
use crate::frame::{Request, Streams};
use crate::socket::Listener;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::net::RecvFlags;
use tote_sys::Errno;

/// Listening socket, and the clients that have come.
#[derive(Debug)]
pub struct Door {
    pub(crate) listener: Listener,
    /// Clients that have sent no request yet.
    pub(crate) silent: Vec<OwnedFd>,
    /// Clients that wait for the end.
    pub(crate) waiting: Vec<OwnedFd>,
    /// Clients that ask for a monitor, and wait until their connection is closed.
    asking: Vec<OwnedFd>,
}

/// Request of a client at this socket.
enum Heard {
    Nothing,
    TheEnd,
    Monitor,
    /// The client has gone, or wants something that only a monitor has.
    Gone,
}

impl Door {
    /// Wraps a listening socket; no client is accepted yet.
    #[must_use]
    pub fn new(listener: Listener) -> Self {
        Self {
            listener,
            silent: Vec::new(),
            waiting: Vec::new(),
            asking: Vec::new(),
        }
    }

    /// Returns the descriptors to wait for.
    #[must_use]
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let is_full = self.silent.len() + self.waiting.len() >= MOST_CLIENTS;
        let door = (!is_full).then(|| self.listener.as_fd());
        let silent = self.silent.iter().map(|socket| socket.as_fd());
        door.into_iter().chain(silent).collect()
    }

    /// Accepts new clients, and reads their requests, without waiting. True if a client asks for a monitor.
    pub fn advance(&mut self) -> bool {
        while self.silent.len() + self.waiting.len() < MOST_CLIENTS {
            let Ok(Some(socket)) = self.listener.accept() else {
                break;
            };
            // Waiting clients that have gone make room.
            self.waiting
                .retain(|waiting| !matches!(hear(waiting), Heard::Gone));
            self.silent.push(socket);
        }
        for socket in std::mem::take(&mut self.silent) {
            match hear(&socket) {
                Heard::Nothing => self.silent.push(socket),
                Heard::TheEnd => self.waiting.push(socket),
                Heard::Monitor => self.asking.push(socket),
                Heard::Gone => {}
            }
        }
        !self.asking.is_empty()
    }

    /// Closes the connections of clients that ask for a monitor: there is one, or it is impossible.
    pub fn answer(&mut self) {
        self.asking.clear();
    }

    /// Tells all waiting clients that the container has ended.
    pub fn farewell(self, code: i32, text: &str) {
        for socket in self.silent.iter().chain(&self.waiting) {
            farewell(socket.as_fd(), code, text);
        }
        self.listener.farewell(code, text);
    }
}

fn hear(socket: &OwnedFd) -> Heard {
    let mut message = [0; 16];
    match rustix::net::recv(socket, &mut message, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
        Err(Errno::AGAIN | Errno::INTR) => Heard::Nothing,
        Ok((read, length)) if read == length => match Request::parse(&message[..read]) {
            Some(Request::Attach(streams, _)) if streams == Streams::default() => Heard::TheEnd,
            Some(Request::Monitor) => Heard::Monitor,
            _ => Heard::Gone,
        },
        Ok(_) | Err(_) => Heard::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Connection, Report, connect};

    #[test]
    fn who_waits_and_who_asks() {
        let dir = tempfile::tempdir().unwrap();
        let dir = std::fs::File::open(dir.path()).unwrap();
        let mut door = Door::new(Listener::bind(dir.as_fd(), "s").unwrap());
        let call = || Connection::new(connect(dir.as_fd(), "s").unwrap()).unwrap();
        let (mut waits, asks, silent) = (call(), call(), call());
        assert!(!door.advance());
        assert_eq!(door.fds().len(), 4);
        waits.say(Request::Attach(Streams::default(), None)).unwrap();
        assert!(!door.advance());
        assert_eq!(door.fds().len(), 3, "nothing more is heard of one who waits");
        asks.say(Request::Monitor).unwrap();
        assert!(door.advance());
        door.answer();
        assert!(!door.advance(), "it has been answered");
        drop(silent);
        assert!(!door.advance());
        assert_eq!(door.fds().len(), 1);
        door.farewell(7, "");
        assert_eq!(waits.hear().unwrap(), Some(Report::Ended(7, b"")));
    }
}
