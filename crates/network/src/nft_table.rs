//! Tables of the packet filter that are one container's own: their messages.

use crate::filter::{
    NFT_MSG_NEWCHAIN, NFT_MSG_NEWTABLE, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_TABLE, NFTA_CHAIN_TYPE,
    NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_RULE_CHAIN, NFTA_RULE_TABLE, NFTA_TABLE_NAME, SUBSYSTEM,
    header, transaction,
};
use crate::netlink::{Message, NLM_F_CREATE, NLM_F_EXCL, Request, Socket};
use crate::rule::{NFTA_DATA_VALUE, big};
use std::time::Duration;
use tote_sys::Errno;

/// The family of chains that belong to a link.
pub(crate) const NETDEV: u8 = 5;
/// Hooks of that family: what has come in by the link, and what is about to go out.
pub(crate) const INGRESS: u32 = 0;
pub(crate) const EGRESS: u32 = 1;
const NFT_MSG_DELTABLE: u16 = SUBSYSTEM | 2;
const NFT_MSG_GETCHAIN: u16 = SUBSYSTEM | 4;
const NFT_MSG_DELRULE: u16 = SUBSYSTEM | 8;
const NFT_MSG_NEWSET: u16 = SUBSYSTEM | 9;
const NFT_MSG_GETSET: u16 = SUBSYSTEM | 10;
const NFT_MSG_NEWSETELEM: u16 = SUBSYSTEM | 12;
const NFT_MSG_GETSETELEM: u16 = SUBSYSTEM | 13;
const NFT_MSG_DELSETELEM: u16 = SUBSYSTEM | 14;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_HOOK_DEV: u16 = 3;
const NFTA_SET_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_FLAGS: u16 = 3;
const NFTA_SET_KEY_TYPE: u16 = 4;
const NFTA_SET_KEY_LEN: u16 = 5;
const NFTA_SET_DESC: u16 = 9;
const NFTA_SET_DESC_SIZE: u16 = 1;
const NFTA_SET_ID: u16 = 10;
const NFT_SET_TIMEOUT: u32 = 0x10;
const NFT_SET_EVAL: u32 = 0x20;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_TIMEOUT: u16 = 4;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;
/// The bits of the number of a key's kind, where several are put together.
const TYPE_BITS: u32 = 6;

/// A set whose elements have lifetimes.
pub(crate) struct Set<'a> {
    pub(crate) name: &'a str,
    /// The numbers by which nft(8) knows how to print the key's parts.
    pub(crate) key: &'a [u32],
    /// Length of the key, in bytes.
    pub(crate) key_len: u32,
    /// Whether packets put elements into it.
    pub(crate) is_dynamic: bool,
    /// The most elements.
    pub(crate) size: u32,
}

/// Requests by which a table is there and empty, whatever was there before.
pub(crate) fn fresh_table(table: &str) -> [Request; 3] {
    let new = || {
        let mut request = Request::new(NFT_MSG_NEWTABLE, &header(NETDEV)).flags(NLM_F_CREATE);
        request.name(NFTA_TABLE_NAME, table);
        request
    };
    [new(), delete_table(table), new()]
}

pub(crate) fn delete_table(table: &str) -> Request {
    let mut request = Request::new(NFT_MSG_DELTABLE, &header(NETDEV));
    request.name(NFTA_TABLE_NAME, table);
    request
}

/// A chain; with a hook of a link the kernel asks it, and drops what it does not accept where the last part says so.
pub(crate) fn chain(table: &str, name: &str, hook: Option<(u32, &str, bool)>) -> Request {
    let mut request = Request::new(NFT_MSG_NEWCHAIN, &header(NETDEV)).flags(NLM_F_CREATE);
    request.name(NFTA_CHAIN_TABLE, table);
    request.name(NFTA_CHAIN_NAME, name);
    if let Some((hook, link, is_drop)) = hook {
        request.nest(NFTA_CHAIN_HOOK, &[], |nested| {
            big(nested, NFTA_HOOK_HOOKNUM, hook);
            nested.attribute(NFTA_HOOK_PRIORITY, &0i32.to_be_bytes());
            nested.name(NFTA_HOOK_DEV, link);
        });
        big(
            &mut request,
            NFTA_CHAIN_POLICY,
            if is_drop { NF_DROP } else { NF_ACCEPT },
        );
        request.name(NFTA_CHAIN_TYPE, "filter");
    }
    request
}

/// Takes all rules out of a chain.
pub(crate) fn empty_chain(table: &str, name: &str) -> Request {
    let mut request = Request::new(NFT_MSG_DELRULE, &header(NETDEV));
    request.name(NFTA_RULE_TABLE, table);
    request.name(NFTA_RULE_CHAIN, name);
    request
}

pub(crate) fn set(table: &str, set: &Set<'_>) -> Request {
    let mut request = Request::new(NFT_MSG_NEWSET, &header(NETDEV)).flags(NLM_F_CREATE);
    request.name(NFTA_SET_TABLE, table);
    request.name(NFTA_SET_NAME, set.name);
    let dynamic = if set.is_dynamic { NFT_SET_EVAL } else { 0 };
    big(&mut request, NFTA_SET_FLAGS, NFT_SET_TIMEOUT | dynamic);
    let together = set.key.iter().fold(0, |all, one| all << TYPE_BITS | one);
    big(&mut request, NFTA_SET_KEY_TYPE, together);
    big(&mut request, NFTA_SET_KEY_LEN, set.key_len);
    // A number by which a transaction may name it; rules name it by its name.
    big(&mut request, NFTA_SET_ID, 1);
    request.nest(NFTA_SET_DESC, &[], |desc| big(desc, NFTA_SET_DESC_SIZE, set.size));
    request
}

/// Whether the table has a chain of that name.
pub(crate) fn has_chain(table: &str, name: &str) -> Result<bool, Errno> {
    has(
        (NFT_MSG_GETCHAIN, [NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME]),
        [table, name],
    )
}

/// Whether the table has a set of that name.
pub(crate) fn has_set(table: &str, name: &str) -> Result<bool, Errno> {
    has((NFT_MSG_GETSET, [NFTA_SET_TABLE, NFTA_SET_NAME]), [table, name])
}

fn has((kind, attributes): (u16, [u16; 2]), names: [&str; 2]) -> Result<bool, Errno> {
    let mut request = Request::new(kind, &header(NETDEV));
    for (attribute, name) in attributes.into_iter().zip(names) {
        request.name(attribute, name);
    }
    match Socket::of_filter()?.ask(request, false) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Puts an element into a set for that long from now on, whether it is there already or not.
pub(crate) fn put_element(table: &str, set: &str, key: &[u8], lifetime: Duration) -> Result<(), Errno> {
    let new = || {
        let request = element(NFT_MSG_NEWSETELEM, (table, set), key, Some(lifetime));
        request.flags(NLM_F_CREATE | NLM_F_EXCL)
    };
    let mut last = Errno::AGAIN;
    // Another try where an element has ended in between.
    for _ in 0..4 {
        match transaction(vec![new()]) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
        // Older kernels keep the lifetime of an element that is there.
        let old = element(NFT_MSG_DELSETELEM, (table, set), key, None);
        match transaction(vec![old, new()]) {
            Err(Errno::NOENT) => last = Errno::NOENT,
            other => return other,
        }
    }
    Err(last)
}

fn element(kind: u16, (table, set): (&str, &str), key: &[u8], lifetime: Option<Duration>) -> Request {
    let mut request = Request::new(kind, &header(NETDEV));
    request.name(NFTA_SET_ELEM_LIST_TABLE, table);
    request.name(NFTA_SET_ELEM_LIST_SET, set);
    request.nest(NFTA_SET_ELEM_LIST_ELEMENTS, &[], |list| {
        list.nest(NFTA_LIST_ELEM, &[], |element| {
            element.nest(NFTA_SET_ELEM_KEY, &[], |nested| {
                nested.attribute(NFTA_DATA_VALUE, key)
            });
            if let Some(lifetime) = lifetime {
                element.attribute(NFTA_SET_ELEM_TIMEOUT, &milliseconds(lifetime));
            }
        });
    });
    request
}

/// A time as the packet filter has it.
pub(crate) fn milliseconds(time: Duration) -> [u8; 8] {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).to_be_bytes()
}

/// The messages with all elements of a set; none where there is no such set.
pub(crate) fn elements(table: &str, set: &str) -> Result<Vec<Message>, Errno> {
    let mut request = Request::new(NFT_MSG_GETSETELEM, &header(NETDEV));
    request.name(NFTA_SET_ELEM_LIST_TABLE, table);
    request.name(NFTA_SET_ELEM_LIST_SET, set);
    match Socket::of_filter()?.ask(request, true) {
        Err(Errno::NOENT) => Ok(Vec::new()),
        other => other,
    }
}
