//! The end of a network in a container.

use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use tote_bundle::DEFAULT_NETWORK;

/// A container's end in a network, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The network's name.
    pub network: String,
    /// The network's id.
    pub network_id: String,
    /// The link on the host's side.
    pub link: String,
    /// The container's address.
    pub address: Ipv4Addr,
    /// The length of the network's prefix, in bits.
    pub prefix: u8,
    /// The host's address in the network; `None` of an internal one, which leads nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Ipv4Addr>,
    /// The hardware address of the container's link.
    pub mac: String,
    /// What the container is called there, beside its own names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}

impl Endpoint {
    /// Whether the network has names, as those have that users make.
    pub(super) fn is_named(&self) -> bool {
        self.network != DEFAULT_NETWORK
    }
}
