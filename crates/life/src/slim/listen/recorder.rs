//! The process that answers the listener of a container's filter, and notes what it hears.
//!
//! It keeps nothing of the process that made it, and it ends with the last process of the container. Each call is let
//! through: the listener learns and forbids nothing. Of the container it reads names, addresses and numbers; no file is
//! opened by a name that it read.

use super::super::process::{inner_pid, name_of, process_of};
use super::calls::{FILES, capability};
use super::{Heard, HeardUse, Path, Setting};
use rustix::fd::OwnedFd;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufWriter, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};
use tote_state::process::set_title;
use tote_sys::{CallListener, Errno, ReportedCall, best_effort, read_memory};

/// Most bytes of memory for noted files. A program chooses the names that it opens, and no cgroup of its container counts this process.
const MOST_BYTES: usize = 16 << 20;
/// Bytes that a noted file takes beside its path and the name of its program.
const NOTE: usize = 128;
/// Most threads, and most ports, that are remembered at a time.
const MOST_NUMBERS: usize = 1 << 16;
/// Longest path that the kernel takes, `PATH_MAX`.
const PATH_MAX: usize = 4096;
/// Longest setting.
const SETTING: usize = 256;

/// Receives a listener, answers it until its container has ended, and writes [`Heard`] to the socket.
pub(crate) fn record(socket: OwnedFd) {
    let Some((listener, setting)) = receive(&socket) else {
        return;
    };
    // process: listener
    set_title("tote listener");
    let mut recorder = Recorder {
        begin: Instant::now()
            .checked_sub(Duration::from_nanos(setting.elapsed))
            .unwrap_or_else(Instant::now),
        run: setting.run,
        uses: BTreeMap::new(),
        bytes: 0,
        overflowed: false,
        calls: BTreeSet::new(),
        capabilities: BTreeSet::new(),
        ports: BTreeSet::new(),
        names: HashMap::new(),
        known: BTreeSet::new(),
        begun: false,
        failure: None,
    };
    recorder.listen(&CallListener::new(listener));
    // A parent that is gone asks for nothing.
    let mut out = BufWriter::new(std::fs::File::from(socket));
    best_effort(serde_json::to_writer(&mut out, &recorder.heard()));
    best_effort(out.flush());
}

fn receive(socket: &OwnedFd) -> Option<(OwnedFd, Setting)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; SETTING];
    let length = loop {
        let mut slices = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(_) => return None,
            Ok(message) => break message.bytes,
        }
    };
    let listener = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })?;
    let setting = serde_json::from_slice(bytes.get(..length)?).ok()?;
    Some((listener, setting))
}

struct Recorder {
    begin: Instant,
    run: u32,
    uses: BTreeMap<Vec<u8>, HeardUse>,
    /// Bytes that `uses` takes.
    bytes: usize,
    /// True if a file was not noted for want of room.
    overflowed: bool,
    calls: BTreeSet<&'static str>,
    capabilities: BTreeSet<&'static str>,
    ports: BTreeSet<String>,
    /// Names of calls by their interface and number.
    names: HashMap<(u32, u32), &'static str>,
    /// Threads whose program is noted.
    known: BTreeSet<u32>,
    /// True once a program was begun.
    begun: bool,
    failure: Option<Errno>,
}

impl Recorder {
    fn listen(&mut self, listener: &CallListener) {
        loop {
            match listener.next() {
                Ok(None) => return,
                Ok(Some(call)) => {
                    self.hear(listener, &call);
                    // It may have been killed meanwhile.
                    best_effort(listener.let_through(&call));
                }
                Err(errno) => {
                    // Calls fail with ENOSYS from here on, so that the container does not wait for ever.
                    self.failure = Some(errno);
                    return;
                }
            }
        }
    }

    fn hear(&mut self, listener: &CallListener, call: &ReportedCall) {
        let known = self.names.get(&(call.arch, call.number)).copied();
        let Some(name) = known.or_else(|| tote_seccomp::Arch::call(call.arch, call.number)) else {
            return;
        };
        self.names.insert((call.arch, call.number), name);
        let is_narrow = call.arch & 0x8000_0000 == 0;
        let mut arguments = call.arguments;
        if is_narrow {
            arguments = arguments.map(|argument| argument & u64::from(u32::MAX));
        }
        // Before its first program a container's process is one of tote's, with calls of its own.
        self.begun |= name.starts_with("execve");
        if !self.begun {
            return;
        }
        self.calls.insert(name);
        if let Some(capability) = capability(name, &arguments) {
            self.capabilities.insert(capability);
        }
        let mut found = Vec::new();
        if FILES.contains(&name) {
            if self.known.len() >= MOST_NUMBERS {
                // The programs of threads that go on are found once more.
                self.known.clear();
            }
            if self.known.insert(call.thread) {
                // The kernel has opened the program itself.
                found.extend(link(call.thread, "exe"));
            }
            found.extend(path(call.thread, name, &arguments));
            if name.starts_with("execve") {
                self.known.remove(&call.thread);
            }
        }
        let port = (name == "bind").then(|| port(call.thread, &arguments)).flatten();
        // What was read of the memory of another process with the same number counts for nothing.
        if !listener.is_waiting(call) {
            return;
        }
        for path in found {
            self.note(call.thread, path);
        }
        if let Some((protocol, number)) = port {
            if self.ports.len() < MOST_NUMBERS {
                self.ports.insert(format!("{number}/{protocol}"));
            }
            if number < 1024 {
                self.capabilities.insert("NET_BIND_SERVICE");
            }
        }
    }

    fn note(&mut self, thread: u32, path: Vec<u8>) {
        let path = match path.strip_prefix(b"/") {
            Some(path) => path.to_vec(),
            None => return,
        };
        if self.uses.contains_key(&path) {
            return;
        }
        let bytes = self.bytes + path.len() + NOTE;
        if bytes > MOST_BYTES {
            self.overflowed = true;
            return;
        }
        self.bytes = bytes;
        let use_ = HeardUse {
            pid: inner_pid(thread),
            program: name_of(thread, &path).into(),
            millis: u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX),
            run: self.run,
        };
        self.uses.insert(path, use_);
    }

    fn heard(self) -> Heard {
        let names = |set: BTreeSet<&'static str>| set.into_iter().map(ToOwned::to_owned).collect();
        Heard {
            overflowed: self.overflowed,
            uses: self
                .uses
                .into_iter()
                .map(|(path, how)| (Path(path), how))
                .collect(),
            calls: names(self.calls),
            capabilities: names(self.capabilities),
            ports: self.ports,
            failure: self.failure.map(Errno::raw_os_error),
        }
    }
}

/// Returns the path of a call as its process means it, from the root of its mount namespace on.
fn path(thread: u32, call: &str, arguments: &[u64; 6]) -> Option<Vec<u8>> {
    const AT_FDCWD: u32 = -100_i32 as u32;
    let (dir, address) = match call {
        "open" | "creat" | "execve" => (AT_FDCWD, arguments[0]),
        // Only the lower half is the argument, an int.
        _ => ((arguments[0] & u64::from(u32::MAX)) as u32, arguments[1]),
    };
    let text = text(thread, address)?;
    if text.first() == Some(&b'/') {
        let root = link(thread, "root").unwrap_or_default();
        return Some(match &root[..] {
            b"/" | b"" => text,
            root => [root, &text].concat(),
        });
    }
    let base = match dir {
        AT_FDCWD => link(thread, "cwd"),
        number => link(thread, &format!("fd/{number}")),
    }?;
    match text.is_empty() {
        true => Some(base),
        false => Some([&base, &b"/"[..], &text].concat()),
    }
}

fn link(thread: u32, name: &str) -> Option<Vec<u8>> {
    // absence: the process has ended
    let link = rustix::fs::readlink(format!("/proc/{thread}/{name}"), Vec::new()).ok()?;
    Some(link.into_bytes())
}

/// Reads a text that ends with NUL; `None` for one that the kernel would refuse.
fn text(thread: u32, address: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 256];
    loop {
        let read = read_memory(thread, address, &mut bytes).ok()?;
        if let Some(end) = bytes[..read].iter().position(|byte| *byte == 0) {
            bytes.truncate(end);
            return Some(bytes);
        }
        if read < bytes.len() || bytes.len() >= PATH_MAX {
            return None;
        }
        bytes.resize(PATH_MAX, 0);
    }
}

/// Returns the protocol and the port of an address that a socket is bound to; `None` for one that the kernel chooses, and
/// for addresses of other kinds.
fn port(thread: u32, arguments: &[u64; 6]) -> Option<(&'static str, u16)> {
    let mut address = [0; 4];
    if read_memory(thread, arguments[1], &mut address).ok()? < address.len() {
        return None;
    }
    let family = u16::from_ne_bytes([address[0], address[1]]);
    let is_ip = [
        rustix::net::AddressFamily::INET,
        rustix::net::AddressFamily::INET6,
    ]
    .iter()
    .any(|ip| ip.as_raw() == family);
    let number = u16::from_be_bytes([address[2], address[3]]);
    if !is_ip || number == 0 {
        return None;
    }
    let process = i32::try_from(process_of(thread)?).ok().and_then(Pid::from_raw)?;
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    let socket = i32::try_from(arguments[0] & u64::from(u32::MAX)).ok()?;
    let socket = pidfd_getfd(process, socket, PidfdGetfdFlags::empty()).ok()?;
    match rustix::net::sockopt::socket_type(socket).ok()? {
        SocketType::STREAM => Some(("tcp", number)),
        SocketType::DGRAM => Some(("udp", number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that opens names without end fills no memory, and is told from one that has opened less.
    #[test]
    fn names_without_end_take_a_bounded_room() {
        let mut recorder = Recorder {
            begin: Instant::now(),
            run: 1,
            uses: BTreeMap::new(),
            bytes: 0,
            overflowed: false,
            calls: BTreeSet::new(),
            capabilities: BTreeSet::new(),
            ports: BTreeSet::new(),
            names: HashMap::new(),
            known: BTreeSet::new(),
            begun: true,
            failure: None,
        };
        let name = |number: usize| {
            let mut path = format!("/{number}/").into_bytes();
            path.resize(PATH_MAX - 1, b'x');
            path
        };
        recorder.note(1, b"/seldom".to_vec());
        assert!(!recorder.overflowed);
        for number in 0..MOST_BYTES / PATH_MAX + 10 {
            recorder.note(1, name(number));
        }
        assert!(recorder.overflowed && recorder.bytes <= MOST_BYTES);
        let taken: usize = recorder.uses.keys().map(Vec::capacity).sum();
        assert!(taken <= MOST_BYTES, "{taken}");
        let heard = recorder.heard();
        let text = serde_json::to_vec(&heard).unwrap();
        assert!(text.len() as u64 <= super::super::LONGEST, "{} bytes", text.len());
        assert_eq!(serde_json::from_slice::<Heard>(&text).unwrap(), heard);
    }
}
