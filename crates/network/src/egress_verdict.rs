//! Verdicts of rules about egress on a packet.

use crate::netlink::Request;
use crate::rule::{NFTA_IMMEDIATE_DATA, NFTA_IMMEDIATE_DREG, big, expression};

const NFTA_REJECT_TYPE: u16 = 1;
const NFTA_REJECT_ICMP_CODE: u16 = 2;
const NFT_REJECT_TCP_RST: u32 = 1;
const NFT_REJECT_ICMPX_UNREACH: u32 = 2;
const NFT_REJECT_ICMPX_ADMIN_PROHIBITED: u8 = 3;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;
const NFT_REG_VERDICT: u32 = 0;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;
const NFT_GOTO: i32 = -4;
const NFT_JUMP: i32 = -3;

/// Ends a connection of TCP with a reset.
pub(crate) fn reset(list: &mut Request) {
    expression(list, "reject", |data| {
        big(data, NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
        data.attribute(NFTA_REJECT_ICMP_CODE, &[0]);
    });
}

/// Says by ICMP that the destination is prohibited.
pub(crate) fn prohibited(list: &mut Request) {
    expression(list, "reject", |data| {
        big(data, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
        data.attribute(NFTA_REJECT_ICMP_CODE, &[NFT_REJECT_ICMPX_ADMIN_PROHIBITED]);
    });
}

pub(crate) fn accept(list: &mut Request) {
    verdict(list, |verdict| big(verdict, NFTA_VERDICT_CODE, NF_ACCEPT));
}

pub(crate) fn drop(list: &mut Request) {
    verdict(list, |verdict| big(verdict, NFTA_VERDICT_CODE, NF_DROP));
}

/// Goes on in another chain, and does not come back.
pub(crate) fn goto(list: &mut Request, chain: &str) {
    to_chain(list, NFT_GOTO, chain);
}

/// Goes on in another chain, and comes back behind its last rule.
pub(crate) fn jump(list: &mut Request, chain: &str) {
    to_chain(list, NFT_JUMP, chain);
}

fn to_chain(list: &mut Request, code: i32, chain: &str) {
    verdict(list, |verdict| {
        verdict.attribute(NFTA_VERDICT_CODE, &code.to_be_bytes());
        verdict.name(NFTA_VERDICT_CHAIN, chain);
    });
}

fn verdict(list: &mut Request, fill: impl FnOnce(&mut Request)) {
    expression(list, "immediate", |data| {
        big(data, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
        data.nest(NFTA_IMMEDIATE_DATA, &[], |nested| {
            nested.nest(NFTA_DATA_VERDICT, &[], fill)
        });
    });
}
