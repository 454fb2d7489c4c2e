//! Ways between a session and this machine: sockets of this machine that programs in the session connect to, and ports of the
//! container that clients here connect to.
//!
//! A process beside the session passes the connections on ([`relay`]). A socket in the session is another one than the
//! machine's: a server that checks its peer sees the user who started the session, not an id of the container's. So the relay checks who its
//! own client is, and answers processes of the session alone. The session's
//! socket is bound below the state root, under the name of the socket of a container in the foreground, so that the sweep
//! knows it; it has no name any more once the session has it.

mod cookie;
mod greeting;
mod option;
mod peers;
mod relay;
mod store;

use super::DebugError;
use crate::exec::Target;
use crate::{EngineError, Home};
use greeting::Cookies;
use option::{Place, parse_port, parse_socket};
use peers::MountNamespace;
use relay::{Server, Way, relay};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::SocketAddrUnix;
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;
use tote_sandbox::{HostFile, WrittenFile, clone_flag};
use tote_spec::NamespaceType;
use tote_state::new_id;
use tote_sys::{Child, Wait, best_effort, set_namespaces};

/// Time in which the server of a forwarded socket accepts a connection.
const TRIAL: Duration = Duration::from_secs(10);

/// Values of `--forward` and `--port-forward`.
#[derive(Clone, Debug, Default)]
pub struct DebugForwards {
    /// Sockets of this machine: `x11`, `wayland`, `dbus`, `ssh-agent` or a path.
    pub sockets: Vec<String>,
    /// Ports of the container: `[[ADDRESS:]PORT:]PORT`.
    pub ports: Vec<String>,
}

impl DebugForwards {
    /// True if there is anything to forward.
    pub(super) fn is_any(&self) -> bool {
        !(self.sockets.is_empty() && self.ports.is_empty())
    }
}

/// Ways that are open for as long as this value lives.
pub(super) struct Forwards {
    /// Sockets that the session gets.
    pub(super) binds: Vec<HostFile>,
    /// Variables that tell programs of them.
    pub env: Vec<String>,
    /// Files that the session gets.
    pub files: Vec<WrittenFile>,
    place: Place,
    process: Option<Pid>,
    /// The relay's only word from this process: which processes are the session's.
    word: Option<OwnedFd>,
    /// Mount namespace of the session, which keeps its number for as long as this is open.
    session: Option<OwnedFd>,
}

impl Forwards {
    /// Opens the ways: from here on clients can connect. `is_target` says that the session's root is the container's.
    ///
    /// # Errors
    /// [`DebugError`] for a value that says nothing, a socket that is not there, or an address that is taken.
    pub(crate) fn open(
        home: &Home,
        wanted: &DebugForwards,
        (target, is_target): (&Target, bool),
    ) -> Result<Self, EngineError> {
        let mut forwards = Self {
            binds: Vec::new(),
            env: Vec::new(),
            files: Vec::new(),
            place: if is_target { Place::TARGET } else { Place::TOOLS },
            process: None,
            word: None,
            session: None,
        };
        let mut ways = Vec::new();
        for text in &wanted.sockets {
            ways.push(forwards.socket(home, text)?);
        }
        for text in &wanted.ports {
            ways.push(port(text)?);
        }
        if ways.is_empty() {
            return Ok(forwards);
        }
        let joins = (!wanted.ports.is_empty()).then(|| target.namespaces());
        let init = target.hold()?;
        let kernel = |attempt| move |source| EngineError::Kernel { attempt, source };
        let (word, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(kernel("make a pipe for the process that passes connections on"))?;
        // process: ways of a `debug` session
        let process = tote_sys::fork_worker(|| {
            best_effort(tote_sys::die_with_parent());
            // Each connection takes up to six.
            tote_sys::raise_descriptor_limit();
            // The container's root must not look into a process that has sockets of this machine.
            let entered = tote_sys::set_dumpable(false).and_then(|()| match joins {
                Some(namespaces) => enter(&init, namespaces.flags, namespaces.user),
                None => Ok(()),
            });
            u8::from(entered.and_then(|()| relay(&ways, &word)).is_err())
        });
        forwards.process = Some(process.map_err(kernel("start the process that passes connections on"))?);
        forwards.word = Some(told);
        Ok(forwards)
    }

    fn socket(&mut self, home: &Home, text: &str) -> Result<Way, EngineError> {
        let wrong = |reason| DebugError::Forward {
            wanted: text.to_owned(),
            reason,
        };
        let variable = |name: &str| std::env::var(name).ok();
        let way = parse_socket(text, self.place, &variable).map_err(wrong)?;
        let unreachable = |source: std::io::Error| DebugError::Listen {
            what: way.here.replace('\0', "@"),
            source,
        };
        let address = match way.here.strip_prefix('\0') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
            None => SocketAddrUnix::new(&*way.here),
        };
        let address = address.map_err(|errno| unreachable(errno.into()))?;
        let trial = rustix::net::socket(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            None,
        )
        .and_then(|trial| Wait::within(TRIAL).connect(&trial, &address));
        trial.map_err(|errno| unreachable(errno.into()))?;
        let path = home.live().join(format!("{}.socket", new_id()?));
        let listener = bind(&path).map_err(EngineError::file("make", &path))?;
        self.binds.push(HostFile { path, at: way.there });
        self.env.extend(way.env);
        let cookies = match way.display {
            Some(display) => self.cookie(display)?,
            None => None,
        };
        Ok(Way {
            listener,
            server: Server::Socket(address),
            cookies,
        })
    }

    /// Gives the session a cookie in the place of that of a display, if the user has one. Without a cookie the server decides.
    fn cookie(&mut self, display: u32) -> Result<Option<Cookies>, EngineError> {
        let variable = |name: &str| std::env::var(name).ok();
        let file = cookie::read(&variable).map_err(|source| DebugError::Listen {
            what: "x11: cannot read its cookie".to_owned(),
            source,
        })?;
        let uname = rustix::system::uname();
        let host = uname.nodename().to_bytes();
        let file = file.unwrap_or_default();
        let Some(found) = cookie::of_display(&file, display, host) else {
            return Ok(None);
        };
        let cookies = Cookies::of(found).map_err(|source| EngineError::Kernel {
            attempt: "invent a cookie for the session",
            source,
        })?;
        if let Some(content) = cookie::file_of(&cookies.session) {
            let path = self.place.at("Xauthority");
            self.env.push(format!("XAUTHORITY={path}"));
            // The session's user is another one than the caller.
            self.files.push(WrittenFile {
                path,
                mode: 0o444,
                content,
            });
        }
        Ok(Some(cookies))
    }

    /// Tells the relay which processes are the session's, of which this is the first one, and takes the names of the sockets away.
    pub(crate) fn begin(&mut self, first: &Child) {
        self.settle();
        let Some(word) = self.word.take() else { return };
        // A session that has ended already has no client.
        if let Ok((session, held)) = MountNamespace::of(first.pid) {
            self.session = Some(held);
            best_effort(rustix::io::write(&word, &session.to_bytes()));
        }
    }

    /// Takes the names of the sockets away once the session has them.
    fn settle(&self) {
        for bind in &self.binds {
            best_effort(std::fs::remove_file(&bind.path));
        }
    }
}

impl Drop for Forwards {
    fn drop(&mut self) {
        self.settle();
        let Some(process) = self.process else { return };
        best_effort(kill_process(process, Signal::KILL));
        best_effort(Wait::ending().reap_child(process));
    }
}

/// Binds a socket to which every process that can reach it may connect.
fn bind(path: &Path) -> std::io::Result<OwnedFd> {
    let (dir, name) = (
        path.parent().unwrap_or(path),
        path.file_name().unwrap_or_default(),
    );
    let parent = rustix::fs::open(
        dir,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    // The bind goes through a descriptor, because the address of a socket must be short.
    let short = format!("/proc/self/fd/{}/{}", parent.as_raw_fd(), name.to_string_lossy());
    let listener = UnixListener::bind(short)?;
    listener.set_nonblocking(true)?;
    rustix::fs::chmodat(
        &parent,
        name,
        Mode::from_raw_mode(0o666),
        rustix::fs::AtFlags::empty(),
    )?;
    Ok(listener.into())
}

fn port(text: &str) -> Result<Way, EngineError> {
    let way = parse_port(text).ok_or_else(|| DebugError::Forward {
        wanted: text.to_owned(),
        reason: "it is not [[ADDRESS:]PORT:]PORT".to_owned(),
    })?;
    let listener = TcpListener::bind(way.here).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener = listener.map_err(|source| DebugError::Listen {
        what: way.here.to_string(),
        source,
    })?;
    Ok(Way {
        listener: listener.into(),
        server: Server::Port(way.there),
        cookies: None,
    })
}

/// Joins the container's network namespace; its user namespace first, where this process has no rights otherwise.
fn enter(init: &OwnedFd, flags: u32, user: bool) -> Result<(), tote_sys::Errno> {
    let network = flags & clone_flag(NamespaceType::Network);
    if network == 0 {
        return Ok(());
    }
    if user {
        set_namespaces(init.as_fd(), clone_flag(NamespaceType::User))?;
    }
    set_namespaces(init.as_fd(), network)
}
