//! Messages of rtnetlink(7) about routes.

use crate::netlink::{Attribute, Message, NLM_F_CREATE, NLM_F_EXCL, Request, Socket, number};
use crate::subnet::{Address, Prefix};
use std::net::Ipv4Addr;
use tote_sys::Errno;

/// The kernel is to put this in the place of what is there.
const NLM_F_REPLACE: u16 = 0x100;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RT_TABLE_MAIN: u8 = 254;
const RT_TABLE_LOCAL: u8 = 255;
const RTPROT_BOOT: u8 = 3;
/// A number that no other program has taken (`/etc/iproute2/rt_protos`): the mark of routes by [`own_route`].
const RTPROT_OWN: u8 = 0x74;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTN_ANYCAST: u8 = 4;
const RT_SCOPE_HOST: u8 = 254;
/// The number of the loopback device in every network namespace.
const LOOPBACK_LINK: u32 = 1;
const RT_SCOPE_LINK: u8 = 253;
/// Lengths in bytes of `struct rtmsg` and `struct rtnexthop`.
const ROUTE_HEADER: usize = 12;
const HOP_HEADER: usize = 8;

/// The request for a route to everything else, by this gateway, unless the namespace has one.
pub(crate) fn default_route<A: Address>(gateway: A) -> Request {
    route_by(gateway).flags(NLM_F_CREATE | NLM_F_EXCL)
}

/// The request for such a route in place of another one.
pub(crate) fn new_default_route<A: Address>(gateway: A) -> Request {
    route_by(gateway).flags(NLM_F_CREATE | NLM_F_REPLACE)
}

fn route_by<A: Address>(gateway: A) -> Request {
    let header = [
        A::FAMILY,
        0,
        0,
        0,
        RT_TABLE_MAIN,
        RTPROT_BOOT,
        0,
        RTN_UNICAST,
        0,
        0,
        0,
        0,
    ];
    let mut request = Request::new(RTM_NEWROUTE, &header);
    let bytes = gateway.number().to_be_bytes();
    let length = usize::from(A::BITS / 8);
    request.attribute(RTA_GATEWAY, &bytes[bytes.len() - length..]);
    request
}

/// The request for a route to one address, which is on the link of that number.
pub(crate) fn link_route(address: Ipv4Addr, index: u32) -> Request {
    let header = [
        Ipv4Addr::FAMILY,
        32,
        0,
        0,
        RT_TABLE_MAIN,
        RTPROT_BOOT,
        RT_SCOPE_LINK,
        RTN_UNICAST,
        0,
        0,
        0,
        0,
    ];
    let mut request = Request::new(RTM_NEWROUTE, &header).flags(NLM_F_CREATE | NLM_F_EXCL);
    request.attribute(RTA_DST, &address.octets());
    request.attribute(RTA_OIF, &index.to_ne_bytes());
    request
}

/// The request for a route by which the namespace itself has these addresses, or for its end.
pub(crate) fn own_route<A: Address>(to: Prefix<A>, is_new: bool) -> Request {
    let kind = if is_new { RTM_NEWROUTE } else { RTM_DELROUTE };
    let header = [
        A::FAMILY,
        to.prefix(),
        0,
        0,
        RT_TABLE_LOCAL,
        RTPROT_OWN,
        RT_SCOPE_HOST,
        RTN_LOCAL,
        0,
        0,
        0,
        0,
    ];
    let flags = if is_new { NLM_F_CREATE | NLM_F_EXCL } else { 0 };
    let mut request = Request::new(kind, &header).flags(flags);
    let bytes = to.address().number().to_be_bytes();
    let length = usize::from(A::BITS / 8);
    request.attribute(RTA_DST, &bytes[bytes.len() - length..]);
    request.attribute(RTA_OIF, &LOOPBACK_LINK.to_ne_bytes());
    request
}

/// Whether packets for an address end in the namespace of the socket.
pub(crate) fn ends_here<A: Address>(socket: &Socket, address: A) -> Result<bool, Errno> {
    let header = [A::FAMILY, A::BITS, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut request = Request::new(RTM_GETROUTE, &header);
    let bytes = address.number().to_be_bytes();
    let length = usize::from(A::BITS / 8);
    request.attribute(RTA_DST, &bytes[bytes.len() - length..]);
    match socket.ask(request, false) {
        Ok(messages) => Ok(messages
            .iter()
            .any(|message| message.body.get(7) == Some(&RTN_LOCAL))),
        // No route leads there.
        Err(Errno::NETUNREACH | Errno::HOSTUNREACH) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// A route of the host's main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route<A> {
    pub(crate) to: Prefix<A>,
    /// The links that it leads out by.
    pub(crate) links: Vec<u32>,
}

impl<A: Address> Route<A> {
    /// Reads an RTM_NEWROUTE; `None` for one of another table or kind.
    fn read(message: &Message, (of_table, of_kinds): (u8, &[u8])) -> Option<Self> {
        let (header, rest) = message.body.split_at_checked(ROUTE_HEADER)?;
        let [family, prefix, .., kind] = header.get(..8)? else {
            return None;
        };
        if message.kind != RTM_NEWROUTE || *family != A::FAMILY || !of_kinds.contains(kind) {
            return None;
        }
        let (mut to, mut table, mut links) = (A::of(0), u32::from(header[4]), Vec::new());
        for attribute in Attribute::all(rest) {
            match attribute.kind {
                RTA_DST => to = A::from_bytes(attribute.value)?,
                RTA_TABLE => table = number(attribute.value)?,
                RTA_OIF => links.push(number(attribute.value)?),
                RTA_MULTIPATH => links.extend(hops(attribute.value)),
                _ => {}
            }
        }
        let to = Prefix::around(to, *prefix)?;
        (table == u32::from(of_table)).then_some(Self { to, links })
    }
}

/// The links of the next hops of a route that has several.
fn hops(mut bytes: &[u8]) -> Vec<u32> {
    let mut links = Vec::new();
    while let Some(header) = bytes.get(..HOP_HEADER) {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        links.extend(header.get(4..8).and_then(number));
        if length < HOP_HEADER {
            break;
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    links
}

/// The routes of the main table, of one protocol.
pub(crate) fn routes<A: Address>(socket: &Socket) -> Result<Vec<Route<A>>, Errno> {
    routes_of(socket, (RT_TABLE_MAIN, &[RTN_UNICAST]))
}

/// The networks whose addresses all end in the namespace: its addresses, and ranges of which a route says so.
pub(crate) fn own_networks<A: Address>(socket: &Socket) -> Result<Vec<Prefix<A>>, Errno> {
    // Of IPv6, a router also has the first address of each network that it is in.
    let routes = routes_of(socket, (RT_TABLE_LOCAL, &[RTN_LOCAL, RTN_ANYCAST]))?;
    Ok(routes.into_iter().map(|route| route.to).collect())
}

fn routes_of<A: Address>(socket: &Socket, of: (u8, &[u8])) -> Result<Vec<Route<A>>, Errno> {
    let mut header = [0; ROUTE_HEADER];
    header[0] = A::FAMILY;
    let messages = socket.ask(Request::new(RTM_GETROUTE, &header), true)?;
    Ok(messages
        .iter()
        .filter_map(|message| Route::read(message, of))
        .collect())
}
