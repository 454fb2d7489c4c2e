//! Messages of rtnetlink(7): links, addresses, routes.

use crate::device::{
    IFF_UP, IFLA_ADDRESS, IFLA_IFALIAS, IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MTU,
    IFLA_NET_NS_FD, RTM_NEWADDR, RTM_NEWLINK, link, link as link_header,
};
use crate::filter::transaction;
use crate::link_state::index_of;
use crate::mac::Mac;
use crate::neighbour::settle;
use crate::netlink::{NLM_F_CREATE, NLM_F_EXCL, Request, Socket};
use crate::port::attach;
use crate::route::{default_route, link_route, new_default_route};
use crate::shape::{Rate, shape};
use crate::sublink::{self, Attached, Sublink};
use crate::subnet::{Address, Prefix};
use crate::tap::{GUEST_RESOLVER, Led, Tap, divert};
use crate::{Subnet, Subnet6, forwarding};
use rustix::fd::{AsRawFd as _, BorrowedFd};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tote_sys::Errno;

const RTM_DELLINK: u16 = 17;
const IFLA_BR_FORWARD_DELAY: u16 = 1;
const VETH_INFO_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
/// An address that is used at once, without asking whether another host has it.
const IFA_F_NODAD: u8 = 0x02;

/// Rules of the packet filter at the host's ends of links, made in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRules(pub(crate) Vec<Request>);

impl LinkRules {
    /// Returns the messages of netlink(7) that make the rules.
    #[must_use]
    pub fn messages(&self) -> Vec<&[u8]> {
        self.0.iter().map(Request::as_bytes).collect()
    }

    /// Takes what [`LinkRules::messages`] has returned; `None` if a message has no header.
    #[must_use]
    pub fn from_messages(messages: Vec<Vec<u8>>) -> Option<Self> {
        let requests = messages.into_iter().map(Request::from_bytes);
        requests.collect::<Option<Vec<_>>>().map(Self)
    }

    pub(crate) fn set_up(&self) -> Result<(), LinkError> {
        transaction(self.0.clone()).map_err(failed(
            "make the rules of the container's egress policy (nf_tables, family netdev, which takes Linux 5.16)",
        ))
    }
}

/// A container's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerLink {
    /// The name of the other end of the pair, on the host, at most 15 bytes. A link that shares a parent has no other end, and this as
    /// its second name in the container.
    pub outside: String,
    /// The name in the container, such as `eth0`.
    pub inside: String,
    /// The link of the host's that it hangs on.
    pub attached: Attached,
    /// The hardware address in the container.
    pub mac: Mac,
    /// The longest packet, in bytes.
    pub mtu: u32,
    /// The container's address.
    pub address: Ipv4Addr,
    /// The network that the address is in.
    pub subnet: Subnet,
    /// Where everything goes that is in no network of the container's, if this link leads there.
    pub gateway: Option<Ipv4Addr>,
    /// The container's IPv6 address; `None` switches IPv6 off on the link.
    pub ipv6: Option<Link6>,
    /// Rules that have to be there before the container's end is up.
    pub rules: Option<LinkRules>,
    /// Whether the bridge sends frames back by this link that came from it, see [`reflect`](crate::reflect).
    pub reflects: bool,
    /// Whether the bridge passes no frames between this link and others that are isolated.
    pub isolated: bool,
    /// The limit on what passes; `None` for no limit.
    pub rate: Option<Rate>,
    /// Settings of the link in the kernel, which are made once it is up.
    pub settings: Vec<LinkSetting>,
    /// The tap of a virtual machine that has the link's addresses in its place.
    pub tap: Option<Tap>,
}

impl ContainerLink {
    /// The number of the bridge that the other end is a port of.
    pub(crate) fn bridge(&self) -> Option<u32> {
        match self.attached {
            Attached::Bridge(bridge) => Some(bridge),
            Attached::Parent { .. } | Attached::Device => None,
        }
    }

    /// Whether the link shares another one.
    fn is_shared(&self) -> bool {
        matches!(self.attached, Attached::Parent { .. })
    }
}

/// Setting of a container's link in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSetting {
    /// File of the setting, below `/proc/sys`.
    pub file: String,
    /// Value that is written there.
    pub value: String,
}

/// The IPv6 address of a container's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link6 {
    /// The address.
    pub address: Ipv6Addr,
    /// The network that the address is in.
    pub subnet: Subnet6,
    /// Where everything goes that is in no network of the container's, if this link leads there.
    pub gateway: Option<Ipv6Addr>,
}

/// The call that failed while a container's link was made, and the kernel's reason.
#[derive(Debug, thiserror::Error)]
#[error("failed to {attempt}")]
pub struct LinkError {
    /// The attempt, as an infinitive.
    pub attempt: String,
    /// The kernel's reason.
    #[source]
    pub source: Errno,
}

pub(crate) fn failed(attempt: impl Into<String>) -> impl FnOnce(Errno) -> LinkError {
    let attempt = attempt.into();
    move |source| LinkError { attempt, source }
}

/// Makes the links of a container, one end of each in the network namespace `network`, which is the container's; gives them
/// their addresses and routes.
///
/// # Errors
/// [`LinkError`]. What has been made goes with the container's network namespace.
pub fn connect(links: &[ContainerLink], network: BorrowedFd<'_>) -> Result<(), LinkError> {
    let Some(first) = links.first() else { return Ok(()) };
    let here = Socket::new().map_err(failed(format!(
        "make the link {} of the container",
        first.outside
    )))?;
    make(links, first, &here, network)?;
    for rules in links.iter().filter_map(|link| link.rules.as_ref()) {
        rules.set_up()?;
    }
    let there = Socket::inside(network).map_err(failed(
        "open a routing socket in the container's network namespace",
    ))?;
    let (mut requests, mut taps, mut guest_route) = (Vec::new(), Vec::new(), None);
    for link in links {
        let index = index_of(&there, &link.inside)
            .map_err(failed(format!("find the link {} in the container", link.inside)))?;
        if let Some(rate) = link.rate {
            limit(link, rate, (&here, &there, index))?;
        }
        let has_ipv6 = link.ipv6.is_some() && link.tap.is_none();
        forwarding::set_ipv6_in(network, &link.inside, has_ipv6).map_err(failed(format!(
            "switch IPv6 of the link {} of the container",
            link.inside
        )))?;
        if link.is_shared() {
            start(&there, index, link)?;
            requests.extend(link.gateway.map(default_route));
            requests.extend(link.ipv6.and_then(|ipv6| ipv6.gateway).map(default_route));
            continue;
        }
        if let Some(tap) = &link.tap {
            requests.push(Request::new(RTM_NEWLINK, &link_header(index, IFF_UP)));
            taps.push((link, tap, index));
            continue;
        }
        if link.attached == Attached::Device {
            guest_route.get_or_insert_with(|| link_route(GUEST_RESOLVER, index));
        }
        requests.extend(set_up(link, index));
    }
    requests.extend(guest_route);
    let set = || failed(format!("set the address {} of the container", first.address));
    if let Some((_, errno)) = there.batch(requests).map_err(set())?.first() {
        return Err(set()(*errno));
    }
    for link in links.iter().filter(|link| link.tap.is_none()) {
        set_each(link, network)?;
    }
    for (link, tap, index) in taps {
        let led = Led {
            link: (&link.inside, index),
            mtu: link.mtu,
            address: link.address,
        };
        divert(led, tap, (network, &there)).map_err(|(attempt, source)| LinkError { attempt, source })?;
    }
    attach(&here, links)?;
    settle(&here, links)
}

/// Makes the settings of a link, which is up.
fn set_each(link: &ContainerLink, network: BorrowedFd<'_>) -> Result<(), LinkError> {
    for LinkSetting { file, value } in &link.settings {
        let set = || failed(format!("set {file} of the container to {value:?}"));
        forwarding::set_in(network, file, value.as_bytes()).map_err(set())?;
    }
    Ok(())
}

/// Makes the links themselves, or moves the devices that they are.
fn make(
    links: &[ContainerLink],
    first: &ContainerLink,
    here: &Socket,
    network: BorrowedFd<'_>,
) -> Result<(), LinkError> {
    let make = |name: &str| failed(format!("make the link {name} of the container"));
    if links.iter().any(ContainerLink::is_shared) {
        sublink::number_namespace(here, network)
            .map_err(failed("number the container's network namespace"))?;
    }
    let devices = devices(here, links)?;
    let pairs = || {
        let pairs = links
            .iter()
            .zip(&devices)
            .map(|(link, device)| match link.attached {
                Attached::Bridge(_) => pair(link, network),
                Attached::Parent { index, sublink } => sharing(link, (index, sublink), network),
                Attached::Device => moving(link, *device, network),
            });
        pairs.collect()
    };
    let mut refused = here.batch(pairs()).map_err(make(&first.outside))?;
    if refused.iter().any(|(_, errno)| *errno == Errno::EXIST) {
        // The container's network namespace of before is going, or a process keeps it; its links have the same names.
        links
            .iter()
            .try_for_each(|link| remove_link(here, &link.outside))?;
        refused = here.batch(pairs()).map_err(make(&first.outside))?;
    }
    if let Some((place, errno)) = refused.first() {
        let link = links.get(*place).unwrap_or(first);
        let name = format!("{}{}", link.outside, sublink::advice(link.attached, *errno));
        return Err(make(&name)(*errno));
    }
    Ok(())
}

/// The requests that bring a link up, which has that number in the container, with its addresses and routes.
fn set_up(link: &ContainerLink, index: u32) -> Vec<Request> {
    let mut up = Request::new(RTM_NEWLINK, &link_header(index, IFF_UP));
    if link.attached == Attached::Device {
        up.attribute(IFLA_MTU, &link.mtu.to_ne_bytes());
    }
    let mut requests = vec![up, address(index, link.address, link.subnet)];
    requests.extend(link.gateway.map(default_route));
    // An address of IPv6 needs a link that is up.
    if let Some(ipv6) = link.ipv6 {
        requests.push(address6(index, ipv6.address, ipv6.subnet));
        requests.extend(ipv6.gateway.map(default_route));
    }
    requests
}

/// Returns for each link the number of the device of this machine that it is to be; 0 for those that are made.
fn devices(here: &Socket, links: &[ContainerLink]) -> Result<Vec<u32>, LinkError> {
    if !links.iter().any(|link| link.attached == Attached::Device) {
        return Ok(vec![0; links.len()]);
    }
    let all = crate::link_state::links(here).map_err(failed("list the network devices"))?;
    let number = |link: &ContainerLink| match link.attached {
        Attached::Device => {
            let device = all.iter().find(|device| device.mac == link.mac);
            let missing = failed(format!("find the network device {}", link.mac));
            device
                .map(|device| device.index)
                .ok_or_else(|| missing(Errno::NODEV))
        }
        Attached::Bridge(_) | Attached::Parent { .. } => Ok(0),
    };
    links.iter().map(number).collect()
}

/// The device of that number, on its way into the container's network namespace.
fn moving(of: &ContainerLink, device: u32, network: BorrowedFd<'_>) -> Request {
    let mut request = Request::new(RTM_NEWLINK, &link(device, 0));
    request.attribute(IFLA_NET_NS_FD, &network.as_raw_fd().to_ne_bytes());
    request.name(IFLA_IFNAME, &of.inside);
    request
}

/// Limits what passes a link in both directions; the container's end, which has this number, is not up yet.
fn limit(
    link: &ContainerLink,
    rate: Rate,
    (here, there, index): (&Socket, &Socket, u32),
) -> Result<(), LinkError> {
    let set = || {
        failed(format!(
            "limit the rate of the link {} of the container (tbf)",
            link.inside
        ))
    };
    let outside = index_of(here, &link.outside).map_err(set())?;
    for (socket, index) in [(here, outside), (there, index)] {
        let refused = socket.batch(vec![shape(index, link.mtu, rate)]);
        refusals(refused, Errno::EXIST).map_err(set())?;
    }
    Ok(())
}

/// Removes a link of a container by the name of its end on the host's side; one that is gone needs nothing.
///
/// # Errors
/// [`LinkError`].
pub fn remove(outside: &str) -> Result<(), LinkError> {
    let here = Socket::new().map_err(failed("open a routing socket"))?;
    remove_link(&here, outside)
}

/// Makes `gateway` the way out of a network namespace, in place of another one if there is one.
///
/// # Errors
/// [`LinkError`].
pub fn lead_out(gateway: IpAddr, network: BorrowedFd<'_>) -> Result<(), LinkError> {
    let set = || failed(format!("lead the container out by {gateway}"));
    let there = Socket::inside(network).map_err(set())?;
    let route = match gateway {
        IpAddr::V4(gateway) => new_default_route(gateway),
        IpAddr::V6(gateway) => new_default_route(gateway),
    };
    refusals(there.batch(vec![route]), Errno::EXIST).map_err(set())
}

/// The pair itself: the host's end is up from the first moment, the other one is born in the container's network namespace.
fn pair(pair: &ContainerLink, network: BorrowedFd<'_>) -> Request {
    let mut request = Request::new(RTM_NEWLINK, &link(0, IFF_UP)).flags(NLM_F_CREATE | NLM_F_EXCL);
    request.name(IFLA_IFNAME, &pair.outside);
    request.attribute(IFLA_MTU, &pair.mtu.to_ne_bytes());
    request.nest(IFLA_LINKINFO, &[], |info| {
        info.name(IFLA_INFO_KIND, "veth");
        info.nest(IFLA_INFO_DATA, &[], |data| {
            // A peer cannot be up before the other end is there (ENOTCONN).
            data.nest(VETH_INFO_PEER, &link(0, 0), |peer| {
                peer.name(IFLA_IFNAME, &pair.inside);
                peer.attribute(IFLA_ADDRESS, &pair.mac.0);
                peer.attribute(IFLA_MTU, &pair.mtu.to_ne_bytes());
                peer.attribute(IFLA_NET_NS_FD, &network.as_raw_fd().to_ne_bytes());
            });
        });
    });
    request
}

/// A link that shares a parent; it is born in the container's network namespace.
fn sharing(of: &ContainerLink, (parent, sublink): (u32, Sublink), network: BorrowedFd<'_>) -> Request {
    let mut request = Request::new(RTM_NEWLINK, &link(0, 0)).flags(NLM_F_CREATE | NLM_F_EXCL);
    request.name(IFLA_IFNAME, &of.inside);
    request.attribute(IFLA_MTU, &of.mtu.to_ne_bytes());
    request.attribute(IFLA_NET_NS_FD, &network.as_raw_fd().to_ne_bytes());
    if sublink.has_own_mac() {
        request.attribute(IFLA_ADDRESS, &of.mac.0);
    }
    sublink::share(&mut request, parent, sublink);
    request
}

/// Brings up a link that shares a parent, with its addresses.
fn start(there: &Socket, index: u32, link: &ContainerLink) -> Result<(), LinkError> {
    let mut requests = vec![
        Request::new(RTM_NEWLINK, &link_header(index, IFF_UP)),
        address(index, link.address, link.subnet),
    ];
    requests.extend(link.ipv6.map(|ipv6| address6(index, ipv6.address, ipv6.subnet)));
    sublink::start(there, (index, &link.outside), &requests).map_err(failed(format!(
        "set the addresses {} and {} of the container, which no other link of the parent may have",
        link.address, link.mac
    )))
}

fn address(index: u32, address: Ipv4Addr, subnet: Subnet) -> Request {
    let header = address_header(index, subnet, 0);
    let mut request = Request::new(RTM_NEWADDR, &header).flags(NLM_F_CREATE | NLM_F_EXCL);
    request.attribute(IFA_LOCAL, &address.octets());
    request.attribute(IFA_ADDRESS, &address.octets());
    if subnet.prefix() < 31 {
        request.attribute(IFA_BROADCAST, &subnet.broadcast().octets());
    }
    request
}

fn address6(index: u32, address: Ipv6Addr, subnet: Subnet6) -> Request {
    let header = address_header(index, subnet, IFA_F_NODAD);
    let mut request = Request::new(RTM_NEWADDR, &header).flags(NLM_F_CREATE | NLM_F_EXCL);
    request.attribute(IFA_ADDRESS, &address.octets());
    request
}

/// `struct ifaddrmsg`
fn address_header<A: Address>(index: u32, subnet: Prefix<A>, flags: u8) -> [u8; 8] {
    let mut header = [A::FAMILY, subnet.prefix(), flags, 0, 0, 0, 0, 0];
    header[4..].copy_from_slice(&index.to_ne_bytes());
    header
}

/// A bridge that is to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BridgeLink<'a> {
    pub(crate) name: &'a str,
    /// The bridge's alias, by which it is known to be the network's.
    pub(crate) alias: &'a str,
    /// The host's own address on it.
    pub(crate) address: Ipv4Addr,
    pub(crate) subnet: Subnet,
    /// The host's own IPv6 address on it; `None` switches IPv6 off on the bridge.
    pub(crate) ipv6: Option<(Ipv6Addr, Subnet6)>,
    pub(crate) mtu: u32,
}

/// Makes a bridge with its address, and gives its number. One that is there already is used.
pub(crate) fn make_bridge(socket: &Socket, bridge: &BridgeLink<'_>) -> Result<u32, LinkError> {
    let mut request = Request::new(RTM_NEWLINK, &link(0, 0)).flags(NLM_F_CREATE | NLM_F_EXCL);
    request.name(IFLA_IFNAME, bridge.name);
    request.attribute(IFLA_MTU, &bridge.mtu.to_ne_bytes());
    // Otherwise it would be that of a port, and change as containers come and go.
    request.attribute(IFLA_ADDRESS, &Mac::of(bridge.address).0);
    request.nest(IFLA_LINKINFO, &[], |info| {
        info.name(IFLA_INFO_KIND, "bridge");
        // There are no loops to be found before a port may forward.
        info.nest(IFLA_INFO_DATA, &[], |data| {
            data.attribute(IFLA_BR_FORWARD_DELAY, &0u32.to_ne_bytes());
        });
    });
    let make = || failed(format!("make the bridge {}", bridge.name));
    let refused = socket.batch(vec![request]).map_err(make())?;
    let is_new = refused.is_empty();
    refusals(Ok(refused), Errno::EXIST).map_err(make())?;
    let index = index_of(socket, bridge.name).map_err(make())?;
    if is_new && bridge.name != bridge.alias {
        // The kernel takes an alias of a link that is there.
        let mut request = Request::new(RTM_NEWLINK, &link(index, 0));
        request.attribute(IFLA_IFALIAS, bridge.alias.as_bytes());
        refusals(socket.batch(vec![request]), Errno::EXIST).map_err(make())?;
    }
    // While the bridge is down: a container could tell the host by a router advertisement where to send its packets.
    forwarding::set_ipv6(bridge.name, bridge.ipv6.is_some())
        .map_err(failed(format!("switch IPv6 of the bridge {}", bridge.name)))?;
    forwarding::believe_no_routes(bridge.name).map_err(|error| {
        let source = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        failed(format!(
            "switch redirections of routes off on the bridge {}",
            bridge.name
        ))(source)
    })?;
    let mut requests = vec![
        address(index, bridge.address, bridge.subnet),
        Request::new(RTM_NEWLINK, &link(index, IFF_UP)),
    ];
    // An address of IPv6 needs a link that is up.
    requests.extend(bridge.ipv6.map(|(own, subnet)| address6(index, own, subnet)));
    refusals(socket.batch(requests), Errno::EXIST)
        .map_err(failed(format!("set the address of the bridge {}", bridge.name)))?;
    Ok(index)
}

/// Removes a link; one that is gone needs nothing.
pub(crate) fn remove_link(socket: &Socket, name: &str) -> Result<(), LinkError> {
    refusals(socket.batch(vec![removal(name)]), Errno::NODEV)
        .map_err(failed(format!("remove the link {name}")))
}

/// The request that removes a link.
pub(crate) fn removal(name: &str) -> Request {
    let mut request = Request::new(RTM_DELLINK, &link(0, 0));
    request.name(IFLA_IFNAME, name);
    request
}

/// The first failure of a batch that is not the one which does no harm.
pub(crate) fn refusals(refused: Result<Vec<(usize, Errno)>, Errno>, harmless: Errno) -> Result<(), Errno> {
    let other = refused?.into_iter().find(|(_, errno)| *errno != harmless);
    other.map_or(Ok(()), |(_, errno)| Err(errno))
}
