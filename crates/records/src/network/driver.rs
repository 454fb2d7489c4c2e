//! Drivers of networks, by docker's words.

use serde::{Deserialize, Serialize};

/// How containers are connected with a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkDriver {
    /// By a bridge, which leads out by address translation.
    #[default]
    Bridge,
    /// By links with hardware addresses of their own on a link of the machine's.
    Macvlan,
    /// By links with the hardware address of a link of the machine's.
    Ipvlan,
}

impl NetworkDriver {
    /// docker's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Macvlan => "macvlan",
            Self::Ipvlan => "ipvlan",
        }
    }

    /// Reads docker's word; empty is the driver bridge.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let all = [Self::Bridge, Self::Macvlan, Self::Ipvlan];
        let default = text.is_empty().then_some(Self::Bridge);
        default.or_else(|| all.into_iter().find(|driver| driver.as_str() == text))
    }

    /// Whether the network has a bridge on this machine, where packets can be translated, limited and held back.
    #[must_use]
    pub fn has_bridge(&self) -> bool {
        *self == Self::Bridge
    }
}
