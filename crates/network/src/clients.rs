//! Addresses of clients, in a network namespace that they have no way to.
//!
//! A process connects there to a program for a client elsewhere, by a socket with the client's address. The answers belong to
//! that socket, though no address of the namespace is theirs: such connections are marked, and a route of their own leads
//! what belongs to them to the process.

use crate::LinkError;
use crate::filter::{
    NFPROTO_INET, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE, NFT_MSG_NEWTABLE, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME,
    NFTA_CHAIN_TABLE, NFTA_CHAIN_TYPE, NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_RULE_CHAIN,
    NFTA_RULE_EXPRESSIONS, NFTA_RULE_TABLE, NFTA_TABLE_NAME, NLM_F_APPEND, header, transaction_by,
};
use crate::netlink::{NLM_F_CREATE, Request, Socket};
use crate::rule::{
    NFT_CMP_EQ, NFT_REG_1, NFTA_DATA_VALUE, NFTA_IMMEDIATE_DATA, NFTA_IMMEDIATE_DREG, big, compare,
    expression, meta,
};
use rustix::fd::BorrowedFd;
use rustix::net::AddressFamily;

/// The mark of sockets with the address of a client.
pub const CLIENT_MARK: u32 = 0x746f_7465;

/// The mark of packets that belong to them. The sockets' own packets have another mark, or they would be led back as well.
const BACK_MARK: u32 = CLIENT_MARK + 1;
/// Beside the table of networks, which goes with the last one.
const TABLE: &str = "tote-clients";
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
const RTM_NEWRULE: u16 = 32;
const RTA_OIF: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_HOST: u8 = 254;
const RTN_LOCAL: u8 = 2;
const FR_ACT_TO_TBL: u8 = 1;
/// The table of routes for them.
const ROUTES: u8 = 100;
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
    let families = [AddressFamily::INET, AddressFamily::INET6];
    let requests = families
        .into_iter()
        .flat_map(|family| [rule(family), route(family)]);
    let refused = routes.batch(requests.collect()).map_err(failed)?;
    // A kernel may be without IPv6.
    if let Some((_, errno)) = refused.into_iter().find(|(place, _)| *place < 2) {
        return Err(failed(errno));
    }
    let filter = Socket::of_filter_inside(network).map_err(failed)?;
    transaction_by(&filter, rules()).map_err(failed)
}

/// The rule that leads marked packets to the table of routes.
fn rule(family: AddressFamily) -> Request {
    let family = u8::try_from(family.as_raw()).unwrap_or_default();
    let header = [family, 0, 0, 0, ROUTES, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
    let mut request = Request::new(RTM_NEWRULE, &header).flags(NLM_F_CREATE);
    request.attribute(FRA_PRIORITY, &100u32.to_ne_bytes());
    request.attribute(FRA_FWMARK, &BACK_MARK.to_ne_bytes());
    request
}

/// The route by which every address belongs to the namespace itself.
fn route(family: AddressFamily) -> Request {
    let family = u8::try_from(family.as_raw()).unwrap_or_default();
    let header = [
        family,
        0,
        0,
        0,
        ROUTES,
        RTPROT_STATIC,
        RT_SCOPE_HOST,
        RTN_LOCAL,
        0,
        0,
        0,
        0,
    ];
    let mut request = Request::new(RTM_NEWROUTE, &header).flags(NLM_F_CREATE);
    request.attribute(RTA_OIF, &LOOPBACK_LINK.to_ne_bytes());
    request
}

fn rules() -> Vec<Request> {
    let own = header(NFPROTO_INET);
    let mut table = Request::new(NFT_MSG_NEWTABLE, &own).flags(NLM_F_CREATE);
    table.name(NFTA_TABLE_NAME, TABLE);
    let mut requests = vec![table];
    let hooks = [("there", NF_INET_LOCAL_OUT), ("back", NF_INET_PRE_ROUTING)];
    for (name, hook) in hooks {
        let mut chain = Request::new(NFT_MSG_NEWCHAIN, &own).flags(NLM_F_CREATE);
        chain.name(NFTA_CHAIN_TABLE, TABLE);
        chain.name(NFTA_CHAIN_NAME, name);
        chain.nest(NFTA_CHAIN_HOOK, &[], |place| {
            big(place, NFTA_HOOK_HOOKNUM, hook);
            place.attribute(NFTA_HOOK_PRIORITY, &MANGLE.to_be_bytes());
        });
        chain.name(NFTA_CHAIN_TYPE, "filter");
        let mut rule = Request::new(NFT_MSG_NEWRULE, &own).flags(NLM_F_CREATE | NLM_F_APPEND);
        rule.name(NFTA_RULE_TABLE, TABLE);
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
    use tote_sys::Errno;

    #[test]
    fn the_kernel_takes_rules_and_routes() {
        let Ok(network) = tote_sys::network_namespace(None) else {
            println!("skipped: needs root, for a network namespace");
            return;
        };
        keep_clients(network.as_fd()).unwrap();
        let again = keep_clients(network.as_fd()).unwrap_err();
        assert_eq!(again.source, Errno::EXIST);
    }
}
