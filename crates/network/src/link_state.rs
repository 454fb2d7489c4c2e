//! Links as the kernel lists them.

use crate::device::{
    IFF_UP, IFLA_ADDRESS, IFLA_IFALIAS, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MTU, RTM_GETLINK,
    RTM_NEWLINK, link,
};
use crate::mac::Mac;
use crate::netlink::{Attribute, Message, Request, Socket, number, text};
use tote_sys::Errno;

/// The link of a namespace for a user's networks by which all packets leave it.
pub const UPLINK: &str = "uplink";

/// The number of the link with that name.
pub(crate) fn index_of(socket: &Socket, name: &str) -> Result<u32, Errno> {
    state_of(socket, name).map(|link| link.index)
}

/// The link with that name.
pub(crate) fn state_of(socket: &Socket, name: &str) -> Result<LinkState, Errno> {
    let mut request = Request::new(RTM_GETLINK, &link(0, 0));
    request.name(IFLA_IFNAME, name);
    let messages = socket.ask(request, false)?;
    let found = messages.iter().find_map(LinkState::read);
    found.ok_or(Errno::NODEV)
}

/// A link of the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
    pub(crate) mac: Mac,
    /// The alias, as `ip link set alias` gives it; empty for most links.
    pub(crate) alias: String,
    /// The kind, such as `bridge`; empty for hardware.
    pub(crate) kind: String,
}

impl LinkState {
    /// Whether it is the bridge with that alias. A bridge with the usual name is, whatever its alias says.
    pub(crate) fn is_bridge_of(&self, alias: &str) -> bool {
        self.name == alias || self.alias == alias
    }

    /// Reads an RTM_NEWLINK.
    fn read(message: &Message) -> Option<Self> {
        let (header, rest) = message.body.split_at_checked(16)?;
        if message.kind != RTM_NEWLINK {
            return None;
        }
        let mut found = Self {
            index: number(header.get(4..8)?)?,
            name: String::new(),
            mtu: 0,
            is_up: number(header.get(8..12)?)? & IFF_UP != 0,
            mac: Mac([0; 6]),
            alias: String::new(),
            kind: String::new(),
        };
        for attribute in Attribute::all(rest) {
            match attribute.kind {
                IFLA_IFNAME => found.name = text(attribute.value),
                IFLA_IFALIAS => found.alias = text(attribute.value),
                IFLA_LINKINFO => {
                    let mut parts = Attribute::all(attribute.value);
                    let kind = parts.find(|part| part.kind == IFLA_INFO_KIND);
                    found.kind = kind.map(|kind| text(kind.value)).unwrap_or_default();
                }
                IFLA_MTU => found.mtu = number(attribute.value)?,
                // Links of other kinds have longer ones, or none.
                IFLA_ADDRESS => found.mac = attribute.value.try_into().map_or(found.mac, Mac),
                _ => {}
            }
        }
        Some(found)
    }
}

/// All links of the host.
pub(crate) fn links(socket: &Socket) -> Result<Vec<LinkState>, Errno> {
    let messages = socket.ask(Request::new(RTM_GETLINK, &link(0, 0)), true)?;
    Ok(messages.iter().filter_map(LinkState::read).collect())
}
