//! Hardware addresses of containers that the host knows as its neighbours on a bridge (arp(7)).
//!
//! A packet for a container that is about to start waits in the kernel until the container's hardware address is known. The
//! kernel asks for it once in a second, so a packet of the moment before the link would wait that long. The process that makes
//! the link says the address instead, and what waits goes on.

use crate::link::{ContainerLink, LinkError, failed, refusals};
use crate::link_state::index_of;
use crate::mac::Mac;
use crate::netlink::{NLM_F_CREATE, Request, Socket};
use rustix::net::netdevice::index_to_name;
use std::net::IpAddr;
use tote_sys::{Errno, best_effort};

const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NLM_F_REPLACE: u16 = 0x100;
/// An address that was confirmed just now, and is confirmed again as any other.
const NUD_REACHABLE: u16 = 0x02;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Waits until the kernel has acted on the last change of a link's carrier. A caller without this loses time only.
pub(crate) fn await_carrier(link: &str) {
    best_effort(tote_sys::has_carrier(link).map(drop));
}

/// Lets packets pass the links of a container from now on, those too that came for it before. The links are ports of their
/// bridges.
pub(crate) fn settle(here: &Socket, links: &[ContainerLink]) -> Result<(), LinkError> {
    let mut known = Vec::new();
    for (link, bridge) in links.iter().filter_map(|link| Some((link, link.bridge()?))) {
        if let Ok(name) = index_to_name(here, bridge) {
            await_carrier(&name);
        }
        let ipv6 = link.ipv6.map(|ipv6| IpAddr::V6(ipv6.address));
        for address in [IpAddr::V4(link.address)].into_iter().chain(ipv6) {
            let flags = NLM_F_CREATE | NLM_F_REPLACE;
            known.push(neighbour(RTM_NEWNEIGH, (bridge, address), Some(link.mac)).flags(flags));
        }
    }
    // The kernel refuses a neighbour of the other protocol where it is switched off on the bridge.
    let refused = here.batch(known);
    refusals(refused, Errno::INVAL).map_err(failed("say the hardware address of the container"))
}

/// Forgets the hardware addresses of former containers with these addresses on a bridge, to which packets would go in vain.
///
/// A bridge whose last container has left loses its carrier, and up to a second later the kernel drops what waits for a
/// hardware address there: it does so now, before packets for the next container come.
///
/// # Errors
/// [`LinkError`].
pub fn forget_neighbours(bridge: &str, addresses: impl Iterator<Item = IpAddr>) -> Result<(), LinkError> {
    let forget = || failed(format!("forget former neighbours on the bridge {bridge}"));
    let here = Socket::new().map_err(forget())?;
    await_carrier(bridge);
    let index = index_of(&here, bridge).map_err(forget())?;
    let requests = addresses.map(|address| neighbour(RTM_DELNEIGH, (index, address), None));
    refusals(here.batch(requests.collect()), Errno::NOENT).map_err(forget())
}

/// A request about one neighbour: `struct ndmsg`, its address, and its hardware address if it is to be known.
fn neighbour(kind: u16, (bridge, address): (u32, IpAddr), mac: Option<Mac>) -> Request {
    let family = if address.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut header = [family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[4..8].copy_from_slice(&bridge.to_ne_bytes());
    header[8..10].copy_from_slice(&NUD_REACHABLE.to_ne_bytes());
    let mut request = Request::new(kind, &header);
    match address {
        IpAddr::V4(address) => request.attribute(NDA_DST, &address.octets()),
        IpAddr::V6(address) => request.attribute(NDA_DST, &address.octets()),
    }
    if let Some(mac) = mac {
        request.attribute(NDA_LLADDR, &mac.0);
    }
    request
}
