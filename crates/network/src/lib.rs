//! Networks of containers: the links, the addresses, the rules of the packet filter, and the leases of addresses and their names.
//!
//! Invariants:
//! - The kernel is asked by netlink(7) and by its files of settings; no program is executed.
//! - What the kernel answers is read by a parser that no bytes make panic.
//! - All rules are in one table of the packet filter, `tote`, and come and go in one transaction each. No rule of another
//!   program is changed; exceptions for a bridge are added to tables of firewalls that expect them, and go with it. No setting is changed
//!   without a note of what it was before.
//! - An address belongs to the container whose lease is on disk, and a lease is made by one system call that fails where
//!   there is one already.
//!
//! The crate decides neither names nor places: the engine knows which networks there are, and where their records are.

mod arriving;
mod bridge;
mod called;
mod claim;
mod clients;
mod conntrack;
mod denial;
mod device;
mod egress;
mod egress_arp;
mod egress_first;
mod egress_kept;
mod egress_match;
mod egress_neighbour;
mod egress_parts;
mod egress_peers;
mod egress_rule;
mod egress_table;
mod egress_verdict;
mod error;
mod filter;
mod filter_events;
mod foreign;
mod foreign_walk;
mod forwarding;
mod guard;
mod kind;
mod lease;
mod link;
mod link_state;
mod mac;
mod machine;
mod neighbour;
mod netlink;
mod nft_table;
mod noted;
mod onward;
mod onward_rule;
mod parent;
mod parted;
mod port;
mod published;
mod published_port;
mod redirect;
mod route;
mod rule;
mod shape;
mod special;
mod sublink;
mod subnet;
mod surroundings;
mod tap;
mod transport;

pub use bridge::{
    Bridge, Bridge6, Uplink, bring_up, check_bridges, routes_in_the_way, routes6_in_the_way, take_down,
};
pub use called::CalledNames;
pub use claim::claimed;
pub use clients::{CLIENT_MARK, STAY_MARK, keep_clients, keep_clients_again, keep_marked};
pub use denial::{Denials, epoch, filter_state, remove_exceptions};
pub use device::{DeviceError, move_devices};
pub use egress::{Answerer, Egress, Place, Service, remove_egress};
pub use egress_first::{Attempt, FirstAttempts, Inside};
pub use egress_parts::EgressLink;
pub use error::NetworkError;
pub use filter_events::FilterEvents;
pub use lease::{LeaseError, Leases};
pub use link::{ContainerLink, Link6, LinkError, LinkRules, LinkSetting, connect, lead_out, remove};
pub use link_state::UPLINK;
pub use mac::Mac;
pub use machine::{MachineAddresses, is_own};
pub use neighbour::forget_neighbours;
pub use noted::Noted;
pub use onward::{HeldBack, hold_back};
pub use parent::{Parent, check_sublinks, parent};
pub use parted::disconnect;
pub use port::reflect;
pub use published::{allow_loopback, publish, published, published_in, withdraw};
pub use published_port::{PublishedPort, Way};
pub use redirect::{RESOLVER, guest_resolver_sockets, resolver_sockets};
pub use shape::Rate;
pub use special::{is_in, is_special};
pub use sublink::{Attached, IpvlanMode, MacvlanMode, Sublink, remove_inside};
pub use subnet::{Address, Prefix, Subnet, Subnet6, SubnetError};
pub use tap::{GUEST_RESOLVER, TUN, Tap};
pub use transport::{Transport, is_free, is_led_elsewhere};
