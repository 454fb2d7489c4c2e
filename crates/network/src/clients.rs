//! Addresses of clients of a process that connects to containers for them.
//!
//! It does so by a socket with the client's address, in a network namespace that the client has no way to, or on the host. The
//! answers belong to that socket, though no address of the namespace is theirs: such connections are marked, and a route of their
//! own leads what belongs to them to the process.

use crate::filter::{
    NFPROTO_INET, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE, NFT_MSG_NEWTABLE, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME,
    NFTA_CHAIN_TABLE, NFTA_CHAIN_TYPE, NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_RULE_CHAIN,
    NFTA_RULE_EXPRESSIONS, NFTA_RULE_TABLE, NFTA_TABLE_NAME, NLM_F_APPEND, header, transaction,
    transaction_by,
};
use crate::netlink::{NLM_F_CREATE, NLM_F_EXCL, Request, Socket};
use crate::rule::{
    NFT_CMP_EQ, NFT_REG_1, NFTA_DATA_VALUE, NFTA_IMMEDIATE_DATA, NFTA_IMMEDIATE_DREG, big, compare,
    expression, meta,
};
use crate::{LinkError, forwarding};
use rustix::fd::BorrowedFd;
use rustix::net::AddressFamily;
use tote_sys::{Errno, best_effort};

/// The mark of sockets with the address of a client.
pub const CLIENT_MARK: u32 = 0x746f_7465;

/// The mark of packets that belong to them. The sockets' own packets have another mark, or they would be led back as well.
pub(crate) const BACK_MARK: u32 = CLIENT_MARK + 1;
/// The mark of packets that stay in their network namespace, whatever address they are for.
pub const STAY_MARK: u32 = CLIENT_MARK + 2;
/// Beside the table of networks, which goes with the last one.
pub(crate) const TABLE: &str = "tote-clients";
const NF_INET_PRE_ROUTING: u32 = 0;
const NF_INET_LOCAL_OUT: u32 = 3;
/// After connections are tracked, and before routes are looked for.
const MANGLE: i32 = -150;
const NFT_META_MARK: u32 = 3;
const NFTA_META_KEY: u16 = 2;
const NFTA_META_SREG: u16 = 3;
const NFT_CT_MARK: u32 = 3;
const NFTA_CT_DREG: u16 = 1;
const NFTA_CT_KEY: u16 = 2;
const NFTA_CT_SREG: u16 = 4;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTA_OIF: u16 = 4;
const RTA_TABLE: u16 = 15;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TABLE: u16 = 15;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_HOST: u8 = 254;
const RTN_LOCAL: u8 = 2;
const FR_ACT_TO_TBL: u8 = 1;
/// Places of the rules among all rules: of a network namespace for a user's networks, which go with that, and of the host's, which are
/// removed with the last network. The second rule follows the first one, and its table has the mark's number and the place, which no
/// other program has chosen.
const INSIDE: u32 = 100;
const HERE: u32 = 102;
/// The place of the rule for packets that stay; its table has the clients' mark and the place, too.
const STAYING: u32 = 104;
/// The table of the usual routes.
const MAIN: u32 = 254;
/// Stands in a header for a table whose number does not fit into it.
const RT_TABLE_COMPAT: u8 = 252;
/// The chains, in whatever table they are.
pub(crate) const CHAINS: [&str; 2] = ["clients-there", "clients-back"];
/// The number of the loopback device in every network namespace.
const LOOPBACK_LINK: u32 = 1;

/// Lets sockets of this network namespace that have [`CLIENT_MARK`] have addresses of clients. Doing it twice is an error.
///
/// # Errors
/// [`LinkError`].
pub fn keep_clients(network: BorrowedFd<'_>) -> Result<(), LinkError> {
    let failed = |source| LinkError {
        attempt: "let sockets have the addresses of clients".to_owned(),
        source,
    };
    let routes = Socket::inside(network).map_err(failed)?;
    let refused = routes.batch(requests(true, INSIDE)).map_err(failed)?;
    // A kernel may be without IPv6.
    if let Some((_, errno)) = refused.into_iter().find(|(place, _)| *place < OF_IPV4) {
        return Err(failed(errno));
    }
    let filter = Socket::of_filter_inside(network).map_err(failed)?;
    let requests = [table()].into_iter().chain(chains(TABLE));
    transaction_by(&filter, requests.collect()).map_err(failed)
}

/// Makes the rules of [`keep_clients`] again in this network namespace, where another program has flushed them. The routes stay without them.
///
/// # Errors
/// [`LinkError`].
pub fn keep_clients_again() -> Result<(), LinkError> {
    let failed = |source| LinkError {
        attempt: "let sockets have the addresses of clients again".to_owned(),
        source,
    };
    if crate::filter::has_in(TABLE, CHAINS[0]).map_err(failed)? {
        return Ok(());
    }
    let requests = [table()].into_iter().chain(chains(TABLE));
    transaction(requests.collect()).map_err(failed)
}

/// The request for the table of a namespace for a user's networks.
pub(crate) fn table() -> Request {
    let mut table = Request::new(NFT_MSG_NEWTABLE, &header(NFPROTO_INET)).flags(NLM_F_CREATE);
    table.name(NFTA_TABLE_NAME, TABLE);
    table
}

/// Has a network namespace keep packets with [`STAY_MARK`], and answer with that mark to connections that begin with it. So a socket there
/// that has the mark is connected with a program of the same namespace, by whatever address of its own.
///
/// # Errors
/// [`LinkError`].
pub fn keep_marked(network: BorrowedFd<'_>) -> Result<(), LinkError> {
    let failed = |source| LinkError {
        attempt: "let connections begin in the container".to_owned(),
        source,
    };
    // What the kernel itself answers, such as a refusal, has the mark as well.
    for setting in ["tcp_fwmark_accept", "fwmark_reflect"] {
        forwarding::set_in(network, &format!("net/ipv4/{setting}"), b"1").map_err(failed)?;
    }
    best_effort(forwarding::set_in(network, "net/ipv6/fwmark_reflect", b"1"));
    stay(&Socket::inside(network).map_err(failed)?).map_err(failed)
}

/// Makes the rules and routes for packets that stay, which may be there.
pub(crate) fn stay(routes: &Socket) -> Result<(), Errno> {
    let families = [AddressFamily::INET, AddressFamily::INET6].into_iter();
    let requests = families.flat_map(|family| {
        let (family, table) = (
            u8::try_from(family.as_raw()).unwrap_or_default(),
            CLIENT_MARK + STAYING,
        );
        [
            rule(RTM_NEWRULE, family, (STAYING, STAY_MARK, table)),
            route(RTM_NEWROUTE, family, table),
        ]
    });
    let requests = requests.map(|request| request.flags(NLM_F_CREATE | NLM_F_EXCL));
    let refused = routes.batch(requests.collect())?.into_iter();
    // A kernel may be without IPv6.
    let mut others = refused.filter(|(place, errno)| *place < 2 && *errno != Errno::EXIST);
    others.next().map_or(Ok(()), |(_, errno)| Err(errno))
}

/// Makes the rules and routes of this network namespace, which may be there. [`chains`] go with the table that they are in.
pub(crate) fn keep_here() -> Result<(), Errno> {
    let refused = Socket::new()?.batch(requests(true, HERE))?;
    let mut others = refused
        .into_iter()
        .filter(|(place, errno)| *place < OF_IPV4 && *errno != Errno::EXIST);
    others.next().map_or(Ok(()), |(_, errno)| Err(errno))
}

/// Removes the rules and routes of this network namespace, which may be gone.
pub(crate) fn forget_here() {
    if let Ok(socket) = Socket::new() {
        best_effort(socket.batch(requests(false, HERE)));
    }
}

/// How many of [`requests`] are about IPv4.
const OF_IPV4: usize = 3;

/// Requests that make the rules and routes, those of IPv4 first, or remove them.
fn requests(new: bool, place: u32) -> Vec<Request> {
    let (kind_of_rule, kind_of_route) = if new {
        (RTM_NEWRULE, RTM_NEWROUTE)
    } else {
        (RTM_DELRULE, RTM_DELROUTE)
    };
    let flags = if new { NLM_F_CREATE | NLM_F_EXCL } else { 0 };
    let families = [AddressFamily::INET, AddressFamily::INET6];
    let all = families.into_iter().flat_map(|family| {
        let family = u8::try_from(family.as_raw()).unwrap_or_default();
        [
            look_back(kind_of_rule, family, place),
            rule(kind_of_rule, family, (place + 1, BACK_MARK, CLIENT_MARK + place)),
            route(kind_of_route, family, CLIENT_MARK + place),
        ]
    });
    all.map(|request| request.flags(flags)).collect()
}

/// The rule that leads packets with a mark to a table of routes, at a place among all rules.
fn rule(kind: u16, family: u8, (place, mark, table): (u32, u32, u32)) -> Request {
    let header = [family, 0, 0, 0, RT_TABLE_COMPAT, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
    let mut request = Request::new(kind, &header);
    request.attribute(FRA_PRIORITY, &place.to_ne_bytes());
    request.attribute(FRA_FWMARK, &mark.to_ne_bytes());
    request.attribute(FRA_TABLE, &table.to_ne_bytes());
    request
}

/// The rule by which the usual routes say where a marked packet may come from: with `src_valid_mark`, which WireGuard sets, the
/// kernel asks that with the packet's mark, as if the loopback device had it.
fn look_back(kind: u16, family: u8, place: u32) -> Request {
    let mut request = rule(kind, family, (place, BACK_MARK, MAIN));
    request.name(FRA_IIFNAME, "lo");
    request
}

/// The route by which every address belongs to the namespace itself.
fn route(kind: u16, family: u8, table: u32) -> Request {
    let header = [
        family,
        0,
        0,
        0,
        RT_TABLE_COMPAT,
        RTPROT_STATIC,
        RT_SCOPE_HOST,
        RTN_LOCAL,
        0,
        0,
        0,
        0,
    ];
    let mut request = Request::new(kind, &header);
    request.attribute(RTA_OIF, &LOOPBACK_LINK.to_ne_bytes());
    request.attribute(RTA_TABLE, &table.to_ne_bytes());
    request
}

/// Requests for the chains that mark connections, in a table that is there.
pub(crate) fn chains(table: &str) -> Vec<Request> {
    let own = header(NFPROTO_INET);
    let mut requests = Vec::new();
    let hooks = [NF_INET_LOCAL_OUT, NF_INET_PRE_ROUTING];
    for (name, hook) in CHAINS.into_iter().zip(hooks) {
        let mut chain = Request::new(NFT_MSG_NEWCHAIN, &own).flags(NLM_F_CREATE);
        chain.name(NFTA_CHAIN_TABLE, table);
        chain.name(NFTA_CHAIN_NAME, name);
        chain.nest(NFTA_CHAIN_HOOK, &[], |place| {
            big(place, NFTA_HOOK_HOOKNUM, hook);
            place.attribute(NFTA_HOOK_PRIORITY, &MANGLE.to_be_bytes());
        });
        chain.name(NFTA_CHAIN_TYPE, "filter");
        let mut rule = Request::new(NFT_MSG_NEWRULE, &own).flags(NLM_F_CREATE | NLM_F_APPEND);
        rule.name(NFTA_RULE_TABLE, table);
        rule.name(NFTA_RULE_CHAIN, name);
        rule.nest(NFTA_RULE_EXPRESSIONS, &[], |list| {
            if hook == NF_INET_LOCAL_OUT {
                meta(list, NFT_META_MARK);
                compare(list, NFT_CMP_EQ, &CLIENT_MARK.to_ne_bytes());
                connection_mark(list, NFTA_CT_SREG);
            } else {
                connection_mark(list, NFTA_CT_DREG);
                compare(list, NFT_CMP_EQ, &CLIENT_MARK.to_ne_bytes());
                expression(list, "immediate", |data| {
                    big(data, NFTA_IMMEDIATE_DREG, NFT_REG_1);
                    data.nest(NFTA_IMMEDIATE_DATA, &[], |nested| {
                        nested.attribute(NFTA_DATA_VALUE, &BACK_MARK.to_ne_bytes());
                    });
                });
                expression(list, "meta", |data| {
                    big(data, NFTA_META_KEY, NFT_META_MARK);
                    big(data, NFTA_META_SREG, NFT_REG_1);
                });
            }
        });
        requests.extend([chain, rule]);
    }
    requests
}

/// Reads or writes the mark of a packet's connection.
fn connection_mark(list: &mut Request, register: u16) {
    expression(list, "ct", |data| {
        big(data, NFTA_CT_KEY, NFT_CT_MARK);
        big(data, register, NFT_REG_1);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;

    #[test]
    fn the_kernel_takes_rules_and_routes() {
        let Ok(network) = tote_sys::network_namespace(None) else {
            println!("skipped: needs root, for a network namespace");
            return;
        };
        keep_clients(network.as_fd()).unwrap();
        let again = keep_clients(network.as_fd()).unwrap_err();
        assert_eq!(again.source, Errno::EXIST);
        // Containers of a pod share a namespace.
        keep_marked(network.as_fd()).unwrap();
        keep_marked(network.as_fd()).unwrap();
    }
}
