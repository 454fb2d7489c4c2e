//! The calls of a container, as the kernel reports them to the listener of a filter, seccomp_unotify(2).
//!
//! Any user may have such reports of the user's own containers. Each reported call waits for an answer, so only calls
//! are reported that are rare or that tell something. A process of its own answers (`recorder.rs`): a container that
//! outlives the command, or one whose monitor was killed, does not wait for anybody.

mod calls;
mod recorder;

pub use calls::ALWAYS;

use super::SlimError;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};
use tote_needs::Use;
use tote_runtime::Aside;
use tote_sandbox::Plan;
use tote_sys::Errno;

/// Kinds of calls that are heard of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hearing {
    /// Opened files and begun programs.
    pub files: bool,
    /// All calls but those of [`ALWAYS`], with the capabilities and ports that they say something about.
    pub rights: bool,
}

/// Setting of a recorder.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Setting {
    /// Nanoseconds since the start of the run.
    elapsed: u64,
    run: u32,
}

/// First use of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeardUse {
    /// Process in the container.
    pub pid: u32,
    /// Program of the process.
    pub program: String,
    /// Milliseconds since the start of the run.
    pub millis: u64,
    /// Number of the run.
    pub run: u32,
}

impl From<HeardUse> for Use {
    fn from(heard: HeardUse) -> Self {
        Self {
            pid: heard.pid,
            program: heard.program.into(),
            at: Duration::from_millis(heard.millis),
            run: heard.run,
        }
    }
}

/// Path as its bytes; in JSON base64, because a list of numbers takes four times as much.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<u8>);

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = BASE64_STANDARD.decode(text);
        bytes.map(Self).map_err(serde::de::Error::custom)
    }
}

/// Longest text that a recorder sends: what it may note, in base64 with words about each.
pub(crate) const LONGEST: u64 = 64 << 20;

/// Everything that was heard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// Files, without a leading slash.
    pub uses: Vec<(Path, HeardUse)>,
    /// Names of calls.
    pub calls: BTreeSet<String>,
    /// Short names of capabilities that these calls may need.
    pub capabilities: BTreeSet<String>,
    /// Ports that sockets were bound to, as `80/tcp`.
    pub ports: BTreeSet<String>,
    /// True if more files were used than are noted.
    pub overflowed: bool,
    /// Error number of a listener that failed.
    pub failure: Option<i32>,
}

impl Heard {
    /// Adds what was heard elsewhere. The first use of a file stays.
    pub fn add(&mut self, other: Self) {
        let known: BTreeSet<Path> = self.uses.iter().map(|(path, _)| path.clone()).collect();
        let new = other.uses.into_iter().filter(|(path, _)| !known.contains(path));
        self.uses.extend(new);
        self.calls.extend(other.calls);
        self.capabilities.extend(other.capabilities);
        self.ports.extend(other.ports);
        self.overflowed |= other.overflowed;
        self.failure = self.failure.or(other.failure);
    }
}

/// The listeners of a container, as the process sees them that started it.
#[derive(Debug)]
pub struct Listening {
    hearing: Hearing,
    begin: Instant,
    run: u32,
    /// Connections to the processes that answer.
    recorders: Vec<OwnedFd>,
    failure: Option<Errno>,
}

impl Listening {
    /// Begins to listen to a run of this number.
    pub fn new(hearing: Hearing, run: u32) -> Self {
        Self {
            hearing,
            begin: Instant::now(),
            run,
            recorders: Vec::new(),
            failure: None,
        }
    }

    /// Makes a plan report calls.
    ///
    /// # Errors
    /// [`tote_sandbox::PlanError`].
    pub fn listen_to(&self, plan: &mut Plan) -> Result<(), tote_sandbox::PlanError> {
        match self.hearing.rights {
            true => plan.listen(&calls::heard(self.hearing.files)),
            false => plan.listen(&calls::FILES),
        }
    }

    /// Lets a process of its own answer a listener. Without it the container's calls fail, and so does [`Self::heard`].
    pub fn answer(&mut self, listener: &OwnedFd) {
        match self.recorder(listener) {
            Ok(recorder) => self.recorders.push(recorder),
            Err(errno) => self.failure = Some(errno),
        }
    }

    fn recorder(&self, listener: &OwnedFd) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // process: listener
        tote_sys::fork_apart(theirs, recorder::record)?;
        let elapsed = self.begin.elapsed().as_nanos();
        let setting = Setting {
            elapsed: u64::try_from(elapsed).unwrap_or(u64::MAX),
            run: self.run,
        };
        let setting = serde_json::to_vec(&setting).unwrap_or_default();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [listener.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let flags = SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&ours, &[IoSlice::new(&setting)], &mut control, flags)?;
        Ok(ours)
    }

    /// Waits until no process has the filter, and returns what was heard.
    ///
    /// # Errors
    /// [`SlimError::Listen`]: a listener was not answered.
    pub fn heard(self) -> Result<Heard, SlimError> {
        let mut heard = Heard::default();
        for recorder in self.recorders {
            let mut text = Vec::new();
            let read = File::from(recorder).take(LONGEST).read_to_end(&mut text);
            read.map_err(|error| SlimError::Listen(errno_of(&error)))?;
            let one = serde_json::from_slice(&text).map_err(|_| SlimError::Listen(Errno::PIPE))?;
            heard.add(one);
        }
        match self.failure.or(heard.failure.map(Errno::from_raw_os_error)) {
            Some(errno) => Err(SlimError::Listen(errno)),
            None if heard.overflowed => Err(SlimError::Overflow),
            None => Ok(heard),
        }
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Aside for Listening {
    fn listener(&mut self, listener: OwnedFd) -> Option<OwnedFd> {
        self.answer(&listener);
        None
    }
}
