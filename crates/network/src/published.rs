//! Published ports: maps of the packet filter from addresses and ports of the host to those of containers.
//!
//! The kernel's maps are what counts. An element is made by a transaction that fails where there is one with that key, so that
//! no two containers have one port, not even those of two state roots, and it names its container, by which it is found again.

use crate::error::NetworkError;
use crate::filter::{self, Chain, HEADER, Hook, NFPROTO_INET, SUBSYSTEM, TABLE, header};
use crate::netlink::{Attribute, Message, NLM_F_CREATE, NLM_F_EXCL, Request, Socket};
use crate::published_port::{COMING, COMING6, HEARD, Map, OWN, OWN6, PublishedPort, Way};
use crate::rule::Expression::{
    self, Accept, Destination, Destination6, Ipv4, Ipv6, OwnDestination, ToPublished,
};
use crate::rule::{NFTA_DATA_VALUE, big};
use crate::subnet::{LOOPBACK, Prefix};
use crate::{clients, conntrack, forwarding};
use rustix::fd::BorrowedFd;
use std::net::Ipv6Addr;
use tote_sys::Errno;

const NFT_MSG_NEWSET: u16 = SUBSYSTEM | 9;
const NFT_MSG_DELSET: u16 = SUBSYSTEM | 11;
const NFT_MSG_NEWSETELEM: u16 = SUBSYSTEM | 12;
const NFT_MSG_GETSETELEM: u16 = SUBSYSTEM | 13;
const NFT_MSG_DELSETELEM: u16 = SUBSYSTEM | 14;
const NFTA_SET_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_FLAGS: u16 = 3;
const NFTA_SET_KEY_TYPE: u16 = 4;
const NFTA_SET_KEY_LEN: u16 = 5;
const NFTA_SET_DATA_TYPE: u16 = 6;
const NFTA_SET_DATA_LEN: u16 = 7;
const NFTA_SET_ID: u16 = 10;
const NFT_SET_MAP: u32 = 8;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_DATA: u16 = 2;
const NFTA_SET_ELEM_USERDATA: u16 = 6;
/// The kind of user data that nft(8) shows as a comment.
const COMMENT: u8 = 0;
/// The loopback address of IPv6, from which nothing can be led away: packets from it do not leave their device.
const LOOPBACK6: Ipv6Addr = Ipv6Addr::LOCALHOST;
/// How many elements go into one message to the kernel, so that it fits into a socket's buffer.
const AT_ONCE: usize = 1000;

/// Every published port of this network namespace, with the name of its holder; `None` where the packet filter has no such maps,
/// because nothing was published yet or another program has flushed its rules.
///
/// # Errors
/// [`NetworkError::Filter`].
pub fn published() -> Result<Option<Vec<(PublishedPort, String)>>, NetworkError> {
    published_by(Socket::of_filter)
}

/// Every published port of another network namespace.
///
/// # Errors
/// As of [`published`].
pub fn published_in(network: BorrowedFd<'_>) -> Result<Option<Vec<(PublishedPort, String)>>, NetworkError> {
    published_by(|| Socket::of_filter_inside(network))
}

fn published_by(
    socket: impl Fn() -> Result<Socket, Errno>,
) -> Result<Option<Vec<(PublishedPort, String)>>, NetworkError> {
    let mut all = Vec::new();
    for map in Map::ALL {
        let mut request = Request::new(NFT_MSG_GETSETELEM, &header(NFPROTO_INET));
        request.name(NFTA_SET_ELEM_LIST_TABLE, TABLE);
        request.name(NFTA_SET_ELEM_LIST_SET, map.name());
        match socket().and_then(|socket| socket.ask(request, true)) {
            Ok(messages) if map == Map::Heard => {
                let found = messages.iter().flat_map(elements);
                all.extend(found.map(|(port, holder)| (port.listened(), holder)));
            }
            Ok(messages) => all.extend(messages.iter().flat_map(elements)),
            // The maps of IPv6, and of ports where a process listens, are made for the first port that needs them.
            Err(Errno::NOENT) if map.is_ipv6() => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(source) => {
                let attempt = "read published ports from";
                return Err(NetworkError::Filter { attempt, source });
            }
        }
    }
    Ok(Some(all))
}

/// Publishes ports, each for the holder beside it. With `anew` the maps and their chains are made, too; the network
/// of each container is up.
///
/// # Errors
/// [`NetworkError::Filter`], with [`Errno::EXIST`] where one of them is published already: then none of them is, or, of more
/// than a thousand, some are.
pub fn publish(ports: &[(PublishedPort, &str)], anew: bool) -> Result<(), NetworkError> {
    let publish = |source| NetworkError::Filter {
        attempt: "publish ports by",
        source,
    };
    if anew {
        filter::put_with(Map::IPV4.map(new_map).to_vec(), &chains()).map_err(publish)?;
    }
    let is_translated6 = |port: &PublishedPort| port.way == Way::Translated && port.host.is_ipv6();
    if ports.iter().any(|(port, _)| is_translated6(port)) && !filter::has(COMING6).map_err(publish)? {
        filter::put_with(Map::IPV6.map(new_map).to_vec(), &chains6()).map_err(publish)?;
    }
    if ports.iter().any(|(port, _)| port.way == Way::Listened) && !filter::has(HEARD).map_err(publish)? {
        clients::keep_here().map_err(publish)?;
        let before = [new_map(Map::Heard)].into_iter().chain(clients::chains(TABLE));
        filter::put_with(before.collect(), &[heard()]).map_err(publish)?;
    }
    for some in ports.chunks(AT_ONCE) {
        let requests = some.iter().map(|(port, holder)| {
            element(NFT_MSG_NEWSETELEM, port, Some(holder)).flags(NLM_F_CREATE | NLM_F_EXCL)
        });
        filter::transaction(requests.collect()).map_err(publish)?;
        let some: Vec<_> = some.iter().map(|(port, _)| *port).collect();
        conntrack::forget_host(&some);
    }
    Ok(())
}

/// Publishes these ports no more. Those that are not published need nothing.
///
/// # Errors
/// [`NetworkError::Filter`].
pub fn withdraw(ports: &[PublishedPort]) -> Result<(), NetworkError> {
    let withdraw = |source| NetworkError::Filter {
        attempt: "take published ports from",
        source,
    };
    let removal = |port: &PublishedPort| element(NFT_MSG_DELSETELEM, port, None);
    for some in ports.chunks(AT_ONCE) {
        match filter::transaction(some.iter().map(removal).collect()) {
            // One of them is gone already, perhaps with all of the map.
            Err(Errno::NOENT) => {
                some.iter()
                    .try_for_each(|port| match filter::transaction(vec![removal(port)]) {
                        Ok(()) | Err(Errno::NOENT) => Ok(()),
                        Err(errno) => Err(withdraw(errno)),
                    })?
            }
            other => other.map_err(withdraw)?,
        }
        conntrack::forget_container(some);
    }
    Ok(())
}

/// Lets the host's own programs reach containers of this bridge by addresses of its loopback device. The rules of the network
/// see to it that no member of the bridge can send to those addresses.
///
/// # Errors
/// [`NetworkError::Loopback`].
pub fn allow_loopback(bridge: &str) -> Result<(), NetworkError> {
    forwarding::allow_loopback(bridge).map_err(NetworkError::Loopback)
}

/// The map that has to go with a chain of [`CHAINS`].
pub(crate) fn without(chain: &str) -> Option<Request> {
    let map = Map::ALL.into_iter().find(|map| map.chain() == chain)?;
    let mut request = Request::new(NFT_MSG_DELSET, &header(NFPROTO_INET));
    request.name(NFTA_SET_TABLE, TABLE);
    request.name(NFTA_SET_NAME, map.name());
    Some(request)
}

fn new_map(map: Map) -> Request {
    let mut request = Request::new(NFT_MSG_NEWSET, &header(NFPROTO_INET)).flags(NLM_F_CREATE);
    request.name(NFTA_SET_TABLE, TABLE);
    request.name(NFTA_SET_NAME, map.name());
    big(&mut request, NFTA_SET_FLAGS, NFT_SET_MAP);
    let ((key, key_length), (value, length)) = (map.key(), map.value());
    big(&mut request, NFTA_SET_KEY_TYPE, key);
    big(&mut request, NFTA_SET_KEY_LEN, key_length);
    big(&mut request, NFTA_SET_DATA_TYPE, value);
    big(&mut request, NFTA_SET_DATA_LEN, length);
    big(&mut request, NFTA_SET_ID, map.id());
    request
}

/// A port that is bound to one address comes before those that are bound to all.
fn chains() -> [Chain; 2] {
    let rules = || Map::IPV4.map(|map| vec![Ipv4, OwnDestination, to_published(map)]);
    // A packet for the loopback device that comes from elsewhere is a lie, which the kernel finds out after this chain.
    let foreign = vec![Ipv4, Destination(LOOPBACK), Accept];
    [
        Chain {
            name: COMING.to_owned(),
            hook: Some(Hook::Prerouting),
            rules: [foreign].into_iter().chain(rules()).collect(),
        },
        Chain {
            name: OWN.to_owned(),
            hook: Some(Hook::Output),
            rules: rules().to_vec(),
        },
    ]
}

/// The chains of IPv6. The loopback address is left to the host's own programs.
fn chains6() -> [Chain; 2] {
    let loopback = Prefix::around(LOOPBACK6, 128).map(|own| vec![Ipv6, Destination6(own), Accept]);
    let rules = || Map::IPV6.map(|map| vec![Ipv6, OwnDestination, to_published(map)]);
    [(COMING6, Hook::Prerouting), (OWN6, Hook::Output)].map(|(name, hook)| Chain {
        name: name.to_owned(),
        hook: Some(hook),
        rules: loopback.clone().into_iter().chain(rules()).collect(),
    })
}

/// The chain beside the map of ports where a process listens.
fn heard() -> Chain {
    Chain {
        name: HEARD.to_owned(),
        hook: None,
        rules: Vec::new(),
    }
}

fn to_published(map: Map) -> Expression {
    ToPublished {
        map: map.name(),
        ipv6: map.is_ipv6(),
        any_address: map.is_any(),
    }
}

/// A request about one element; with a holder it has a value as well.
fn element(kind: u16, port: &PublishedPort, holder: Option<&str>) -> Request {
    let mut request = Request::new(kind, &header(NFPROTO_INET));
    request.name(NFTA_SET_ELEM_LIST_TABLE, TABLE);
    request.name(NFTA_SET_ELEM_LIST_SET, port.map().name());
    request.nest(NFTA_SET_ELEM_LIST_ELEMENTS, &[], |list| {
        list.nest(NFTA_LIST_ELEM, &[], |element| {
            element.nest(NFTA_SET_ELEM_KEY, &[], |key| {
                key.attribute(NFTA_DATA_VALUE, &port.key())
            });
            if let Some(holder) = holder {
                element.nest(NFTA_SET_ELEM_DATA, &[], |data| {
                    data.attribute(NFTA_DATA_VALUE, &port.data())
                });
                element.attribute(NFTA_SET_ELEM_USERDATA, &comment(holder));
            }
        });
    });
    request
}

/// A text as nft(8) keeps comments: a kind, a length, and the text with a zero byte.
fn comment(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len() + 1).unwrap_or(u8::MAX);
    [&[COMMENT, length], text.as_bytes(), &[0]].concat()
}

/// The elements in an NFT_MSG_NEWSETELEM; others than ours are left out.
fn elements(message: &Message) -> Vec<(PublishedPort, String)> {
    let rest = message.body.get(HEADER..).unwrap_or_default();
    let lists = Attribute::all(rest).filter(|attribute| attribute.kind == NFTA_SET_ELEM_LIST_ELEMENTS);
    let elements = lists.flat_map(|list| Attribute::all(list.value));
    elements
        .filter_map(|element| read_element(element.value))
        .collect()
}

fn read_element(bytes: &[u8]) -> Option<(PublishedPort, String)> {
    let (mut key, mut data, mut holder) = (None, None, String::new());
    for attribute in Attribute::all(bytes) {
        let value = || Attribute::all(attribute.value).next().map(|value| value.value);
        match (attribute.kind, attribute.value) {
            (NFTA_SET_ELEM_KEY, _) => key = value(),
            (NFTA_SET_ELEM_DATA, _) => data = value(),
            (NFTA_SET_ELEM_USERDATA, [COMMENT, _, text @ ..]) => holder = crate::netlink::text(text),
            _ => {}
        }
    }
    Some((PublishedPort::read(key?, data?)?, holder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::messages;
    use crate::transport::Transport;
    use std::net::SocketAddr;

    fn port(transport: Transport, host: &str) -> PublishedPort {
        let host: SocketAddr = host.parse().unwrap();
        let container = if host.is_ipv6() {
            "[fd00::2]:80"
        } else {
            "10.210.0.2:80"
        };
        PublishedPort {
            transport,
            host,
            container: container.parse().unwrap(),
            way: Way::Translated,
        }
    }

    #[test]
    fn an_element_reads_back_as_it_was_written() {
        for host in ["127.0.0.1:5353", "0.0.0.0:80", "[2001:db8::1]:80", "[::]:80"] {
            let port = port(Transport::Udp, host);
            let bytes = element(NFT_MSG_NEWSETELEM, &port, Some("web")).finish(0);
            assert_eq!(elements(&messages(&bytes)[0]), [(port, "web".to_owned())]);
            let heard = PublishedPort {
                way: Way::Listened,
                ..port
            };
            let bytes = element(NFT_MSG_NEWSETELEM, &heard, Some("web")).finish(0);
            let read = elements(&messages(&bytes)[0]);
            assert_eq!(read.first().map(|(port, _)| port.listened()), Some(heard));
        }
        let hostile = [0xff; 60];
        for length in 0..hostile.len() {
            assert_eq!(read_element(&hostile[..length]), None);
        }
    }
}
