//! Lists and descriptions of networks and their members.

use super::NetworkFault;
use super::error::fault_of;
use super::record::{self, Addresses, Network};
use crate::container::{self, link_text};
use crate::{EngineError, Home};
use std::collections::BTreeMap;
use std::mem::discriminant;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tote_bundle::{ContainerId, DEFAULT_NETWORK, RunOptions};
use tote_network::{Address, Mac};
use tote_records::look::{Pattern, has_label, label};
use tote_state::StateError;
use tote_state::record::Damaged;

/// Which networks to list: filters of one key are alternatives, and one of each key must apply.
#[derive(Clone, Debug, Default)]
pub struct NetworkSelection {
    /// `KEY=VALUE` each.
    pub filters: Vec<String>,
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRow {
    /// The name.
    pub name: String,
    /// 64 digits.
    pub id: String,
    /// `bridge`, `macvlan`, `ipvlan`, `host` or `null`.
    pub driver: &'static str,
    /// When it was made: nanoseconds since 1970.
    pub created: u64,
    /// True if its members reach only each other.
    pub internal: bool,
    /// Whether it has IPv6 addresses.
    pub ipv6: bool,
    /// `--label`
    pub labels: BTreeMap<String, String>,
    /// Why it cannot be used, and what to do about it; empty for a network that can.
    pub error: String,
}

/// A network with all that a description of it tells.
#[derive(Clone, Debug)]
pub struct NetworkDetails {
    /// The network.
    pub row: NetworkRow,
    /// Its addresses: of IPv4, then of IPv6; none of a network that is the kernel's alone.
    pub ranges: Vec<NetworkRange>,
    /// Options of its driver, as given.
    pub options: BTreeMap<String, String>,
    /// Name of the bridge, if it is the default network.
    pub default_bridge: Option<String>,
    /// Containers that are in the network now.
    pub members: Vec<NetworkMember>,
}

/// Addresses of a network, of one protocol.
#[derive(Clone, Debug)]
pub struct NetworkRange {
    /// The subnet: address and prefix.
    pub subnet: String,
    /// The gateway's address.
    pub gateway: String,
    /// The part of the subnet from which containers get their addresses, if not from all of it.
    pub part: Option<String>,
}

/// A container in a network.
#[derive(Clone, Debug)]
pub struct NetworkMember {
    /// Id of the container.
    pub id: ContainerId,
    /// Name of the container.
    pub name: String,
    /// Hardware address of its link.
    pub mac: String,
    /// Its address with the prefix of the network.
    pub ipv4: String,
    /// Its IPv6 address with the prefix of the network.
    pub ipv6: Option<String>,
}

/// The two networks that are the kernel's alone; docker lists them, too.
fn builtin(name: &str) -> Option<NetworkRow> {
    let (digit, driver) = match name {
        "host" => (0x01, "host"),
        "none" => (0x02, "null"),
        _ => return None,
    };
    Some(NetworkRow {
        name: name.to_owned(),
        id: ContainerId::from_bytes([digit; 32]).to_string(),
        driver,
        created: 0,
        internal: false,
        ipv6: false,
        labels: BTreeMap::new(),
        error: String::new(),
    })
}

/// The row of a network whose record cannot be used: its name is known.
fn damaged_row(damaged: &Damaged) -> NetworkRow {
    NetworkRow {
        name: damaged.name.clone(),
        id: String::new(),
        driver: "damaged",
        created: 0,
        internal: false,
        ipv6: false,
        labels: BTreeMap::new(),
        error: damaged.told(),
    }
}

fn row(network: Network) -> NetworkRow {
    NetworkRow {
        name: network.name,
        id: network.id,
        driver: network.driver.as_str(),
        created: network.created,
        internal: network.internal,
        ipv6: network.ipv6.is_some(),
        labels: network.labels,
        error: String::new(),
    }
}

/// Names of networks, as far as they can be had.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    let mut names = Vec::new();
    // absence: completions of a shell
    if let Ok(own) = record::all(home) {
        names.extend(own.whole.into_iter().map(|(name, _)| name));
        names.extend(own.damaged.into_iter().map(|damaged| damaged.name));
    }
    names.extend([DEFAULT_NETWORK, "host", "none"].map(str::to_owned));
    names.sort();
    names.dedup();
    names
}

/// Whether there is a network of that name or id.
///
/// # Errors
/// [`EngineError`]: the networks cannot be looked at.
pub fn exists(home: &Home, wanted: &str) -> Result<bool, EngineError> {
    if builtin(wanted).is_some() || wanted == DEFAULT_NETWORK {
        return Ok(true);
    }
    match record::find(home, wanted) {
        Ok(_) | Err(EngineError::State(StateError::Damaged(_))) => Ok(true),
        Err(error) if error.part().is_some_and(NetworkFault::is_missing) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The networks that fit, by name. Root's default network is made by that, as its first container would do it; a full disk has
/// no room for it, and it is left out there.
///
/// # Errors
/// [`NetworkFault::Filter`], and [`EngineError`] where they cannot be listed.
pub fn networks(home: &Home, selection: &NetworkSelection) -> Result<Vec<NetworkRow>, EngineError> {
    let filters = selection.filters.iter().map(|text| Filter::parse(text));
    let filters = filters.collect::<Result<Vec<_>, _>>()?;
    if super::rootless::unavailable(home).is_none()
        && let Err(error) = make_default(home)
        && !error.is_full()
        && !matches!(error, EngineError::State(StateError::Damaged(_)))
    {
        return Err(error);
    }
    let used = if filters.iter().any(|filter| matches!(filter, Filter::Dangling(_))) {
        used(home)?
    } else {
        Vec::new()
    };
    let own = record::all(home)?;
    let mut rows: Vec<_> = own.whole.into_iter().map(|(_, network)| row(network)).collect();
    rows.extend(own.damaged.iter().map(damaged_row));
    rows.extend(["host", "none"].into_iter().filter_map(builtin));
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    rows.retain(|row| {
        let fits = |filter: &Filter| {
            let key = discriminant(filter);
            let mut same = filters.iter().filter(|other| discriminant(*other) == key);
            same.any(|filter| filter.fits(row, &used))
        };
        filters.iter().all(fits)
    });
    Ok(rows)
}

fn make_default(home: &Home) -> Result<(), EngineError> {
    let _lock = record::lock(home)?;
    super::create::default_network(home).map(drop)
}

/// A condition of `--filter`.
enum Filter {
    Name(Pattern),
    Id(String),
    Driver(String),
    Label(String),
    /// `true`: of those that users have made.
    Custom(bool),
    Dangling(bool),
    Scope(String),
}

impl Filter {
    fn parse(text: &str) -> Result<Self, NetworkFault> {
        let wrong = || NetworkFault::Filter(text.to_owned());
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let own = || value.to_owned();
        Ok(match key {
            "name" => Self::Name(Pattern::parse(value).ok_or_else(wrong)?),
            "id" => Self::Id(own()),
            "driver" => Self::Driver(own()),
            "label" => Self::Label(own()),
            "scope" => Self::Scope(own()),
            "type" if value == "custom" => Self::Custom(true),
            "type" if value == "builtin" => Self::Custom(false),
            "dangling" if matches!(value, "true" | "1") => Self::Dangling(true),
            "dangling" if matches!(value, "false" | "0") => Self::Dangling(false),
            _ => return Err(wrong()),
        })
    }

    fn fits(&self, row: &NetworkRow, used: &[String]) -> bool {
        let is_custom = !matches!(row.name.as_str(), DEFAULT_NETWORK | "host" | "none");
        match self {
            Self::Name(pattern) => pattern.is_in(&row.name),
            Self::Id(id) => row.id.starts_with(id),
            Self::Driver(driver) => row.driver == driver,
            Self::Label(wanted) => {
                let (key, value) = label(wanted);
                has_label(&row.labels, &key, value.as_deref())
            }
            Self::Custom(custom) => is_custom == *custom,
            Self::Dangling(dangling) => {
                let is_used = !is_custom || used.contains(&row.name);
                is_used != *dangling
            }
            Self::Scope(scope) => scope == "local",
        }
    }
}

/// The networks that some container names, whether it runs or not.
pub(crate) fn used(home: &Home) -> Result<Vec<String>, EngineError> {
    let mut used = Vec::new();
    for entry in container::list_startable(home)? {
        let options: RunOptions = entry.container.run_options()?;
        let attachments = options.network.attachments().iter();
        used.extend(attachments.map(|attachment| attachment.network.clone()));
    }
    Ok(used)
}

/// A container that is in a network now.
pub(crate) struct Member {
    id: ContainerId,
    pub name: String,
    address: Ipv4Addr,
    ipv6: Option<Ipv6Addr>,
    /// The hardware address of its link.
    mac: String,
}

/// The containers that are in a network now.
pub(crate) fn members(home: &Home, network: &str) -> Result<Vec<Member>, EngineError> {
    let leases = record::leases(home, network).all();
    let leases = leases.map_err(|source| fault_of(network, source))?;
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    let entries = container::list(home)?;
    let named = leases.iter().filter_map(|(address, holder)| {
        let IpAddr::V4(address) = *address else {
            return None;
        };
        let ipv6 = leases.iter().find_map(|(address, other)| match address {
            IpAddr::V6(address) if other == holder => Some(*address),
            _ => None,
        });
        let entry = entries
            .iter()
            .find(|entry| link_text(&entry.container.id) == *holder);
        let (id, name) = match entry {
            Some(entry) => (entry.container.id.clone(), entry.container.display().to_owned()),
            // It is being born, or removed.
            None => {
                let id = container::parse_link(holder)?;
                (id.clone(), id.short().to_owned())
            }
        };
        let mut endpoints = entry.into_iter().flat_map(|entry| &entry.state.networks);
        let endpoint = endpoints.find(|endpoint| endpoint.network == network);
        let mac = endpoint.map_or_else(|| Mac::of(address).to_string(), |endpoint| endpoint.mac.clone());
        Some(Member {
            id,
            name,
            address,
            ipv6,
            mac,
        })
    });
    Ok(named.collect())
}

/// Looks at a network.
///
/// # Errors
/// [`NetworkFault::NotFound`] and its like.
pub fn inspect(home: &Home, wanted: &str) -> Result<NetworkDetails, EngineError> {
    if let Some(row) = builtin(wanted) {
        return Ok(NetworkDetails {
            row,
            ranges: Vec::new(),
            options: BTreeMap::new(),
            default_bridge: None,
            members: Vec::new(),
        });
    }
    if wanted == DEFAULT_NETWORK && super::rootless::unavailable(home).is_none() {
        make_default(home)?;
    }
    let network = record::find(home, wanted)?;
    let members = members(home, &network.name)?.into_iter().map(|member| {
        let ipv6 = member.ipv6.zip(network.ipv6);
        NetworkMember {
            ipv4: format!("{}/{}", member.address, network.ipv4.subnet.prefix()),
            ipv6: ipv6.map(|(address, of)| format!("{address}/{}", of.subnet.prefix())),
            id: member.id,
            name: member.name,
            mac: member.mac,
        }
    });
    let members = members.collect();
    let ipv6 = network.ipv6.as_ref().map(range);
    Ok(NetworkDetails {
        ranges: std::iter::once(range(&network.ipv4)).chain(ipv6).collect(),
        options: network.options.clone(),
        default_bridge: (network.name == DEFAULT_NETWORK).then(|| network.bridge()),
        row: row(network),
        members,
    })
}

fn range<A: Address>(of: &Addresses<A>) -> NetworkRange {
    NetworkRange {
        subnet: of.subnet.to_string(),
        gateway: of.gateway.to_string(),
        part: of.ip_range.map(|part| part.to_string()),
    }
}
