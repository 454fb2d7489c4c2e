//! Records of networks: `networks/NAME/network.json`, and the leases beside it.

use super::{NetworkDriver, NetworkFault};
use crate::container::fault;
use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tote_bundle::NetworkMode;
use tote_network::{Address, Leases, Prefix};
use tote_state::StateError;
use tote_state::closed;
use tote_state::events::Event;
use tote_state::locked::{is_full_disk, locked_within};
use tote_state::record::Kind;
use tote_state::record::names_in;
use tote_state::records::{self, Records};
use tote_sys::best_effort;

/// The record in a network's directory.
const FILE: &str = "network.json";

const KIND: Kind = Kind {
    noun: "network",
    remove: "tote network rm",
};

/// A network as it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    pub name: String,
    /// 64 hexadecimal digits.
    pub id: String,
    /// When it was made: nanoseconds since 1970.
    pub created: u64,
    /// How containers are connected with it.
    #[serde(default, skip_serializing_if = "NetworkDriver::has_bridge")]
    pub driver: NetworkDriver,
    /// Its IPv4 addresses.
    #[serde(flatten)]
    pub ipv4: Addresses<Ipv4Addr>,
    /// Its IPv6 addresses; `None` of a network without IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Addresses<Ipv6Addr>>,
    #[serde(default)]
    pub internal: bool,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// The addresses of a network, of one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "A: Address + Serialize + for<'a> Deserialize<'a>")]
pub(crate) struct Addresses<A> {
    pub subnet: Prefix<A>,
    /// The host's address in it.
    pub gateway: A,
    /// The part of the subnet that containers get addresses of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_range: Option<Prefix<A>>,
}

impl<A: Address> Addresses<A> {
    /// The addresses that containers get.
    pub(crate) fn range(&self) -> Prefix<A> {
        self.ip_range.unwrap_or(self.subnet)
    }
}

impl Network {
    /// The name of its bridge: the one that was asked for, or its alias.
    pub(crate) fn bridge(&self) -> String {
        self.bridge_name().map_or_else(|| self.alias(), str::to_owned)
    }

    /// The alias of its bridge, which follows from the network's id.
    pub(crate) fn alias(&self) -> String {
        format!("tote-{}", self.id.get(..10).unwrap_or(&self.id))
    }

    /// Something that happens to it now; docker's word for that.
    pub(crate) fn event(&self, action: &str) -> Event {
        let event = Event::of("network", action, &self.id);
        event.with("name", &self.name).with("type", self.driver.as_str())
    }

    /// The record of a network; `None` where no network has that name.
    pub(crate) fn read(home: &Home, name: &str) -> Result<Option<Self>, EngineError> {
        Ok(KIND.read(name, &dir(home, name).join(FILE))?)
    }

    /// Writes it down. The caller holds the lock.
    pub(crate) fn write(&self, home: &Home) -> Result<(), EngineError> {
        put_mark(home, &self.name)?;
        for path in [dir(home, &self.name), lease_dir(home, &self.name)] {
            made(&path)?;
        }
        fault::point("network-unwritten");
        tote_state::record::write(&dir(home, &self.name).join(FILE), self)?;
        fault::point("network-written");
        best_effort(std::fs::remove_file(mark(home, &self.name)));
        Ok(())
    }

    pub(crate) fn leases(&self, home: &Home) -> Leases {
        leases(home, &self.name)
    }
}

/// The leases of the network of that name.
pub(crate) fn leases(home: &Home, name: &str) -> Leases {
    Leases::new(lease_dir(home, name))
}

/// Removes what is written down of a network. The caller holds the lock, and has seen that no container has a lease.
pub(crate) fn remove(home: &Home, name: &str) -> Result<(), EngineError> {
    tote_state::record::remove(&dir(home, name).join(FILE))?;
    fault::point("network-unrecorded");
    remove_dir(home, name)
}

/// Removes the directory of a network whose record is gone, if it is there. The caller holds the lock.
pub(crate) fn remove_dir(home: &Home, name: &str) -> Result<(), EngineError> {
    let dir = dir(home, name);
    match tote_sys::remove_tree(&dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(EngineError::file("remove", dir)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn dir(home: &Home, name: &str) -> PathBuf {
    home.networks().join(name)
}

fn lease_dir(home: &Home, name: &str) -> PathBuf {
    dir(home, name).join("leases")
}

/// The note of which settings of the host's were changed.
pub(crate) fn note(home: &Home) -> PathBuf {
    home.networks().join(".forwarding")
}

/// Whether no other network of this state root is up.
pub(crate) fn is_last_up(home: &Home, name: &str) -> Result<bool, EngineError> {
    let own = mark(home, name);
    let marks = names_in(&home.live())?
        .into_iter()
        .filter(|file| file.ends_with(UP));
    Ok(!marks.map(|file| home.live().join(file)).any(|mark| mark != own))
}

/// Says that a network is up, or that its record is being made or removed: the next command that finds the mark looks after the rest.
pub(crate) fn put_mark(home: &Home, name: &str) -> Result<(), EngineError> {
    made(&home.live())?;
    let mark = mark(home, name);
    closed::write(&mark, b"").map_err(EngineError::file("make", mark))
}

/// Makes the mark of a removal. A full disk has no room for one, and must not keep anybody from removing something: without the
/// mark, what a killed command leaves stays longer.
pub(crate) fn mark_removal(mark: &Path) -> Result<(), EngineError> {
    match closed::write(mark, b"") {
        Err(error) if !is_full_disk(&error) => Err(EngineError::file("make", mark)(error)),
        _ => Ok(()),
    }
}

/// Marks a network as up, with a copy of its record, by which it is taken down if the record is lost meanwhile. A full disk has no room
/// for the copy.
pub(crate) fn mark_up(home: &Home, network: &Network) -> Result<(), EngineError> {
    let mark = mark(home, &network.name);
    let copy = tote_state::record::text(network).map_err(EngineError::file("make", &mark))?;
    match closed::write(&mark, copy) {
        Err(error) if is_full_disk(&error) => put_mark(home, &network.name),
        written => written.map_err(EngineError::file("make", mark)),
    }
}

/// The copy in the mark of a network that is up; `None` without a mark, or without a copy in it.
fn marked(home: &Home, name: &str) -> Option<Network> {
    let mark = mark(home, name);
    let text = tote_state::short::read(&mark).ok()?;
    tote_state::record::parse(&mark, &text).ok()
}

/// The record of a network that may be up: of a lost record, the copy in the mark, if there is one.
pub(crate) fn read_up(home: &Home, name: &str) -> Result<UpRecord, EngineError> {
    match Network::read(home, name) {
        Ok(Some(network)) => Ok(UpRecord::Known(Box::new(network))),
        Ok(None) => Ok(UpRecord::Missing),
        Err(EngineError::State(StateError::Damaged(_))) => {
            Ok(marked(home, name).map_or(UpRecord::Damaged, |network| UpRecord::Known(Box::new(network))))
        }
        Err(error) => Err(error),
    }
}

/// Record of a network that may be up.
pub(crate) enum UpRecord {
    /// The record, or a copy.
    Known(Box<Network>),
    /// No record.
    Missing,
    /// A record that cannot be used, without a copy.
    Damaged,
}

/// The file that says so.
pub(crate) fn mark(home: &Home, name: &str) -> PathBuf {
    home.live().join(format!("{name}{UP}"))
}

/// How that file is called, behind the network's name.
pub const UP: &str = ".network";

/// Makes a directory that only its owner may open.
pub(crate) fn made(path: &Path) -> Result<(), EngineError> {
    closed::directory(path).map_err(EngineError::file("make", path))
}

/// The sole right to change networks and their members. Its holder waits for nothing but the kernel. A process that has waited for it
/// in vain once waits no more: a sweep that finds ten containers does not take ten minutes.
pub(crate) fn lock(home: &Home) -> Result<File, EngineError> {
    static HAS_WAITED: AtomicBool = AtomicBool::new(false);
    made(&home.networks())?;
    let path = home.networks().join(LOCK);
    let limit = match HAS_WAITED.load(Ordering::Relaxed) {
        true => Duration::ZERO,
        false => tote_sys::MOMENT_LOCK,
    };
    let taken = locked_within(&path, true, Some(limit));
    HAS_WAITED.store(taken.is_err(), Ordering::Relaxed);
    taken?.ok_or_else(|| EngineError::file("lock", path)(ErrorKind::WouldBlock))
}

/// Does [`lock`] without a wait; `None` while another process has the lock.
pub(crate) fn try_lock(home: &Home) -> Result<Option<File>, EngineError> {
    made(&home.networks())?;
    Ok(locked_within(&home.networks().join(LOCK), true, None)?)
}

/// Name of the file that is locked.
const LOCK: &str = ".lock";

/// Every network that is written down, by name; the default one only where it has been used.
pub(crate) fn all(home: &Home) -> Result<Records<Network>, EngineError> {
    let place = |name: &str| is_name(name).then(|| (name.to_owned(), dir(home, name).join(FILE)));
    Ok(records::list(KIND, &home.networks(), place)?)
}

/// Every network whose record can be used, for decisions that no other network can concern.
pub(crate) fn usable(home: &Home) -> Result<impl Iterator<Item = Network>, EngineError> {
    Ok(all(home)?.whole.into_iter().map(|(_, network)| network))
}

/// Returns the name of a network that is named by the beginning of its id; any other text is returned as it is.
pub fn name_of(home: &Home, wanted: &str) -> Result<String, EngineError> {
    match find(home, wanted) {
        Ok(network) => Ok(network.name),
        Err(error)
            if matches!(
                error.part(),
                Some(NetworkFault::NotFound(_) | NetworkFault::Ambiguous(_))
            ) =>
        {
            Ok(wanted.to_owned())
        }
        Err(error) => Err(error),
    }
}

/// The network of that name, or the one whose id begins so.
pub(crate) fn find(home: &Home, wanted: &str) -> Result<Network, EngineError> {
    if is_name(wanted)
        && let Some(network) = Network::read(home, wanted)?
    {
        return Ok(network);
    }
    let mut found = usable(home)?.filter(|network| {
        let is_number = wanted.bytes().all(|byte| byte.is_ascii_hexdigit());
        !wanted.is_empty() && is_number && network.id.starts_with(wanted)
    });
    match (found.next(), found.next()) {
        (Some(network), None) => Ok(network),
        (Some(_), Some(_)) => Err(NetworkFault::Ambiguous(wanted.to_owned()).into()),
        (None, _) => Err(NetworkFault::NotFound(wanted.to_owned()).into()),
    }
}

/// Whether a network can be called so.
pub(crate) fn is_name(text: &str) -> bool {
    let is_named = matches!(text.parse(), Ok(NetworkMode::Networks(_)));
    // The long form describes a network, it does not name one.
    is_named && !text.contains('=') && text != "default" && text.len() <= 128
}
