//! Members: containers that come into a machine which runs already, with disks of their own.
//!
//! A member is attended by a process in a sandbox of its own, as the machine's first container is, which stands in the network
//! namespace of the machine's sandbox. To the attendant of the machine that process is a visitor who brings disks: before its first
//! message it sends one line that names them, with their descriptors. The machine has them as long as the container runs.
//!
//! Visitors of a member come to its own attendant, but those who bring a file for the spare disk, which only the machine's attendant
//! can exchange: before their first message they send it one line with the member's name.

use crate::plug::{Change, Plug};
use crate::vmm::Booted;
use crate::{Disk, VmmError};
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tote_channel::{Event, Session};

/// Container of a machine that has others already. Its paths are those of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Name of the socket on which the container's own visitors come.
    pub name: String,
    /// Disks of the container, with serial numbers that no other one of the machine has.
    pub disks: Vec<Disk>,
}

/// Line before the messages of a member, or of a visitor of one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    /// Name of the member.
    name: String,
    /// Disks that it brings; a visitor brings none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disks: Option<Vec<Brought>>,
}

/// Disk that a member brings.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Brought {
    serial: String,
    readonly: bool,
}

/// Longest line.
const LONGEST: usize = 8192;

/// First byte of the line, with which no message begins.
pub(crate) const BEGINS: u8 = b'{';

/// Returns the line of a container with these disks, or of a visitor of it.
pub(crate) fn line(name: &str, disks: Option<&[Disk]>) -> Result<Vec<u8>, VmmError> {
    let brought = |disk: &Disk| Brought {
        serial: disk.serial.clone(),
        readonly: disk.readonly,
    };
    let opening = Opening {
        name: name.to_owned(),
        disks: disks.map(|disks| disks.iter().map(brought).collect()),
    };
    let mut line = serde_json::to_vec(&opening).map_err(|error| VmmError::Qmp(error.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

/// Line that has been read.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Name of the member.
    pub(crate) name: String,
    /// Disks of the member itself.
    pub(crate) plugs: Option<Vec<Plug>>,
    /// Bytes of the line.
    pub(crate) length: usize,
}

/// Parses the line, and takes the descriptors of its disks. `None` if it is not one, or has not the descriptors that it names.
pub(crate) fn opened(bytes: &[u8], fds: &mut Vec<OwnedFd>) -> Option<Opened> {
    let end = bytes.iter().take(LONGEST).position(|byte| *byte == b'\n')?;
    let opening: Opening = serde_json::from_slice(&bytes[..end]).ok()?;
    let disks = opening.disks.map(|disks| (disks, std::mem::take(fds)));
    if disks
        .as_ref()
        .is_some_and(|(disks, fds)| disks.len() != fds.len())
    {
        return None;
    }
    let plug = |(disk, file): (Brought, OwnedFd)| Plug {
        serial: disk.serial,
        file,
        readonly: disk.readonly,
    };
    Some(Opened {
        name: opening.name,
        plugs: disks.map(|(disks, fds)| disks.into_iter().zip(fds).map(plug).collect()),
        length: end + 1,
    })
}

/// Process that a member has asked for, and that waits for disks.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) session: u16,
    pub(crate) plan: Vec<u8>,
    pub(crate) terminal: Option<(u16, u16)>,
}

/// Member, as the machine's attendant knows it.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    /// Name of the socket on which its own visitors come.
    pub(crate) name: String,
    /// Disks that the machine has, or gets.
    disks: BTreeSet<String>,
    /// Disks among them that it has not got yet.
    missing: BTreeSet<String>,
    /// True once all go.
    leaves: bool,
    refused: Option<String>,
    pub(crate) waiting: Option<Begin>,
    /// Process of the container.
    pub(crate) first: Option<Session>,
    /// Its end, which the member is told once its disks are its own again.
    end: Option<Event>,
}

/// Work that follows from a change.
#[derive(Debug)]
pub(crate) enum Next {
    /// Nothing yet.
    Nothing,
    /// The container begins.
    Begin(Begin),
    /// The container cannot begin: number of the process, and reason.
    Refuse(u16, String),
    /// The member is told the end.
    Tell(Event),
    /// Nothing is left of it.
    Forget,
}

impl Guest {
    /// Gives the machine the disks of a new member.
    pub(crate) fn come(name: String, plugs: Vec<Plug>, machine: &mut dyn Booted) -> Result<Self, VmmError> {
        let serials: BTreeSet<String> = plugs.iter().map(|plug| plug.serial.clone()).collect();
        let guest = Self {
            name,
            disks: serials.clone(),
            missing: serials,
            ..Self::default()
        };
        plugs.into_iter().try_for_each(|plug| machine.attach(plug))?;
        Ok(guest)
    }

    /// True once the machine has none of its disks.
    pub(crate) fn is_out(&self) -> bool {
        self.disks.is_empty()
    }

    /// True if this disk is the member's.
    pub(crate) fn brings(&self, serial: &str) -> bool {
        self.disks.contains(serial)
    }

    /// Takes the disks away; `end` is told when they are gone.
    pub(crate) fn leave(&mut self, end: Option<Event>, machine: &mut dyn Booted) -> Result<(), VmmError> {
        self.end = end.or(self.end.take());
        if std::mem::replace(&mut self.leaves, true) {
            return Ok(());
        }
        self.disks.iter().try_for_each(|serial| machine.detach(serial))
    }

    /// Takes a change of one of its disks.
    pub(crate) fn changed(&mut self, change: Change, machine: &mut dyn Booted) -> Result<Next, VmmError> {
        match change {
            Change::Attached(serial) => {
                self.missing.remove(&serial);
                let begins = self.missing.is_empty() && self.refused.is_none();
                let waiting = self.waiting.take_if(|_| begins);
                return Ok(waiting.map_or(Next::Nothing, Next::Begin));
            }
            Change::Refused(serial, reason) => {
                self.missing.remove(&serial);
                self.disks.remove(&serial);
                self.refused.get_or_insert(reason);
                self.leave(None, machine)?;
            }
            Change::Detached(serial) => _ = self.disks.remove(&serial),
        }
        if !self.is_out() {
            return Ok(Next::Nothing);
        }
        Ok(match (self.refusal(), self.end.take()) {
            (Some(next), _) => next,
            (None, Some(end)) => Next::Tell(end),
            (None, None) => Next::Forget,
        })
    }

    /// Returns what a process gets that waits for disks which the machine cannot have, once it has none of them.
    fn refusal(&mut self) -> Option<Next> {
        let reason = self.refused.as_ref().filter(|_| self.disks.is_empty())?;
        let begin = self.waiting.take()?;
        Some(Next::Refuse(begin.session, reason.clone()))
    }

    /// Takes a process that is to begin: at once if the machine has all disks.
    pub(crate) fn ask(&mut self, begin: Begin) -> Next {
        if self.missing.is_empty() && self.refused.is_none() {
            return Next::Begin(begin);
        }
        self.waiting = Some(begin);
        self.refusal().unwrap_or(Next::Nothing)
    }
}
