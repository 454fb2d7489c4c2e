//! Ports of bridges: the host's ends of containers' links.

use crate::device::{IFLA_IFNAME, IFLA_LINKINFO, IFLA_MASTER, RTM_NEWLINK, link};
use crate::link::{ContainerLink, LinkError, failed, refusals};
use crate::neighbour::await_carrier;
use crate::netlink::{Request, Socket};
use tote_sys::Errno;

const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const IFLA_BRPORT_MODE: u16 = 4;
const IFLA_BRPORT_ISOLATED: u16 = 33;

/// Makes the host's ends of links ports of their bridges.
///
/// Both ends are up already. A port without a carrier would take that of a bridge on which no other container is, and with it
/// the packets that wait for the container's hardware address.
pub(crate) fn attach(here: &Socket, links: &[ContainerLink]) -> Result<(), LinkError> {
    let mut requests = Vec::new();
    for (link, bridge) in links.iter().filter_map(|link| Some((link, link.bridge()?))) {
        await_carrier(&link.outside);
        requests.push(port_of(link, bridge));
        if link.isolated {
            requests.push(port_flag(&link.outside, IFLA_BRPORT_ISOLATED));
        }
        if link.reflects {
            requests.push(port_flag(&link.outside, IFLA_BRPORT_MODE));
        }
    }
    let refused = here.batch(requests);
    refused
        .and_then(|refused| refused.first().map_or(Ok(()), |(_, errno)| Err(*errno)))
        .map_err(failed("make the container's links ports of their bridges"))
}

/// Lets a bridge send frames back to the container that they come from. A container that asks for its own published port
/// needs it where the packet filter sees what bridges carry (br_netfilter): the destination is translated within the bridge then.
///
/// # Errors
/// [`LinkError`].
pub fn reflect(outside: &str) -> Result<(), LinkError> {
    let set = || failed(format!("let the bridge send frames back by the link {outside}"));
    let here = Socket::new().map_err(set())?;
    refusals(
        here.batch(vec![port_flag(outside, IFLA_BRPORT_MODE)]),
        Errno::NODEV,
    )
    .map_err(set())
}

/// The request that makes the host's end of a link a port of its bridge.
fn port_of(pair: &ContainerLink, bridge: u32) -> Request {
    let mut request = Request::new(RTM_NEWLINK, &link(0, 0));
    request.name(IFLA_IFNAME, &pair.outside);
    request.attribute(IFLA_MASTER, &bridge.to_ne_bytes());
    request
}

/// The request that sets a flag of a bridge's port.
fn port_flag(outside: &str, flag: u16) -> Request {
    let mut request = Request::new(RTM_NEWLINK, &link(0, 0));
    request.name(IFLA_IFNAME, outside);
    request.nest(IFLA_LINKINFO, &[], |info| {
        info.name(IFLA_INFO_SLAVE_KIND, "bridge");
        info.nest(IFLA_INFO_SLAVE_DATA, &[], |data| data.attribute(flag, &[1]));
    });
    request
}
