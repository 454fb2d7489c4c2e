//! Containers come into networks, and leave them.

use super::connecting;
use super::driver;
use super::egress;
use super::endpoint::{Endpoint, Endpoint6, way_out};
use super::ends::{self, outside};
use super::error::fault_of;
use super::names;
use super::publish;
use super::record::{self, Addresses, Network};
use super::refused;
use super::rootless;
use super::taps;
use super::up::{bring_up, default_up};
use super::{AddressFault, DriverFault, NetworkFault, TrafficFault};
use crate::container::{State, link_text};
use crate::{EngineError, Home};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use tote_bundle::{
    ContainerId, DEFAULT_NETWORK, ImageConfig, NetLimit, NetworkAttachment, NetworkMode, RateError,
    RunOptions,
};
use tote_network::{Address as _, Attached, ContainerLink, Link6, Mac, Rate};
use tote_state::record::names_in;
use tote_sys::Errno;

/// A container that is in its networks, but for the links, which come with its network namespace.
#[derive(Debug, Default)]
pub struct Joined {
    /// The ends of the networks in the container.
    pub endpoints: Vec<Endpoint>,
    /// The links, in the same order.
    pub links: Vec<ContainerLink>,
    /// The bridge of each endpoint.
    pub bridges: Vec<String>,
    /// Whether rules of a network had to be made.
    fresh: bool,
    /// Lines about the lack of something that the container does without.
    pub warnings: Vec<String>,
}

/// Gives a container its addresses, and brings its networks up; of one that is only planned (`dry`), nothing is made.
///
/// # Errors
/// [`NetworkFault`]; what has been given is taken back by [`forget`].
pub fn join(
    home: &Home,
    (id, name): (&ContainerId, &str),
    (options, config): (&RunOptions, &ImageConfig),
    dry: bool,
) -> Result<Joined, EngineError> {
    let attachments = options.first_addresses.within(options.network.attachments());
    let attachments = attachments.map_err(NetworkFault::Mode)?;
    names::check_aliases(options)?;
    check_limit(options)?;
    let mut joined = Joined::default();
    if options.network == NetworkMode::Host && !options.published.is_empty() {
        joined.warnings.push(DISCARDED.to_owned());
    }
    if attachments.is_empty() {
        return Ok(joined);
    }
    if dry {
        return Ok(joined);
    }
    if options.vm.is_some() && !tote_state::record::is_there(Path::new(tote_network::TUN))? {
        return Err(DriverFault::NoTap.into());
    }
    if options.network.is_optional() {
        // Nothing is written down for a network that cannot be. Of one that is up, no question is asked.
        check_bridges(home)?;
    }
    let _lock = record::lock(home)?;
    for attachment in &attachments {
        let place = joined.links.len();
        connect(
            home,
            (id, name),
            attachment,
            (place, WaysOut::default()),
            &mut joined,
        )?;
    }
    keep_one_way_out(&mut joined);
    driver::check(options, &joined.endpoints)?;
    if let Some(policy) = egress::policy_of(options) {
        egress::hold(id, policy, &mut joined);
    }
    if let Some(first) = joined.endpoints.first_mut() {
        first.aliases.extend(options.network_aliases.iter().cloned());
    }
    write_names(home, (id, name), options, &joined.endpoints)?;
    let lost = joined.fresh;
    let ends = (&mut *joined.endpoints, &*joined.bridges);
    publish::publish(home, id, (options, config), ends, lost)?;
    for (link, endpoint) in joined.links.iter_mut().zip(&joined.endpoints) {
        link.reflects = !endpoint.ports.is_empty();
        link.rate = rate(options);
    }
    if options.vm.is_some() {
        taps::add(options, &mut joined);
    }
    Ok(joined)
}

/// Leaves a default route of each protocol to one of the links.
fn keep_one_way_out(joined: &mut Joined) {
    let ipv4 = way_out(&joined.endpoints, |one| one.gateway.is_some());
    let ipv6 = way_out(&joined.endpoints, Endpoint::leads_out6);
    for (place, link) in joined.links.iter_mut().enumerate() {
        if Some(place) != ipv4 {
            link.gateway = None;
        }
        if let Some(own) = link.ipv6.as_mut().filter(|_| Some(place) != ipv6) {
            own.gateway = None;
        }
    }
}

/// Whether the machine can have the network `bridge`.
fn check_bridges(home: &Home) -> Result<(), EngineError> {
    if tote_state::record::is_there(&record::mark(home, DEFAULT_NETWORK))? {
        return Ok(());
    }
    tote_network::check_bridges().map_err(|source| {
        let network = DEFAULT_NETWORK.to_owned();
        NetworkFault::Up { network, source }.into()
    })
}

/// The limit on what passes each of a container's links.
pub(crate) fn rate(options: &RunOptions) -> Option<Rate> {
    let NetLimit { rate, burst } = options.net_limit;
    rate.map(|rate| Rate { rate, burst })
}

/// Refuses limits of a container without links.
fn check_limit(options: &RunOptions) -> Result<(), EngineError> {
    let NetLimit { rate, burst } = options.net_limit;
    if rate.is_none() && burst.is_some() {
        return Err(TrafficFault::Rate(RateError::NoRate).into());
    }
    if rate.is_some() && options.network.attachments().is_empty() {
        return Err(TrafficFault::RateNowhere.into());
    }
    Ok(())
}

/// docker's words.
const DISCARDED: &str = "published ports are discarded when using host network mode";

/// The protocols for which some link of a container leads out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaysOut {
    ipv4: bool,
    ipv6: bool,
}

impl WaysOut {
    pub(crate) fn of(endpoints: &[Endpoint]) -> Self {
        Self {
            ipv4: endpoints.iter().any(|one| one.gateway.is_some()),
            ipv6: endpoints.iter().any(Endpoint::leads_out6),
        }
    }
}

/// Gives a container its addresses in one network, and brings that up. `place` is the number of its link, and `ways` are those
/// that lead out already. The caller holds the lock.
pub(crate) fn connect(
    home: &Home,
    (id, name): (&ContainerId, &str),
    attachment: &NetworkAttachment,
    (place, ways): (usize, WaysOut),
    joined: &mut Joined,
) -> Result<(), EngineError> {
    let (network, begun) = match attachment.network.as_str() {
        DEFAULT_NETWORK => default_up(home)?,
        wanted => (record::find(home, wanted)?, None),
    };
    let address = lease(home, (id, name), attachment, &network)?;
    let ipv6 = endpoint6(home, id, attachment, &network, address)?;
    let (attached, mtu, shared) = match network.sublink() {
        Some(sublink) => driver::attach(&network, sublink, attachment)?,
        None => {
            let up = begun.map_or_else(|| bring_up(home, &network), Ok)?;
            joined.warnings.extend(up.warning);
            joined.fresh |= up.fresh;
            (Attached::Bridge(up.bridge), up.mtu, None)
        }
    };
    let own = || attachment.mac.map_or_else(|| Mac::of(address), Mac);
    let mac = shared.unwrap_or_else(own);
    let inside = ends::inside(&network, place, &attachment.options, &joined.links)?;
    let link = ContainerLink {
        outside: outside(id, place),
        settings: ends::settings(&attachment.options, &inside),
        inside,
        attached,
        mac,
        mtu,
        address,
        subnet: network.ipv4.subnet,
        gateway: Some(network.ipv4.gateway).filter(|_| !ways.ipv4 && !network.internal),
        ipv6: network.ipv6.zip(ipv6).map(|(of, own)| Link6 {
            address: own.address,
            subnet: of.subnet,
            gateway: own.gateway.filter(|_| !ways.ipv6),
        }),
        rules: None,
        reflects: false,
        isolated: !network.has_communication(),
        rate: None,
        tap: None,
    };
    joined.endpoints.push(Endpoint {
        network: network.name.clone(),
        network_id: network.id.clone(),
        driver: network.driver,
        link: link.outside.clone(),
        address,
        prefix: network.ipv4.subnet.prefix(),
        gateway: Some(network.ipv4.gateway).filter(|_| !network.internal),
        gw_priority: attachment.gw_priority,
        driver_opts: ends::recorded(&attachment.options),
        ipv6,
        mac: mac.to_string(),
        aliases: attachment.aliases.clone(),
        links: attachment.links.iter().map(ToString::to_string).collect(),
        ports: Vec::new(),
        egress: false,
    });
    joined.links.push(link);
    joined.bridges.push(network.bridge());
    Ok(())
}

fn lease(
    home: &Home,
    (id, name): (&ContainerId, &str),
    attachment: &NetworkAttachment,
    network: &Network,
) -> Result<Ipv4Addr, EngineError> {
    let of = network.ipv4;
    let holder = link_text(id);
    let given = match attachment.ip {
        Some(address) if !of.subnet.contains(address) => {
            return Err(AddressFault::NoSuchAddress(address.into()).into());
        }
        Some(address) => network
            .leases(home)
            .take_this(address, (of.subnet, of.gateway), &holder)
            .map(|()| address),
        None => {
            // What others know of a container outlives it: servers in front of it look its name up once.
            let called = match name {
                "" => holder.clone(),
                name => format!("{name} {}", network.id),
            };
            let ranges = (of.subnet, of.range());
            network.leases(home).take(ranges, of.gateway, (&holder, &called))
        }
    };
    Ok(given.map_err(|source| fault_of(&network.name, source))?)
}

/// The IPv6 side of a container's end in a network; `None` in a network without IPv6.
fn endpoint6(
    home: &Home,
    id: &ContainerId,
    attachment: &NetworkAttachment,
    network: &Network,
    address: Ipv4Addr,
) -> Result<Option<Endpoint6>, EngineError> {
    match (network.ipv6, attachment.ip6) {
        (Some(of), _) => Ok(Some(Endpoint6 {
            address: lease6(home, id, attachment, (network, &of), address)?,
            prefix: of.subnet.prefix(),
            gateway: Some(of.gateway).filter(|_| !network.internal),
        })),
        (None, Some(asked)) => Err(AddressFault::NoSuchAddress(asked.into()).into()),
        (None, None) => Ok(None),
    }
}

/// Gives a container an IPv6 address: the one that ends as its IPv4 address does, if that is free.
fn lease6(
    home: &Home,
    id: &ContainerId,
    attachment: &NetworkAttachment,
    (network, of): (&Network, &Addresses<Ipv6Addr>),
    address: Ipv4Addr,
) -> Result<Ipv6Addr, EngineError> {
    let holder = link_text(id);
    let given = match attachment.ip6 {
        Some(address) if !of.subnet.contains(address) => {
            return Err(AddressFault::NoSuchAddress(address.into()).into());
        }
        Some(address) => network
            .leases(home)
            .take_this(address, (of.subnet, of.gateway), &holder)
            .map(|()| address),
        None => {
            let place = address.number() - network.ipv4.subnet.address().number();
            let ranges = (of.subnet, of.range());
            network.leases(home).take_from(place, ranges, of.gateway, &holder)
        }
    };
    Ok(given.map_err(|source| fault_of(&network.name, source))?)
}

/// Writes down the names of a container in its networks, after it has got another name.
///
/// # Errors
/// [`EngineError::State`] and [`NetworkFault`].
pub fn call(
    home: &Home,
    of: (&ContainerId, &str),
    options: &RunOptions,
    endpoints: &[Endpoint],
) -> Result<(), EngineError> {
    if !names::are_named(endpoints) {
        return Ok(());
    }
    let _lock = record::lock(home)?;
    write_names(home, of, options, endpoints)
}

/// Does this for a caller with the lock.
pub(crate) fn write_names(
    home: &Home,
    (id, name): (&ContainerId, &str),
    options: &RunOptions,
    endpoints: &[Endpoint],
) -> Result<(), EngineError> {
    let pod = options.pod.as_deref().filter(|_| options.infra);
    let pod = pod.map(|pod| crate::pod::name_of(home, pod));
    let called = names::Called {
        id,
        name,
        pod: pod.as_deref(),
        holder: &link_text(id),
    };
    names::put(home, &called, options, endpoints)
}

/// Takes a container out of its networks: first no packet reaches the addresses any more, then they are free. Gives the networks
/// that have no container left.
///
/// # Errors
/// [`EngineError::State`] and [`NetworkFault`]; the leases stay then.
pub fn leave(home: &Home, id: &ContainerId, endpoints: &[Endpoint]) -> Result<Vec<String>, EngineError> {
    if endpoints.is_empty() {
        return Ok(Vec::new());
    }
    let _lock = record::lock(home)?;
    part(home, id, endpoints)
}

/// Does this for a caller that holds the lock.
fn part(home: &Home, id: &ContainerId, endpoints: &[Endpoint]) -> Result<Vec<String>, EngineError> {
    let mut idle = Vec::new();
    publish::withdraw_of(home, id, endpoints)?;
    driver::unlink(endpoints).map_err(unlinking)?;
    if endpoints.iter().any(|endpoint| endpoint.egress) {
        refused::keep(home, id);
        egress::remove(id)?;
    }
    for endpoint in endpoints {
        if release(home, id, &endpoint.network)? == 0 {
            idle.push(endpoint.network.clone());
        }
    }
    names::take_all(home, id);
    Ok(idle)
}

fn unlinking(source: Errno) -> EngineError {
    EngineError::Kernel {
        attempt: "take the container's links away",
        source,
    }
}

/// Removes links that have no end on the host, by their second names.
pub(crate) fn remove_inside(links: &[String]) -> Result<(), EngineError> {
    tote_network::remove_inside(links).map_err(unlinking)
}

/// Takes a container with records out of its networks: those that its state names now, because it may have been connected with
/// others since it was born with `endpoints`.
///
/// # Errors
/// As of [`leave`].
pub fn leave_recorded(
    home: &Home,
    id: &ContainerId,
    endpoints: &[Endpoint],
) -> Result<Vec<String>, EngineError> {
    if connecting::is_marked(home, id)? {
        return forget(home, id).map(|()| Vec::new());
    }
    let recorded = || State::read(home, id).map(|state| state.networks);
    if endpoints.is_empty() && recorded().is_ok_and(|networks| networks.is_empty()) {
        return Ok(Vec::new());
    }
    let _lock = record::lock(home)?;
    let now = recorded().unwrap_or_else(|_| endpoints.to_vec());
    part(home, id, if now.is_empty() { endpoints } else { &now })
}

/// Takes a container out of its networks whose endpoints no record has, because its engine was killed before it wrote one. Networks
/// without a container are taken down.
///
/// # Errors
/// As of [`leave`].
pub fn forget(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    let names: Vec<_> = names_in(&home.networks())?;
    let names: Vec<_> = names.into_iter().filter(|name| record::is_name(name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let holder = link_text(id);
    let mut own = Vec::new();
    // The caller has the claim of the container, so no other process gives it an address: no lock is needed to see that it has none.
    for name in names {
        let all = record::leases(home, &name).all();
        let all = all.map_err(|source| fault_of(&name, source))?;
        if all.iter().any(|(_, other)| *other == holder) {
            own.push(name);
        }
    }
    if own.is_empty() {
        names::take_all(home, id);
        connecting::unmark(home, id);
        return Ok(());
    }
    if rootless::is_outside(home) {
        return rootless::within(home, || forget(home, id));
    }
    let lock = record::lock(home)?;
    let mut idle = Vec::new();
    publish::withdraw(home, id)?;
    // Its links are named from its id; their number is limited.
    let links: Vec<_> = (0..MOST).map(|place| outside(id, place)).collect();
    tote_network::disconnect(&links).map_err(unlinking)?;
    remove_inside(&links)?;
    refused::keep(home, id);
    egress::remove(id)?;
    for name in own {
        if release(home, id, &name)? == 0 {
            idle.push(name);
        }
    }
    names::take_all(home, id);
    drop(lock);
    super::settle(home, &idle)?;
    connecting::unmark(home, id);
    Ok(())
}

/// The most networks that a killed container is looked for in.
pub(crate) const MOST: usize = 16;

/// Takes a container's names and addresses in a network back. Gives how many other leases the network has.
pub(crate) fn release(home: &Home, id: &ContainerId, network: &str) -> Result<usize, EngineError> {
    names::take(home, (id, &link_text(id)), network)?;
    let released = record::leases(home, network).release(&link_text(id));
    Ok(released.map_err(|source| fault_of(network, source))?)
}
