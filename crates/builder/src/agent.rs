//! Sockets of agents with an owner and a mode of their own, for commands of users other than root.
//!
//! An agent checks its peer: it answers only its own user. So a command of another user cannot use the agent's
//! socket, whatever the mode of that. The command gets another socket, behind which a process of this build passes
//! its requests on.

use super::workspace::make_dir;
use crate::EngineError;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tote_sys::{Errno, Wait, best_effort};

/// Time in which the agent accepts a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Limit of concurrent connections; further ones are closed.
const CONNECTIONS_MAX: usize = 64;

/// Socket whose connections go on to an agent's, for as long as this value lives.
#[derive(Debug)]
pub(crate) struct AgentRelay {
    /// Path of the socket.
    pub path: PathBuf,
    process: Pid,
}

impl AgentRelay {
    /// Makes the socket in a directory, with that owner and mode.
    pub(crate) fn start(
        dir: &Path,
        agent: &Path,
        (uid, gid): (u32, u32),
        mode: u32,
    ) -> Result<Self, EngineError> {
        make_dir(dir, 0o700)?;
        let path = super::workspace::next_in(dir)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let parent = super::view::open(dir, OFlags::PATH).map_err(EngineError::file("open", dir))?;
        // The bind goes through a descriptor, because the address of a socket must be short.
        let short = format!("/proc/self/fd/{}/{name}", parent.as_raw_fd());
        let listener = UnixListener::bind(short).map_err(EngineError::file("make", &path))?;
        let owner = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        rustix::fs::chownat(&parent, &*name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)
            .and_then(|()| rustix::fs::chmodat(&parent, &*name, Mode::from_raw_mode(mode), AtFlags::empty()))
            .map_err(EngineError::file("change the owner of", &path))?;
        // process: relay of an agent
        let process = tote_sys::fork_worker(|| {
            best_effort(tote_sys::die_with_parent());
            relay(&listener, agent);
            0
        });
        let process = process.map_err(|source| EngineError::Kernel {
            attempt: "start the process that passes requests on to the SSH agent",
            source,
        })?;
        Ok(Self { path, process })
    }
}

impl Drop for AgentRelay {
    fn drop(&mut self) {
        best_effort(kill_process(self.process, Signal::KILL));
        best_effort(Wait::ending().reap_child(self.process));
    }
}

/// Passes connections on, until the process is killed.
fn relay(listener: &UnixListener, agent: &Path) {
    let open = Arc::new(AtomicUsize::new(0));
    for client in listener.incoming().flatten() {
        // The agent may be busy, or stopped: then its clients are told so by the end of their connections.
        let Ok(server) = reach(agent) else {
            continue;
        };
        if open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let open = Arc::clone(&open);
        let passed = std::thread::Builder::new().spawn(move || {
            pass(&client, &server);
            open.fetch_sub(1, Ordering::SeqCst);
        });
        // If no thread can be created for a connection, it is closed.
        drop(passed);
    }
}

fn reach(agent: &Path) -> Result<UnixStream, Errno> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Wait::within(PATIENCE).connect(&socket, &SocketAddrUnix::new(agent)?)?;
    Ok(socket.into())
}

fn pass(client: &UnixStream, server: &UnixStream) {
    let one_way = |mut from: &UnixStream, mut to: &UnixStream| {
        best_effort(std::io::copy(&mut from, &mut to));
        best_effort(to.shutdown(Shutdown::Write));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| one_way(server, client));
        one_way(client, server);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn both_directions_end_where_they_should() {
        let (mut asking, client) = UnixStream::pair().unwrap();
        let (server, mut answering) = UnixStream::pair().unwrap();
        let passing = std::thread::spawn(move || pass(&client, &server));
        asking.write_all(b"question").unwrap();
        let mut question = [0; 8];
        answering.read_exact(&mut question).unwrap();
        assert_eq!(&question, b"question");
        asking.shutdown(Shutdown::Write).unwrap();
        assert_eq!(answering.read(&mut question).unwrap(), 0);
        answering.write_all(b"answer").unwrap();
        drop(answering);
        let mut answer = String::new();
        asking.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
        passing.join().unwrap();
    }
}
