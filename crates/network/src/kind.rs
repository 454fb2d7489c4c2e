//! Kinds of links that the kernel can make.

use crate::device::{IFLA_ADDRESS, IFLA_INFO_KIND, IFLA_LINKINFO};
use crate::device::{IFLA_IFNAME, RTM_NEWLINK, link};
use crate::netlink::{NLM_F_CREATE, NLM_F_EXCL, Request, Socket};
use tote_sys::Errno;

/// A hardware address that no link can have.
const NO_ADDRESS: [u8; 6] = [0; 6];

/// Asks whether the caller may make links of this kind, and the kernel can: for one with an impossible hardware address and without a
/// parent. A kernel that knows the kind refuses the address, or one of ipvlan the missing parent, before it makes anything.
///
/// # Errors
/// [`Errno::PERM`] without CAP_NET_ADMIN, [`Errno::OPNOTSUPP`] without the kind.
pub(crate) fn probe(kind: &str) -> Result<(), Errno> {
    let mut request = Request::new(RTM_NEWLINK, &link(0, 0)).flags(NLM_F_CREATE | NLM_F_EXCL);
    request.name(IFLA_IFNAME, "tote-probe");
    request.attribute(IFLA_ADDRESS, &NO_ADDRESS);
    request.nest(IFLA_LINKINFO, &[], |info| info.name(IFLA_INFO_KIND, kind));
    match Socket::new()?.batch(vec![request])?.first() {
        None | Some((_, Errno::ADDRNOTAVAIL | Errno::INVAL)) => Ok(()),
        Some((_, errno)) => Err(*errno),
    }
}
