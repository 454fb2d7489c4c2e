//! Why a network cannot be brought up or taken down.

use crate::LinkError;
use tote_sys::Errno;

/// Why a network is not up, or not down.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Another network has addresses of this one.
    #[error("the subnet {subnet} overlaps with {other}, to which this machine has a route already")]
    InTheWay {
        /// The network's.
        subnet: String,
        /// Subnet of the route.
        other: String,
    },
    /// A link that has the name of the network's bridge.
    #[error("the link {0} is there already, and is not a bridge of this network")]
    Foreign(String),
    /// The kernel has no bridges, or none for this caller.
    #[error(
        "failed to make a bridge on this machine, which takes CAP_NET_ADMIN and the kernel's module bridge"
    )]
    NoBridges(#[source] Errno),
    /// The kernel has no links that share another one, or none for this caller.
    #[error(
        "failed to make a link of {kind} on this machine, which takes CAP_NET_ADMIN and the kernel's module {kind}"
    )]
    NoSublinks {
        /// The kind of link.
        kind: &'static str,
        /// The kernel's reason.
        #[source]
        source: Errno,
    },
    /// The link that containers are to share.
    #[error(
        "this machine has no link {0:?} that containers could share: 'ip link' lists those that it has, and for a VLAN \
         'ip link add link eth0 name eth0.50 type vlan id 50' makes one"
    )]
    NoParent(String),
    /// Such a link that is down.
    #[error("the link {0} that containers are to share is down: bring it up with 'ip link set {0} up'")]
    ParentDown(String),
    /// A link of the host's.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The links and routes of the host.
    #[error("failed to read the links and routes of this machine")]
    Look(#[source] Errno),
    /// The packet filter.
    #[error("failed to {attempt} the packet filter (nf_tables)")]
    Filter {
        /// The attempt, as an infinitive and a preposition.
        attempt: &'static str,
        /// The kernel's reason.
        #[source]
        source: Errno,
    },
    /// A setting in `/proc/sys/net`.
    #[error("failed to {attempt} the forwarding of packets in /proc/sys/net/ipv4/conf and ipv6/conf")]
    Forwarding {
        /// The attempt, as an infinitive.
        attempt: &'static str,
        /// The kernel's reason.
        #[source]
        source: std::io::Error,
    },
    /// The setting by which the host's own programs reach containers by its loopback addresses.
    #[error("failed to let packets of the loopback device pass to a bridge, in /proc/sys/net/ipv4/conf")]
    Loopback(#[source] std::io::Error),
}
