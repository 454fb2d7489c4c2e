//! Network devices of the host that become a container's, by rtnetlink(7).
//!
//! A device that goes to another namespace loses its addresses and is taken down. So its addresses are read before, and
//! set again on the other side, over a socket that belongs there.

use crate::link_state::index_of;
use crate::netlink::{Attribute, Request, Socket};
use rustix::fd::{AsRawFd as _, BorrowedFd};
use tote_sys::Errno;

pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_GETLINK: u16 = 18;
pub(crate) const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
pub(crate) const IFLA_IFNAME: u16 = 3;
pub(crate) const IFLA_ADDRESS: u16 = 1;
pub(crate) const IFLA_MTU: u16 = 4;
pub(crate) const IFLA_MASTER: u16 = 10;
pub(crate) const IFLA_LINKINFO: u16 = 18;
pub(crate) const IFLA_INFO_KIND: u16 = 1;
pub(crate) const IFLA_INFO_DATA: u16 = 2;
pub(crate) const IFLA_IFALIAS: u16 = 20;
pub(crate) const IFLA_NET_NS_FD: u16 = 28;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
const IFA_FLAGS: u16 = 8;
const IFA_F_PERMANENT: u8 = 0x80;
/// Lengths in bytes of `struct ifinfomsg` and `struct ifaddrmsg`.
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
pub(crate) const IFF_UP: u32 = 1;
/// The scopes from here on are the kernel's to give: `fe80::` belongs to the link.
const RT_SCOPE_LINK: u8 = 253;

/// Why a device of the host's could not become a container's.
#[derive(Debug, thiserror::Error)]
#[error("failed to move the network device {name:?} into the container: {attempt}")]
pub struct DeviceError {
    /// Its name on the host.
    pub name: String,
    /// The part that failed.
    pub attempt: &'static str,
    /// The kernel's reason.
    #[source]
    pub source: Errno,
}

/// Moves devices, each by its name here and to its name there, with their addresses, and brings them up.
///
/// # Errors
/// [`DeviceError`].
pub fn move_devices(devices: &[(String, String)], network: BorrowedFd<'_>) -> Result<(), DeviceError> {
    if devices.is_empty() {
        return Ok(()); // as nearly always; no socket for that
    }
    for (name, inside) in devices {
        move_one(name, inside, network).map_err(|(attempt, source)| DeviceError {
            name: name.clone(),
            attempt,
            source,
        })?;
    }
    Ok(())
}

fn move_one(name: &str, inside: &str, network: BorrowedFd<'_>) -> Result<(), (&'static str, Errno)> {
    let failed = |attempt| move |errno| (attempt, errno);
    let here = Socket::new().map_err(failed("open a routing socket"))?;
    let index = index_of(&here, name).map_err(failed("find it"))?;
    let addresses = addresses(&here, index).map_err(failed("read its addresses"))?;
    let mut request = Request::new(RTM_NEWLINK, &link(index, 0));
    request.attribute(IFLA_NET_NS_FD, &network.as_raw_fd().to_ne_bytes());
    request.name(IFLA_IFNAME, inside);
    here.acknowledged(request).map_err(failed("hand it over"))?;

    let there = Socket::inside(network).map_err(failed("open a routing socket in the container"))?;
    // It may have got another number there.
    let index = index_of(&there, inside).map_err(failed("find it in the container"))?;
    for address in addresses {
        let mut request = Request::new(RTM_NEWADDR, &address.header(index));
        for (kind, value) in &address.attributes {
            request.attribute(*kind, value);
        }
        there.acknowledged(request).map_err(failed("set its addresses"))?;
    }
    let up = Request::new(RTM_NEWLINK, &link(index, IFF_UP));
    there.acknowledged(up).map_err(failed("bring it up"))
}

/// `struct ifinfomsg`, with flags that are all to be set.
pub(crate) fn link(index: u32, flags: u32) -> [u8; LINK_HEADER] {
    let mut header = [0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&flags.to_ne_bytes());
    header
}

/// An address of a device.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    family: u8,
    prefix: u8,
    scope: u8,
    attributes: Vec<(u16, Vec<u8>)>,
}

impl Address {
    /// `struct ifaddrmsg`.
    fn header(&self, index: u32) -> [u8; ADDRESS_HEADER] {
        let mut header = [self.family, self.prefix, IFA_F_PERMANENT, self.scope, 0, 0, 0, 0];
        header[4..].copy_from_slice(&index.to_ne_bytes());
        header
    }

    /// Reads an RTM_NEWADDR; `None` for one of another device, or that the kernel will give anew.
    fn read(body: &[u8], index: u32) -> Option<Self> {
        let (header, rest) = body.split_at_checked(ADDRESS_HEADER)?;
        let of = u32::from_ne_bytes(header[4..].try_into().ok()?);
        if of != index || header[3] >= RT_SCOPE_LINK {
            return None;
        }
        let kept = [IFA_ADDRESS, IFA_LOCAL, IFA_BROADCAST, IFA_FLAGS];
        let attributes = Attribute::all(rest)
            .filter(|attribute| kept.contains(&attribute.kind))
            .map(|attribute| (attribute.kind, attribute.value.to_vec()));
        Some(Self {
            family: header[0],
            prefix: header[1],
            scope: header[3],
            attributes: attributes.collect(),
        })
    }
}

fn addresses(socket: &Socket, index: u32) -> Result<Vec<Address>, Errno> {
    let request = Request::new(RTM_GETADDR, &[0; ADDRESS_HEADER]);
    let messages = socket.ask(request, true)?;
    let found = messages.iter().filter(|message| message.kind == RTM_NEWADDR);
    Ok(found
        .filter_map(|message| Address::read(&message.body, index))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_device() {
        let mut body = vec![2, 24, 0x80, 0, 7, 0, 0, 0];
        body.extend([8, 0, 2, 0, 10, 0, 0, 1]);
        body.extend([8, 0, 99, 0, 1, 2, 3, 4]);
        let address = Address::read(&body, 7).unwrap();
        assert_eq!(address.attributes, [(IFA_LOCAL, vec![10, 0, 0, 1])]);
        assert_eq!(address.header(9), [2, 24, 0x80, 0, 9, 0, 0, 0]);
        assert_eq!(Address::read(&body, 8), None);
        assert_eq!(Address::read(&body[..3], 7), None);
    }
}
