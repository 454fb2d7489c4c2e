//! Parts of the tables of egress policies that all rules about links need.

use crate::filter::{self, NFT_MSG_NEWRULE, NLM_F_APPEND, header};
use crate::mac::Mac;
use crate::netlink::{NLM_F_CREATE, Request};
use crate::nft_table::{self as nft, NETDEV};
use std::net::IpAddr;
use std::time::Duration;

/// The set of connections that are remembered.
pub(crate) const FLOWS: &str = "flows";
/// The chain that looks at the sender of a packet which the machine has sent on, where no handshake says that this is one.
pub(crate) const SENDERS: &str = "senders";
/// How long one of another protocol than TCP is remembered in which the container says nothing.
pub(crate) const IDLE_OTHER: Duration = Duration::from_secs(180);

/// The host's end of a link, as the rules know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressLink {
    /// The name of the host's end.
    pub outside: String,
    /// The hardware address of the container's end.
    pub mac: Mac,
    /// The container's addresses, each with the length of its network's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The machine's addresses in these networks, where the machine marks what it sends on.
    pub gateways: Vec<IpAddr>,
}

/// The requests of a transaction, to which rules are added.
pub(crate) struct Rules<'a> {
    pub(crate) table: &'a str,
    /// Whether the table has nothing yet.
    pub(crate) is_fresh: bool,
    pub(crate) requests: Vec<Request>,
}

impl Rules<'_> {
    /// Makes a chain without rules, whatever was there before.
    pub(crate) fn chain(&mut self, name: &str, hook: Option<(u32, &str, bool)>) {
        self.requests.push(nft::chain(self.table, name, hook));
        if !self.is_fresh {
            self.requests.push(nft::empty_chain(self.table, name));
        }
    }

    pub(crate) fn add(&mut self, chain: &str, fill: impl FnOnce(&mut Request)) {
        let mut request = Request::new(NFT_MSG_NEWRULE, &header(NETDEV)).flags(NLM_F_CREATE | NLM_F_APPEND);
        request.name(filter::NFTA_RULE_TABLE, self.table);
        request.name(filter::NFTA_RULE_CHAIN, chain);
        request.nest(filter::NFTA_RULE_EXPRESSIONS, &[], fill);
        self.requests.push(request);
    }
}
