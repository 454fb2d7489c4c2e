//! Links of containers that share a link of the machine's: macvlan and ipvlan (ip-link(8)).
//!
//! Such a link is born in the container's network namespace and has no other end, so nothing of it is among the machine's links. It has
//! a second name there, which follows from the container's id. By that name the kernel finds it in all namespaces that it has
//! numbered for this one, and the container's is numbered when the link is made.

use crate::netlink::{Attribute, NLM_F_CREATE, NLM_F_EXCL, Request, Socket, number};
use rustix::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};
use tote_sys::{Errno, best_effort};

const RTM_DELLINK: u16 = 17;
const RTM_NEWNSID: u16 = 88;
const RTM_GETNSID: u16 = 90;
const RTM_NEWLINKPROP: u16 = 108;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_TARGET_NETNSID: u16 = 46;
const IFLA_PROP_LIST: u16 = 52;
const IFLA_ALT_IFNAME: u16 = 53;
/// The mode of macvlan and the one of ipvlan have the same number.
const IFLA_MODE: u16 = 1;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;
/// Length in bytes of `struct ifinfomsg`.
const LINK_HEADER: usize = 16;
/// `struct rtgenmsg`, as long as netlink aligns it.
const NSID_HEADER: [u8; 4] = [0; 4];
/// Any number that is free.
const ANY_NSID: i32 = -1;

/// How long an address is waited for that a container has had until now. The kernel takes down the namespace of an ended container
/// beside everything else, and no message says when.
const PATIENCE: Duration = Duration::from_secs(5);
const BETWEEN: Duration = Duration::from_millis(2);

/// How links of macvlan that have the same parent reach each other, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacvlanMode {
    /// Not at all.
    Private = 1,
    /// By a switch outside that sends frames back.
    Vepa = 2,
    /// Directly.
    Bridge = 4,
    /// There is only one, which has the parent's hardware address.
    Passthru = 8,
}

/// The part of traffic that ipvlan looks at, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpvlanMode {
    /// Frames: the links are in the parent's network.
    L2 = 0,
    /// Packets: the machine is a router between the links and its network.
    L3 = 1,
    /// Packets, which the machine's packet filter sees.
    L3s = 2,
}

/// A kind of link that shares another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sublink {
    /// A link with a hardware address of its own.
    Macvlan(MacvlanMode),
    /// A link with the parent's hardware address.
    Ipvlan(IpvlanMode),
}

impl Sublink {
    /// The kernel's word for the kind.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Macvlan(_) => "macvlan",
            Self::Ipvlan(_) => "ipvlan",
        }
    }

    /// Whether such a link has a hardware address of its own.
    #[must_use]
    pub fn has_own_mac(self) -> bool {
        !matches!(self, Self::Ipvlan(_) | Self::Macvlan(MacvlanMode::Passthru))
    }
}

/// The link of the host's that a container's hangs on, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// A bridge, of which the other end of a pair is a port.
    Bridge(u32),
    /// A link that several containers share.
    Parent {
        /// The number of the parent.
        index: u32,
        /// How it is shared.
        sublink: Sublink,
    },
    /// The machine's own device with the link's hardware address, which becomes the container's: a guest has one for each link.
    Device,
}

/// Has a request for a link make one that shares the parent of that number.
pub(crate) fn share(request: &mut Request, parent: u32, sublink: Sublink) {
    request.attribute(IFLA_LINK, &parent.to_ne_bytes());
    request.nest(IFLA_LINKINFO, &[], |info| {
        info.name(IFLA_INFO_KIND, sublink.kind());
        info.nest(IFLA_INFO_DATA, &[], |data| match sublink {
            Sublink::Macvlan(mode) => data.attribute(IFLA_MODE, &(mode as u32).to_ne_bytes()),
            Sublink::Ipvlan(mode) => data.attribute(IFLA_MODE, &(mode as u16).to_ne_bytes()),
        });
    });
}

/// Words about an error of the kernel's that says little, when a link is made.
pub(crate) fn advice(attached: Attached, errno: Errno) -> &'static str {
    let Attached::Parent { sublink, .. } = attached else {
        return "";
    };
    match (sublink, errno) {
        (_, Errno::BUSY) => " (the parent is a port of a bridge, or has links of the other driver)",
        (Sublink::Macvlan(_), Errno::INVAL) => " (with macvlan_mode=passthru a parent has one link only)",
        _ => "",
    }
}

/// Numbers the container's network namespace, so that [`remove_inside`] finds it when no process is in it any more.
pub(crate) fn number_namespace(here: &Socket, network: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut request = Request::new(RTM_NEWNSID, &NSID_HEADER);
    request.attribute(NETNSA_NSID, &ANY_NSID.to_ne_bytes());
    request.attribute(NETNSA_FD, &network.as_raw_fd().to_ne_bytes());
    but(Errno::EXIST, here.batch(vec![request])?)
}

/// Gives the link of that number its second name, and carries out the requests that bring it up. An address that a container
/// which has just ended still has is waited for.
pub(crate) fn start(there: &Socket, (index, name): (u32, &str), requests: &[Request]) -> Result<(), Errno> {
    let mut header = [0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut named = Request::new(RTM_NEWLINKPROP, &header).flags(NLM_F_CREATE | NLM_F_EXCL);
    named.nest(IFLA_PROP_LIST, &[], |list| list.name(IFLA_ALT_IFNAME, name));
    but(Errno::EXIST, there.batch(vec![named])?)?;
    let end = Instant::now() + PATIENCE;
    loop {
        match but(Errno::EXIST, there.batch(requests.to_vec())?) {
            Err(Errno::ADDRINUSE) if Instant::now() < end => wait(),
            done => return done,
        }
    }
}

/// The first failure of a batch that is not the one which does no harm.
fn but(harmless: Errno, refused: Vec<(usize, Errno)>) -> Result<(), Errno> {
    let mut others = refused.into_iter().filter(|(_, errno)| *errno != harmless);
    others.next().map_or(Ok(()), |(_, errno)| Err(errno))
}

fn wait() {
    #[expect(
        clippy::disallowed_methods,
        reason = "no message of the kernel says that it has taken down a network namespace"
    )]
    std::thread::sleep(BETWEEN);
}

/// Removes links by their second names, in whatever network namespace they are. Links that are gone need nothing.
///
/// # Errors
/// The kernel's, of the socket.
pub fn remove_inside(names: &[String]) -> Result<(), Errno> {
    if names.is_empty() {
        return Ok(());
    }
    let here = Socket::new()?;
    for namespace in namespaces(&here)? {
        let requests = names.iter().map(|name| {
            let mut request = Request::new(RTM_DELLINK, &[0; LINK_HEADER]);
            request.attribute(IFLA_TARGET_NETNSID, &namespace.to_ne_bytes());
            request.name(IFLA_ALT_IFNAME, name);
            request
        });
        // A namespace that goes meanwhile takes its links with it; one that is not the caller's has none of these.
        best_effort(here.batch(requests.collect()));
    }
    Ok(())
}

/// The numbers of the network namespaces that are numbered for this one.
fn namespaces(here: &Socket) -> Result<Vec<u32>, Errno> {
    let messages = here.ask(Request::new(RTM_GETNSID, &NSID_HEADER), true)?;
    let numbered = messages.iter().filter(|message| message.kind == RTM_NEWNSID);
    let numbers = numbered.filter_map(|message| {
        let rest = message.body.get(NSID_HEADER.len()..)?;
        let mut attributes = Attribute::all(rest);
        number(attributes.find(|attribute| attribute.kind == NETNSA_NSID)?.value)
    });
    Ok(numbers.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel without ipvlan cannot say whether the request is right; this is what ip(8) sends.
    #[test]
    fn a_link_of_ipvlan_names_its_parent_and_mode() {
        let attribute = |kind: u16, value: &[u8]| {
            let length = u16::try_from(4 + value.len()).unwrap();
            let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let nested = 0x8000;
        for (mode, number) in [(IpvlanMode::L2, 0u16), (IpvlanMode::L3, 1), (IpvlanMode::L3s, 2)] {
            let mut request = Request::new(16, &[]);
            let header = request.as_bytes().len();
            share(&mut request, 7, Sublink::Ipvlan(mode));
            // IFLA_IPVLAN_MODE has two bytes, where the one of macvlan has four.
            let data = attribute(2 | nested, &attribute(1, &number.to_ne_bytes()));
            let info = [attribute(1, b"ipvlan\0"), data].concat();
            let expected = [attribute(5, &7u32.to_ne_bytes()), attribute(18 | nested, &info)].concat();
            assert_eq!(request.as_bytes()[header..], expected, "{mode:?}");
        }
    }
}
