//! Links of a container that is in a virtual machine: what comes to the container's link goes on to a tap (see
//! [`tote_sys::make_tap`]), and what the guest sends there goes out by that link.
//!
//! ```text
//! bridge ── link of the host ─── link of the container ══ tap ── VMM ── guest
//! ```
//! The container's link has no address of its own: the guest has it, and the hardware address as well. So everything outside of the network
//! namespace, from names to the rules of an egress policy, is as for every container. The packet filter of the namespace passes
//! the frames on (nftables, `fwd`), before anything else looks at them. What the guest sends to [`GUEST_RESOLVER`] stays in the namespace.

use crate::device::{IFF_UP, IFLA_MTU, RTM_NEWADDR, RTM_NEWLINK, link as link_header};
use crate::egress_rule::{ethertype, load};
use crate::egress_verdict::accept;
use crate::filter::{
    NFT_MSG_NEWRULE, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS, NFTA_RULE_TABLE, NLM_F_APPEND, TABLE, header,
    transaction_by,
};
use crate::forwarding;
use crate::link_state::index_of;
use crate::netlink::{NLM_F_CREATE, NLM_F_EXCL, Request, Socket};
use crate::nft_table::{INGRESS, NETDEV, chain, fresh_table};
use crate::route::link_route;
use crate::rule::{
    DADDR_OFFSET, NFT_CMP_EQ, NFT_PAYLOAD_NETWORK_HEADER, NFT_REG_1, NFTA_DATA_VALUE, NFTA_IMMEDIATE_DATA,
    NFTA_IMMEDIATE_DREG, big, compare, expression,
};
use rustix::fd::{AsFd as _, BorrowedFd};
use std::net::Ipv4Addr;
use tote_sys::Errno;

/// The address at which a guest finds the resolver of its container: one of those that belong to a single link.
pub const GUEST_RESOLVER: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 11);

/// The device by which taps are made, and by which a process has one.
pub const TUN: &str = "/dev/net/tun";
const DEVICE: &std::ffi::CStr = c"/dev/net/tun";
const AF_INET: u8 = 2;
const RT_SCOPE_LINK: u8 = 253;
const IFA_LOCAL: u16 = 2;
const NFTA_FWD_SREG_DEV: u16 = 1;
const IPV4: [u8; 2] = [0x08, 0x00];
const ARP: [u8; 2] = [0x08, 0x06];
/// Where a packet of ARP has the address that is asked for.
const ARP_TARGET: u32 = 24;

/// The chains of a link's frames, and of those of its tap.
const TO_GUEST: &str = "to-guest";
const FROM_GUEST: &str = "from-guest";

/// A tap in a container's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Its name, at most 15 bytes.
    pub name: String,
    /// The user whose processes may use it, as the caller's user namespace has it.
    pub owner: u32,
}

/// Link that is led to a tap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Led<'a> {
    /// Its name and its number in the network namespace.
    pub(crate) link: (&'a str, u32),
    /// The longest packet, in bytes.
    pub(crate) mtu: u32,
    /// The guest's address.
    pub(crate) address: Ipv4Addr,
}

/// Makes the tap of a link that is up, and leads the frames of each to the other. An error comes with the attempt.
pub(crate) fn divert(
    of: Led<'_>,
    tap: &Tap,
    (network, there): (BorrowedFd<'_>, &Socket),
) -> Result<(), (String, Errno)> {
    let (link, index) = of.link;
    let made = |errno| (format!("make the tap of the link {link} (tun)"), errno);
    let device = tote_sys::open_in(network, DEVICE).map_err(made)?;
    tote_sys::make_tap(device.as_fd(), &tap.name, tap.owner).map_err(made)?;
    let own = index_of(there, &tap.name).map_err(made)?;
    forwarding::set_ipv6_in(network, &tap.name, false).map_err(made)?;
    let mut up = Request::new(RTM_NEWLINK, &link_header(own, IFF_UP));
    up.attribute(IFLA_MTU, &of.mtu.to_ne_bytes());
    let requests = vec![up, resolver_address(own), link_route(of.address, own)];
    if let Some((_, errno)) = there.batch(requests).map_err(made)?.first() {
        return Err(made(*errno));
    }
    let led = |errno| {
        let attempt = format!("lead the link {link} to a virtual machine (nf_tables, fwd, family netdev)");
        (attempt, errno)
    };
    let filter = Socket::of_filter_inside(network).map_err(led)?;
    transaction_by(&filter, rules((link, index), (&tap.name, own))).map_err(led)
}

/// The request for the resolver's address, without a network around it.
fn resolver_address(index: u32) -> Request {
    let mut header = [AF_INET, 32, 0, RT_SCOPE_LINK, 0, 0, 0, 0];
    header[4..].copy_from_slice(&index.to_ne_bytes());
    let mut request = Request::new(RTM_NEWADDR, &header).flags(NLM_F_CREATE | NLM_F_EXCL);
    request.attribute(IFA_LOCAL, &GUEST_RESOLVER.octets());
    request
}

/// The rules of a link and its tap, each a name and a number, in a table of their own.
fn rules((link, index): (&str, u32), (tap, own): (&str, u32)) -> Vec<Request> {
    let table = format!("{TABLE}-{tap}");
    let [first, second, third] = fresh_table(&table);
    vec![
        first,
        second,
        third,
        chain(&table, TO_GUEST, Some((INGRESS, link, false))),
        chain(&table, FROM_GUEST, Some((INGRESS, tap, false))),
        rule(&table, TO_GUEST, |list| forward(list, own)),
        rule(&table, FROM_GUEST, |list| stay(list, IPV4, DADDR_OFFSET)),
        rule(&table, FROM_GUEST, |list| stay(list, ARP, ARP_TARGET)),
        rule(&table, FROM_GUEST, |list| forward(list, index)),
    ]
}

fn rule(table: &str, chain: &str, fill: impl FnOnce(&mut Request)) -> Request {
    let mut request = Request::new(NFT_MSG_NEWRULE, &header(NETDEV)).flags(NLM_F_CREATE | NLM_F_APPEND);
    request.name(NFTA_RULE_TABLE, table);
    request.name(NFTA_RULE_CHAIN, chain);
    request.nest(NFTA_RULE_EXPRESSIONS, &[], fill);
    request
}

/// The frame is for the resolver, which this namespace has; the address is at that place of what is in the frame.
fn stay(list: &mut Request, kind: [u8; 2], place: u32) {
    ethertype(list, kind);
    load(list, NFT_REG_1, (NFT_PAYLOAD_NETWORK_HEADER, place, 4));
    compare(list, NFT_CMP_EQ, &GUEST_RESOLVER.octets());
    accept(list);
}

/// The frame goes out by the link of that number.
fn forward(list: &mut Request, index: u32) {
    expression(list, "immediate", |data| {
        big(data, NFTA_IMMEDIATE_DREG, NFT_REG_1);
        data.nest(NFTA_IMMEDIATE_DATA, &[], |nested| {
            nested.attribute(NFTA_DATA_VALUE, &index.to_ne_bytes());
        });
    });
    expression(list, "fwd", |data| big(data, NFTA_FWD_SREG_DEV, NFT_REG_1));
}
