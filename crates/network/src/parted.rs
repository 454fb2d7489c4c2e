//! Links whose container has left its networks.
//!
//! A veth pair goes with the network namespace of its container. A socket can keep that namespace for minutes after the last
//! process has ended: one whose peer never confirms the end of a connection sends again and again. So the command that takes a
//! container out of its networks marks the host's ends of its links, and the command that takes a network down removes the
//! marked ones.

use crate::device::{IFF_UP, IFLA_IFALIAS, IFLA_IFNAME, IFLA_MASTER, RTM_NEWLINK, link as link_header};
use crate::link::{LinkError, failed, refusals, removal};
use crate::link_state::links;
use crate::netlink::{Request, Socket};
use tote_sys::Errno;

/// The alias of a link whose container has left.
const PARTED: &str = "tote: its container has left";

/// Takes the host's end of links off their bridges and down, and marks them: no container has the addresses behind them any
/// more, even where a process keeps the other end's network namespace. Links that are gone need nothing.
///
/// # Errors
/// The kernel's, of the socket.
pub fn disconnect(outside: &[String]) -> Result<(), Errno> {
    if outside.is_empty() {
        return Ok(());
    }
    let requests = outside.iter().map(|name| {
        let mut header = link_header(0, 0);
        header[12..].copy_from_slice(&IFF_UP.to_ne_bytes());
        let mut request = Request::new(RTM_NEWLINK, &header);
        request.name(IFLA_IFNAME, name);
        request.attribute(IFLA_MASTER, &0u32.to_ne_bytes());
        request.attribute(IFLA_IFALIAS, PARTED.as_bytes());
        request
    });
    refusals(Socket::new()?.batch(requests.collect()), Errno::NODEV)
}

/// Removes the links that [`disconnect`] has marked, whatever their network was. Links that are gone need nothing.
pub(crate) fn remove_marked(socket: &Socket) -> Result<(), LinkError> {
    let remove = || failed("remove the links of containers that have left");
    let links = links(socket).map_err(remove())?;
    let marked = links.iter().filter(|link| link.alias == PARTED);
    let removals: Vec<_> = marked.map(|link| removal(&link.name)).collect();
    if removals.is_empty() {
        return Ok(());
    }
    refusals(socket.batch(removals), Errno::NODEV).map_err(remove())
}
