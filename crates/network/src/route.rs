//! Messages of rtnetlink(7) about routes.

use crate::netlink::{Attribute, Message, NLM_F_CREATE, NLM_F_EXCL, Request, Socket, number};
use crate::subnet::{Address, Prefix};
use std::net::Ipv4Addr;
use tote_sys::Errno;

/// The kernel is to put this in the place of what is there.
const NLM_F_REPLACE: u16 = 0x100;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_BOOT: u8 = 3;
const RTN_UNICAST: u8 = 1;
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

/// A route of the host's main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route<A> {
    pub(crate) to: Prefix<A>,
    /// The links that it leads out by.
    pub(crate) links: Vec<u32>,
}

impl<A: Address> Route<A> {
    /// Reads an RTM_NEWROUTE; `None` for one of another table or kind.
    fn read(message: &Message) -> Option<Self> {
        let (header, rest) = message.body.split_at_checked(ROUTE_HEADER)?;
        let [family, prefix, .., kind] = header.get(..8)? else {
            return None;
        };
        if message.kind != RTM_NEWROUTE || *family != A::FAMILY || *kind != RTN_UNICAST {
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
        (table == u32::from(RT_TABLE_MAIN)).then_some(Self { to, links })
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
    let mut header = [0; ROUTE_HEADER];
    header[0] = A::FAMILY;
    let messages = socket.ask(Request::new(RTM_GETROUTE, &header), true)?;
    Ok(messages.iter().filter_map(Route::read).collect())
}
