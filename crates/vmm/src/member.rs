//! Members: containers that come into a machine which runs already, with disks of their own.
//!
//! A member is attended by a process in a sandbox of its own, as the machine's first container is, which stands in the network
//! namespace of the machine's sandbox. To the attendant of the machine that process is a visitor who brings disks: before its first
//! message it sends one line that names them, with their descriptors. The machine has them as long as the container runs.

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

/// Line before the messages of a member.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Brings {
    disks: Vec<Brought>,
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

/// Returns the line of a container with these disks.
pub(crate) fn line(disks: &[Disk]) -> Result<Vec<u8>, VmmError> {
    let disks = disks.iter().map(|disk| Brought {
        serial: disk.serial.clone(),
        readonly: disk.readonly,
    });
    let brings = Brings {
        disks: disks.collect(),
    };
    let mut line = serde_json::to_vec(&brings).map_err(|error| VmmError::Qmp(error.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

/// Parses the line; returns the disks, and the number of bytes. `None` if it is not one, or has not the descriptors that it names.
pub(crate) fn brought(bytes: &[u8], fds: Vec<OwnedFd>) -> Option<(Vec<Plug>, usize)> {
    let end = bytes.iter().take(LONGEST).position(|byte| *byte == b'\n')?;
    let brings: Brings = serde_json::from_slice(&bytes[..end]).ok()?;
    if brings.disks.len() != fds.len() {
        return None;
    }
    let disks = brings.disks.into_iter().zip(fds).map(|(disk, file)| Plug {
        serial: disk.serial,
        file,
        readonly: disk.readonly,
    });
    Some((disks.collect(), end + 1))
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
    pub(crate) fn come(plugs: Vec<Plug>, machine: &mut dyn Booted) -> Result<Self, VmmError> {
        let serials: BTreeSet<String> = plugs.iter().map(|plug| plug.serial.clone()).collect();
        let guest = Self {
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
