//! Subnets of the networks that are up or come up, in the table of the packet filter, where all state roots see them.
//!
//! A route tells of a subnet once its bridge has the address. Before that, the rules of the network are made, by a transaction that fails if
//! another network has the subnet: each has an empty chain that names it.

use crate::Subnet;
use crate::error::NetworkError;
use crate::filter::{self, Chain, TABLE};
use crate::netlink::{NLM_F_EXCL, Request};
use tote_sys::Errno;

/// How the names of these chains begin.
const PREFIX: &str = "subnet-";

/// The name of the chain for a subnet.
pub(crate) fn name(subnet: Subnet) -> String {
    format!("{PREFIX}{subnet}")
}

/// The request that takes a subnet, which no other network has if it is to be `new`.
pub(crate) fn new(subnet: Subnet, new: bool) -> Request {
    let chain = Chain {
        name: name(subnet),
        hook: None,
        rules: Vec::new(),
    };
    chain.new_in(TABLE).flags(if new { NLM_F_EXCL } else { 0 })
}

/// The error of a network that comes up, where that is due to its subnet.
pub(crate) fn refused(error: NetworkError, subnet: Subnet) -> NetworkError {
    match error {
        NetworkError::Filter {
            source: Errno::EXIST, ..
        } => NetworkError::InTheWay {
            subnet: subnet.to_string(),
            other: subnet.to_string(),
        },
        other => other,
    }
}

/// The subnets that networks of this network namespace have, as far as the caller may look.
pub fn claimed() -> Vec<Subnet> {
    let chains = filter::own_chains().unwrap_or_default();
    let subnets = chains.iter().filter_map(|chain| chain.strip_prefix(PREFIX));
    subnets.filter_map(|subnet| subnet.parse().ok()).collect()
}
