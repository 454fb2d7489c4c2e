//! Addresses that names have opened stay open while connections to them live.
//!
//! What renews an address is a packet of the other side, in a connection that the container has begun and that the other side has accepted.
//! What the container sends on its own renews nothing, or it could keep an address open that another host has got meanwhile.

use crate::egress::{Answerer, Egress};
use crate::egress_parts::{EgressLink, FLOWS, Rules};
use crate::egress_rule::{self as rule, Family};
use crate::egress_table::{ANSWERERS, MOST_ADDRESSES, MOST_FLOWS, WITH_PORTS, set_of};
use crate::egress_verdict as verdict;
use crate::netlink::Request;
use crate::nft_table::{self as nft, Set};
use crate::transport::Transport;
use std::time::Duration;

/// The other sides whose addresses were renewed a moment ago: not every packet has to do it.
const RENEWED: &str = "renewed";
/// The chain that renews.
const RENEW: &str = "renew";
/// The part of the time to keep an address for which no packet renews it again.
const PART: u32 = 8;

/// The set of addresses that connections keep open.
pub(crate) fn used_of(answerer: Answerer, service: usize, family: &Family) -> String {
    format!("used-{}", set_of(answerer, service, family))
}

impl Egress {
    /// Whether connections keep anything open.
    pub(crate) fn is_renewed(&self) -> bool {
        !self.keep.is_zero() && !self.is_log && !self.services.is_empty()
    }

    /// The sets of a family that this takes.
    pub(crate) fn used_sets(&self, family: &Family) -> Vec<Request> {
        if !self.is_renewed() {
            return Vec::new();
        }
        let set = |name: &str, key: &[u32], size| {
            let set = Set {
                name,
                key,
                key_len: family.key_len(key),
                is_dynamic: true,
                size,
            };
            nft::set(&self.table, &set)
        };
        let mut sets = vec![set(&family.set(RENEWED), &family.note_key(), MOST_FLOWS)];
        for service in 0..self.services.len() {
            for answerer in ANSWERERS {
                let name = used_of(answerer, service, family);
                sets.push(set(&name, &[family.address_type], MOST_ADDRESSES));
            }
        }
        sets
    }

    /// Adds the chain that renews the address of the other side, for packets of connections that live.
    pub(crate) fn renewing(&self, family: &Family, rules: &mut Rules<'_>) {
        if !self.is_renewed() {
            return;
        }
        let (chain, moment) = (family.chain(RENEW), self.keep / PART);
        rules.chain(&chain, None);
        rules.add(&chain, |list| {
            family.source_service(list);
            rule::lookup_registers(list, &family.set(RENEWED));
            verdict::accept(list);
        });
        for (number, service) in self.services.iter().enumerate() {
            for (answerer, matched) in both(&service.matches()) {
                let used = used_of(answerer, number, family);
                for open in [set_of(answerer, number, family), used.clone()] {
                    rules.add(&chain, |list| {
                        rule::service_of_source(list, matched);
                        family.lookup_source(list, &open);
                        rule::remember(list, &used, self.keep + moment);
                    });
                }
            }
        }
        rules.add(&chain, |list| {
            family.source_service(list);
            rule::remember(list, &family.set(RENEWED), moment.max(Duration::from_millis(1)));
        });
    }

    /// Adds the rules of a link that have packets renew. They come before those that remember who begins to speak: answers to what the
    /// container has said count, and nothing else.
    pub(crate) fn renewed_by(
        &self,
        family: &Family,
        (link, chain): (&EgressLink, &str),
        rules: &mut Rules<'_>,
    ) {
        if !self.is_renewed() {
            return;
        }
        let own = link
            .addresses
            .iter()
            .filter(|(address, _)| family.is_of(*address));
        for (address, _) in own {
            for (protocol, _) in WITH_PORTS {
                rules.add(chain, |list| {
                    family.to(list, link.mac, *address);
                    rule::protocol(list, protocol.number());
                    if protocol == Transport::Tcp {
                        rule::goes_on(list);
                    }
                    family.flow_in(list);
                    rule::lookup_registers(list, &family.set(FLOWS));
                    verdict::jump(list, &family.chain(RENEW));
                });
            }
        }
    }
}

/// Each kind of answer with each of these.
fn both<T: Copy>(all: &[T]) -> Vec<(Answerer, T)> {
    let each = |answerer| all.iter().map(move |one| (answerer, *one));
    ANSWERERS.into_iter().flat_map(each).collect()
}
