//! Conversations by UDP that the kernel remembers: to whom the packets of each go, for as long as they come.
//!
//! A client that goes on sending while a container ends and another one begins would be led to the first one for good, and one
//! that has sent before a port was published, to the host.

use crate::netlink::{Request, Socket};
use crate::published_port::PublishedPort;
use crate::transport::Transport;
use std::net::IpAddr;
use tote_sys::best_effort;

const IPCTNL_MSG_CT_DELETE: u16 = 1 << 8 | 2;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_FILTER: u16 = 25;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
const CTA_FILTER_ORIG_FLAGS: u16 = 1;
const CTA_FILTER_REPLY_FLAGS: u16 = 2;
const COMPARES_SRC: u32 = 1;
const COMPARES_DST: u32 = 1 << 1;
const COMPARES_PROTOCOL: u32 = 1 << 3;
const COMPARES_SRC_PORT: u32 = 1 << 4;
const COMPARES_DST_PORT: u32 = 1 << 5;

/// `struct nfgenmsg`: the protocol, and the version in which that counts.
fn header(port: &PublishedPort) -> [u8; 4] {
    let family = if port.host.is_ipv6() { 10 } else { 2 };
    [family, 1, 0, 0]
}

/// Appends an address as the attribute of its protocol.
fn put(request: &mut Request, address: IpAddr, (v4, v6): (u16, u16)) {
    match address {
        IpAddr::V4(address) => request.attribute(v4, &address.octets()),
        IpAddr::V6(address) => request.attribute(v6, &address.octets()),
    }
}

/// Forgets conversations with the host's side of ports, which are to begin anew. Kernels before 6.8 cannot, and forget them when
/// nothing has come for a while.
pub(crate) fn forget_host(ports: &[PublishedPort]) {
    forget(ports, |port| {
        let mut flags = COMPARES_PROTOCOL | COMPARES_DST_PORT;
        let mut request = Request::new(IPCTNL_MSG_CT_DELETE, &header(port));
        request.nest(CTA_TUPLE_ORIG, &[], |tuple| {
            if !port.host.ip().is_unspecified() {
                flags |= COMPARES_DST;
                tuple.nest(CTA_TUPLE_IP, &[], |address| {
                    put(address, port.host.ip(), (CTA_IP_V4_DST, CTA_IP_V6_DST));
                });
            }
            tuple.nest(CTA_TUPLE_PROTO, &[], |protocol| {
                protocol.attribute(CTA_PROTO_NUM, &[port.transport.number()]);
                protocol.attribute(CTA_PROTO_DST_PORT, &port.host.port().to_be_bytes());
            });
        });
        request.nest(CTA_FILTER, &[], |filter| {
            filter.attribute(CTA_FILTER_ORIG_FLAGS, &flags.to_ne_bytes());
        });
        request
    });
}

/// Forgets conversations with the container's side of ports.
pub(crate) fn forget_container(ports: &[PublishedPort]) {
    forget(ports, |port| {
        let flags = COMPARES_SRC | COMPARES_PROTOCOL | COMPARES_SRC_PORT;
        let mut request = Request::new(IPCTNL_MSG_CT_DELETE, &header(port));
        request.nest(CTA_TUPLE_REPLY, &[], |tuple| {
            tuple.nest(CTA_TUPLE_IP, &[], |address| {
                put(address, port.container.ip(), (CTA_IP_V4_SRC, CTA_IP_V6_SRC));
            });
            tuple.nest(CTA_TUPLE_PROTO, &[], |protocol| {
                protocol.attribute(CTA_PROTO_NUM, &[port.transport.number()]);
                protocol.attribute(CTA_PROTO_SRC_PORT, &port.container.port().to_be_bytes());
            });
        });
        request.nest(CTA_FILTER, &[], |filter| {
            filter.attribute(CTA_FILTER_REPLY_FLAGS, &flags.to_ne_bytes());
        });
        request
    });
}

fn forget(ports: &[PublishedPort], request: impl Fn(&PublishedPort) -> Request) {
    let ports = ports.iter().filter(|port| port.transport == Transport::Udp);
    let requests: Vec<_> = ports.map(request).collect();
    if !requests.is_empty() {
        best_effort(Socket::of_filter().and_then(|socket| socket.batch(requests)));
    }
}
