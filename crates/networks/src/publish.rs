//! Published ports: which of the host's ports lead to a container.

use super::endpoint::{Endpoint, PortRecord, ports_of, way_out};
use super::error::fault_of_link;
use super::{PublishFault, holder, record};
use crate::container::{self, Container, State};
use crate::{Caller, EngineError, Home};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tote_bundle::{ContainerId, ImageConfig, PortBinding, RunOptions, parse_expose};
use tote_network::{NetworkError, PublishedPort, Transport, Way};
use tote_state::config::{HostRules, host_rules};
use tote_sys::{Errno, best_effort};

/// The ports where Linux looks for free ones, unless its settings say others.
const EPHEMERAL: (u16, u16) = (32768, 60999);

/// How often other free ports are looked for, where a command of another state root was faster.
const ATTEMPTS: u32 = 8;

/// Publishes what a container is to have published, at the network that leads out. The caller holds the lock, and the
/// container's networks are up, by the bridges of that order; with `lost`, the ports of other containers may have been lost with a flushed ruleset.
///
/// # Errors
/// [`NetworkFault`](super::NetworkFault); nothing of the container's is published then, or [`withdraw`] finds it.
pub(crate) fn publish(
    home: &Home,
    id: &ContainerId,
    (options, config): (&RunOptions, &ImageConfig),
    (endpoints, bridges): (&mut [Endpoint], &[String]),
    lost: bool,
) -> Result<(), EngineError> {
    let exposed = config.exposed_ports.iter().chain(&options.exposed);
    let bindings = bindings(options, exposed);
    if bindings.is_empty() && !lost {
        return Ok(());
    }
    let mut taken = tote_network::published().map_err(PublishFault::Rules)?;
    if taken.is_none() {
        let former = former(home)?;
        if bindings.is_empty() && former.is_empty() {
            return Ok(());
        }
        put(&former, true)?;
        holder::lead(home, former.iter().map(|(port, _)| port))?;
        taken = Some(former);
    }
    if bindings.is_empty() {
        return Ok(());
    }
    if taken.iter().flatten().any(|(_, holder)| holder == id.as_str()) {
        // A start that was killed has left them.
        withdraw(home, id)?;
        taken
            .iter_mut()
            .for_each(|all| all.retain(|(_, holder)| holder != id.as_str()));
    }
    let place = way_out(endpoints, is_entrance);
    let way_in = place.and_then(|place| endpoints.get_mut(place).zip(bridges.get(place)));
    let Some((endpoint, bridge)) = way_in else {
        return Err(PublishFault::Within.into());
    };
    let taken = taken.unwrap_or_default();
    endpoint.ports = put_chosen((home, id), &bindings, (endpoint, bridge), taken, |_| Ok(()))?;
    Ok(())
}

/// Publishes what running containers have published and the packet filter does not. The caller holds the lock.
///
/// # Errors
/// [`NetworkFault`](super::NetworkFault).
pub(crate) fn restore(home: &Home) -> Result<(), EngineError> {
    let mut lost = former(home)?;
    if lost.is_empty() {
        return Ok(());
    }
    let taken = tote_network::published().map_err(PublishFault::Rules)?;
    let anew = taken.is_none();
    let taken = taken.unwrap_or_default();
    lost.retain(|one| !taken.contains(one));
    put(&lost, anew)?;
    holder::lead(home, lost.iter().map(|(port, _)| port))
}

/// Publishes more of a container that is in a network, beside what is published there already. Before the kernel does, `note`
/// gets what is chosen, for the last time what is published. The caller holds the lock.
///
/// # Errors
/// [`NetworkFault`](super::NetworkFault), and those of `note`; nothing more is published then.
pub(crate) fn publish_more(
    (home, id): (&Home, &ContainerId),
    bindings: &[PortBinding],
    at: (&Endpoint, &str),
    note: impl FnMut(&[PortRecord]) -> Result<(), EngineError>,
) -> Result<Vec<PortRecord>, EngineError> {
    let taken = match tote_network::published().map_err(PublishFault::Rules)? {
        Some(taken) => taken,
        None => {
            let former = former(home)?;
            put(&former, true)?;
            former
        }
    };
    put_chosen((home, id), bindings, at, taken, note)
}

/// Publishes ports of a running container, whose state names them before the kernel does. The caller holds the lock.
///
/// # Errors
/// As of [`publish_more`].
pub(crate) fn publish_now(
    home: &Home,
    id: &ContainerId,
    state: &mut State,
    bindings: &[PortBinding],
) -> Result<Vec<PortRecord>, EngineError> {
    let place = state.networks.iter().position(|one| !one.ports.is_empty());
    let place = place.or_else(|| way_out(&state.networks, is_entrance));
    let Some(endpoint) = place.and_then(|place| state.networks.get(place)).cloned() else {
        return Err(PublishFault::Within.into());
    };
    let bridge = record::find(home, &endpoint.network)?.bridge();
    tote_network::reflect(&endpoint.link).map_err(|source| fault_of_link(&endpoint.network, source))?;
    let note = |more: &[PortRecord]| {
        for one in state.networks.iter_mut().filter(|one| one.link == endpoint.link) {
            one.ports = [&*endpoint.ports, more].concat();
        }
        state.write(home, id)
    };
    let added = publish_more((home, id), bindings, (&endpoint, &bridge), note);
    if added.is_err() {
        let former = state.networks.iter_mut().find(|one| one.link == endpoint.link);
        former
            .into_iter()
            .for_each(|one| one.ports.clone_from(&endpoint.ports));
        best_effort(state.write(home, id));
    }
    added
}

/// Publishes the ports that went with a network at the next one of a running container that has ports, each at the same port of
/// this machine as before. Without such a network they are gone. The caller holds the lock.
pub(crate) fn move_ports(
    home: &Home,
    id: &ContainerId,
    state: &mut State,
    gone: &[Endpoint],
) -> Result<(), EngineError> {
    let place = way_out(&state.networks, is_entrance);
    let Some(next) = place.and_then(|place| state.networks.get(place)) else {
        return Ok(());
    };
    let ports: Vec<_> = gone.iter().flat_map(|one| &one.ports).collect();
    let is_first = |port: &&&PortRecord| !ports.iter().any(|other| port.is_twin_of(other));
    let fits = |port: &&&PortRecord| next.address_like(port.host.ip()).is_some();
    let kept = ports.iter().filter(is_first).filter(fits);
    let wanted: Vec<_> = kept.filter_map(|port| port.binding()).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    publish_now(home, id, state, &wanted).map(drop)
}

/// Moves the ports of a running container to the network by which its answers leave now. The caller holds the lock.
pub(crate) fn follow_way_out(home: &Home, id: &ContainerId, state: &mut State) -> Result<(), EngineError> {
    let next = way_out(&state.networks, is_entrance);
    let is_old = |(place, one): (usize, &Endpoint)| Some(place) != next && !one.ports.is_empty();
    let old: Vec<_> = state
        .networks
        .iter()
        .enumerate()
        .filter(|one| is_old(*one))
        .map(|(_, one)| one.clone())
        .collect();
    if next.is_none() || old.is_empty() {
        return Ok(());
    }
    withdraw_of(home, id, &old)?;
    state.networks.iter_mut().for_each(|one| one.ports.clear());
    move_ports(home, id, state, &old)
}

/// Whether ports may be published at an end.
fn is_entrance(endpoint: &Endpoint) -> bool {
    endpoint.host().is_some()
}

/// Publishes at the network that a running container has just come into what its options publish and no network of its could
/// until now. The caller holds the lock.
pub(crate) fn publish_first(
    home: &Home,
    (container, options): (&Container, &RunOptions),
    state: &mut State,
) -> Result<(), EngineError> {
    let is_published = state.networks.iter().any(|one| !one.ports.is_empty());
    let has_way_in = state.networks.iter().any(|one| one.host().is_some());
    let wanted = bindings(options, container.exposed.iter());
    if is_published || !has_way_in || wanted.is_empty() {
        return Ok(());
    }
    publish_now(home, &container.id, state, &wanted).map(drop)
}

/// Chooses ports of the host that are not taken, and publishes them.
fn put_chosen(
    (home, id): (&Home, &ContainerId),
    bindings: &[PortBinding],
    (endpoint, bridge): (&Endpoint, &str),
    taken: Vec<(PublishedPort, String)>,
    mut note: impl FnMut(&[PortRecord]) -> Result<(), EngineError>,
) -> Result<Vec<PortRecord>, EngineError> {
    let way = way(home)?;
    if way == Way::Translated {
        tote_network::allow_loopback(bridge).map_err(PublishFault::Rules)?;
    }
    tote_network::forget_neighbours(bridge, endpoint.addresses())
        .map_err(|source| fault_of_link(&endpoint.network, source))?;
    let address = record::find(home, &endpoint.network)?.host_binding();
    let mut bindings = bindings.to_vec();
    for binding in &mut bindings {
        binding.address = binding.address.or(address.map(IpAddr::V4));
    }
    let mut choice = Choice {
        home,
        id,
        way,
        taken,
        range: ephemeral(),
        shift: 0,
    };
    loop {
        let ports = choice.all(&bindings, endpoint)?;
        let records: Vec<_> = ports.iter().map(PortRecord::of).collect();
        note(&records)?;
        let held: Vec<_> = ports.iter().map(|port| (*port, id.to_string())).collect();
        match put(&held, false) {
            Ok(()) => {
                let led = holder::lead(home, &ports);
                if led.is_err() {
                    withdraw_others(home, id, &endpoint.ports)?;
                }
                return led.map(|()| records);
            }
            // A command of another state root.
            Err(error) if is_taken(&error) && choice.shift < ATTEMPTS => {
                choice.shift += 1;
                withdraw_others(home, id, &endpoint.ports)?;
                choice.taken = tote_network::published()
                    .map_err(PublishFault::Rules)?
                    .unwrap_or_default();
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes back what is published for a container if one of these endpoints has ports. The caller holds the lock.
///
/// # Errors
/// [`PublishFault::Rules`].
pub(crate) fn withdraw_of(home: &Home, id: &ContainerId, endpoints: &[Endpoint]) -> Result<(), PublishFault> {
    if ports_of(endpoints).next().is_none() {
        return Ok(());
    }
    withdraw(home, id)
}

/// Takes back what is published for a container, whatever its record says. The caller holds the lock.
///
/// # Errors
/// [`PublishFault::Rules`].
pub(crate) fn withdraw(home: &Home, id: &ContainerId) -> Result<(), PublishFault> {
    withdraw_these(home, &own(id)?)
}

/// Takes these ports back.
///
/// # Errors
/// [`PublishFault::Rules`].
pub(crate) fn withdraw_these(home: &Home, ports: &[PublishedPort]) -> Result<(), PublishFault> {
    tote_network::withdraw(ports).map_err(PublishFault::Rules)?;
    holder::lead_less(home, ports);
    Ok(())
}

/// Takes back what is published for a container and not among these.
fn withdraw_others(home: &Home, id: &ContainerId, keep: &[PortRecord]) -> Result<(), PublishFault> {
    let mut own = own(id)?;
    own.retain(|port| !keep.contains(&PortRecord::of(port)));
    withdraw_these(home, &own)
}

fn own(id: &ContainerId) -> Result<Vec<PublishedPort>, PublishFault> {
    let all = tote_network::published().map_err(PublishFault::Rules)?;
    let own = all
        .into_iter()
        .flatten()
        .filter(|(_, holder)| holder == id.as_str());
    Ok(own.map(|(port, _)| port).collect())
}

/// Ports that the options publish; with `--publish-all` those that are exposed follow.
pub(crate) fn bindings<'a>(
    options: &RunOptions,
    exposed_ports: impl Iterator<Item = &'a String>,
) -> Vec<PortBinding> {
    let mut bindings = options.published.clone();
    if options.publish_all {
        // What an image says in vain, it says in vain.
        let exposed = exposed_ports.flat_map(|text| parse_expose(text).unwrap_or_default());
        let mut exposed: BTreeSet<_> = exposed.collect();
        exposed.retain(|port| !options.published.iter().any(|binding| binding.private() == *port));
        for port in exposed {
            bindings.extend(tote_bundle::parse_publish(&port).unwrap_or_default());
        }
    }
    bindings
}

/// Ports that were published for running containers, by the records.
fn former(home: &Home) -> Result<Vec<(PublishedPort, String)>, EngineError> {
    let mut former = Vec::new();
    for entry in container::list(home)? {
        for endpoint in &entry.state.networks {
            let ports = endpoint.ports.iter();
            let ports = ports.filter_map(|port| port.published(endpoint));
            former.extend(ports.map(|port| (port, entry.container.id.to_string())));
        }
    }
    Ok(former)
}

fn put(ports: &[(PublishedPort, String)], anew: bool) -> Result<(), PublishFault> {
    let ports: Vec<_> = ports
        .iter()
        .map(|(port, holder)| (*port, holder.as_str()))
        .collect();
    tote_network::publish(&ports, anew).map_err(PublishFault::Rules)
}

/// How ports are published now. The packet filter of other users' networks always translates: what it gets there has passed the
/// machine's rules for its own programs.
fn way(home: &Home) -> Result<Way, EngineError> {
    if home.caller == Caller::User {
        return Ok(Way::Translated);
    }
    Ok(match host_rules()? {
        HostRules::Forward => Way::Translated,
        HostRules::Input => Way::Listened,
    })
}

fn is_taken(error: &PublishFault) -> bool {
    let PublishFault::Rules(NetworkError::Filter { source, .. }) = error else {
        return false;
    };
    *source == Errno::EXIST
}

/// The address that means each one of the same protocol.
fn unspecified(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The ports that the kernel gives to programs which ask for any.
fn ephemeral() -> (u16, u16) {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default(); // absence: the default
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u16>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(last))) if 0 < first && first <= last => (first, last),
        _ => EPHEMERAL,
    }
}

/// The choice of the host's ports for one container.
struct Choice<'a> {
    home: &'a Home,
    id: &'a ContainerId,
    way: Way,
    /// Every published port with its holder.
    taken: Vec<(PublishedPort, String)>,
    range: (u16, u16),
    /// How often a choice was in vain.
    shift: u32,
}

impl Choice<'_> {
    fn all(&self, bindings: &[PortBinding], endpoint: &Endpoint) -> Result<Vec<PublishedPort>, EngineError> {
        let mut chosen: Vec<PublishedPort> = Vec::new();
        // Ports with a given number come before those that may be any.
        let (named, any): (Vec<_>, Vec<_>) = bindings.iter().partition(|binding| binding.host.is_some());
        for binding in named.into_iter().chain(any) {
            let Some(transport) = Transport::named(binding.protocol) else {
                continue;
            };
            if transport == Transport::Sctp && self.way == Way::Listened {
                return Err(PublishFault::NoListener(transport.as_str()).into());
            }
            let addresses = match binding.address {
                Some(address) => vec![address],
                // docker's: each address of the host's, of each protocol that the container has.
                None => endpoint.addresses().map(unspecified).collect(),
            };
            let port = self.one(binding, (transport, &addresses), &chosen)?;
            for address in addresses {
                let own = endpoint.address_like(address);
                let own = own.ok_or(PublishFault::NoIpv6(address))?;
                chosen.push(PublishedPort {
                    transport,
                    host: SocketAddr::new(address, port),
                    container: SocketAddr::new(own, binding.container),
                    way: self.way,
                });
            }
        }
        Ok(chosen)
    }

    /// The host's port for a binding, which is free at all of these addresses: the one that is named, or of several the first.
    fn one(
        &self,
        binding: &PortBinding,
        (transport, addresses): (Transport, &[IpAddr]),
        chosen: &[PublishedPort],
    ) -> Result<u16, EngineError> {
        let (first, last) = binding.host.unwrap_or(self.range);
        let count = u32::from(last - first) + 1;
        let start = if binding.host.is_some() {
            0
        } else {
            self.start(binding)
        };
        for place in (0..count).map(|place| (start + place) % count) {
            let port = first + u16::try_from(place).unwrap_or_default();
            let hosts = || addresses.iter().map(|address| SocketAddr::new(*address, port));
            let Some((host, holder)) = self.taken(transport, hosts(), chosen, count == 1)? else {
                return Ok(port);
            };
            if count == 1 {
                return Err(PublishFault::Taken {
                    host,
                    protocol: transport.as_str(),
                    holder,
                }
                .into());
            }
        }
        let protocol = transport.as_str();
        Err(PublishFault::NoPort {
            first,
            last,
            protocol,
        }
        .into())
    }

    /// The first of these addresses and ports that is not free, and its holder in words; that of a program of the host only
    /// if it is to be `named`.
    fn taken(
        &self,
        transport: Transport,
        hosts: impl Iterator<Item = SocketAddr>,
        chosen: &[PublishedPort],
        named: bool,
    ) -> Result<Option<(SocketAddr, String)>, EngineError> {
        for host in hosts {
            if chosen.iter().any(|other| other.overlaps(transport, host)) {
                let own = "this container itself, which asks for it twice";
                return Ok(Some((host, own.to_owned())));
            }
            let mut taken = self.taken.iter();
            if let Some((_, id)) = taken.find(|(other, _)| other.overlaps(transport, host)) {
                return Ok(Some((host, self.name(id))));
            }
            if let Some(holder) = holder::holder(self.home, (transport, host), named)? {
                return Ok(Some((host, holder)));
            }
        }
        Ok(None)
    }

    /// Where the search begins follows from the container, so that it finds its former port again where that is free.
    fn start(&self, binding: &PortBinding) -> u32 {
        let seed = format!("{} {} {}", self.id, binding.private(), self.shift);
        seed.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
    }

    /// A container in words, by its id.
    fn name(&self, id: &str) -> String {
        match container::find(self.home, id) {
            Ok(entry) => format!("container {}", entry.container.display()),
            Err(_) => format!("container {} of another state root", id.get(..12).unwrap_or(id)),
        }
    }
}
