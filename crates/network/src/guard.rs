//! The chain that keeps links from becoming a router's which were switched to forwarding, and the record of these links.
//!
//! Networks of several state roots may be up at a time, and the last one that ends puts the links back, whichever has switched
//! them. So the record is where all of them see it: each rule is about one link, and names it in its comment. Rules are there before the
//! link lets packets pass, and go after it lets none pass any more. In between, another state root may come or go; the kernel refuses a transaction
//! that was made with an older state of the rules in mind.

use crate::error::NetworkError;
use crate::filter::{
    self, Chain, HEADER, Hook, NFPROTO_INET, NFTA_RULE_CHAIN, NFTA_RULE_TABLE, NFTA_RULE_USERDATA, SUBSYSTEM,
    TABLE, header,
};
use crate::forwarding::{self, Exit, Protocol};
use crate::netlink::{Attribute, Message, Request, Socket, text};
use crate::rule::Expression::{Drop, From, Ipv4, Ipv6, NotEstablished, NotToPrefix, NotTranslated};
use crate::surroundings::PREFIX;
use crate::{clients, published, published_port};
use std::path::Path;
use tote_sys::Errno;

const NFT_MSG_GETRULE: u16 = SUBSYSTEM | 7;

/// The chain's name.
const GUARD: &str = "guard";

/// How often a transaction is tried: each further time another program has changed rules since they were read.
const TRIES: usize = 64;

fn filtered(attempt: &'static str) -> impl Fn(Errno) -> NetworkError {
    move |source| NetworkError::Filter { attempt, source }
}

fn set(attempt: &'static str) -> impl Fn(std::io::Error) -> NetworkError {
    move |source| NetworkError::Forwarding { attempt, source }
}

/// Makes these chains, after what one more request makes, and has packets that come in by these links pass. The file `note` has the record as well, for a program that
/// flushes all rules.
pub(crate) fn put(
    (chains, first): (&[Chain], Option<Request>),
    exits: &[Exit],
    note: &Path,
) -> Result<(), NetworkError> {
    let change = "make rules in";
    for _ in 0..TRIES {
        let generation = filter::generation().map_err(filtered("read"))?;
        let recorded = recorded().map_err(filtered("read"))?;
        let guarded = forwarding::to_allow(exits, recorded, note).map_err(set("change"))?;
        if !guarded.is_empty() {
            forwarding::keep(note, &guarded).map_err(set("note"))?;
        }
        let before = first.clone().into_iter().chain(rules(&guarded));
        match filter::put_at(generation, before.collect(), chains) {
            Err(Errno::RESTART) => {}
            put => {
                put.map_err(filtered(change))?;
                return forwarding::switch_on(&guarded).map_err(set("change"));
            }
        }
    }
    Err(filtered(change)(Errno::BUSY))
}

/// Removes these chains, those that are there. Where no network's chain would be left, the links let no packets pass again that did not before,
/// and the table goes as well. The note goes then, and where this state root has no other network up (`is_last`).
pub(crate) fn remove(names: &[String], note: &Path, is_last: bool) -> Result<(), NetworkError> {
    let change = "remove rules from";
    for _ in 0..TRIES {
        let generation = filter::generation().map_err(filtered("read"))?;
        let own = filter::own_chains().map_err(filtered("read"))?;
        let goes = |chain: &String| names.contains(chain);
        if own.iter().all(|chain| goes(chain) || is_shared(chain)) {
            if remove_all(generation, &own, note)? {
                return Ok(());
            }
            continue;
        }
        if own.iter().any(goes) {
            let gone = own.iter().filter(|chain| goes(chain));
            let requests = gone.map(|chain| filter::delete_chain(chain)).collect();
            match filter::transaction(requests) {
                // Another process has just removed one.
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(errno) => return Err(filtered(change)(errno)),
            }
        }
        if is_last {
            forwarding::forget(note).map_err(set("note"))?;
        }
        return Ok(());
    }
    Err(filtered(change)(Errno::BUSY))
}

/// Whether the chain belongs to all networks together.
fn is_shared(chain: &str) -> bool {
    chain == GUARD || published_port::CHAINS.contains(&chain) || clients::CHAINS.contains(&chain)
}

/// Removes the table with all of these chains, which are all that it has. False if there are others by now: then everything is as it was.
fn remove_all(generation: u32, own: &[String], note: &Path) -> Result<bool, NetworkError> {
    let mut guarded = forwarding::noted(note).map_err(set("put back"))?;
    let recorded = recorded().map_err(filtered("read"))?;
    guarded.extend(
        recorded
            .into_iter()
            .filter(|exit| !guarded.contains(exit))
            .collect::<Vec<_>>(),
    );
    if !guarded.is_empty() {
        // The rules may be gone when a killed process has not come to the end of this.
        forwarding::keep(note, &guarded).map_err(set("note"))?;
    }
    forwarding::switch_off(&guarded).map_err(set("put back"))?;
    let chains = own.iter().map(|chain| filter::delete_chain(chain));
    let rest = own.iter().filter_map(|chain| published::without(chain));
    let requests = chains.chain(rest).chain([filter::delete_table()]).collect();
    match filter::transaction_at(generation, requests) {
        Ok(()) => {}
        // The table is not there, or another program has flushed the rules.
        Err(Errno::NOENT) if own.is_empty() => {}
        Err(Errno::RESTART | Errno::BUSY | Errno::NOENT) => {
            forwarding::switch_on(&guarded).map_err(set("change"))?;
            return Ok(false);
        }
        Err(errno) => return Err(filtered("remove rules from")(errno)),
    }
    clients::forget_here();
    forwarding::forget(note).map_err(set("note"))?;
    Ok(true)
}

/// A link that was switched to forwarding lets nothing pass but what networks of tote's are for, and what others have
/// translated on purpose.
fn rules(exits: &[Exit]) -> Vec<Request> {
    if exits.is_empty() {
        return Vec::new();
    }
    let chain = Chain {
        name: GUARD.to_owned(),
        hook: Some(Hook::Forward),
        rules: Vec::new(),
    };
    let mut requests = filter::emptied(&chain).to_vec();
    requests.extend(exits.iter().map(|exit| {
        let protocol = match exit.protocol {
            Protocol::Ipv4 => Ipv4,
            Protocol::Ipv6 => Ipv6,
        };
        let passing = [
            NotEstablished,
            NotTranslated,
            From(exit.link.clone()),
            NotToPrefix(PREFIX),
            Drop,
        ];
        let rule = [vec![protocol], passing.to_vec()].concat();
        let mut request = filter::new_rule(GUARD, &rule);
        filter::comment(&mut request, &exit.note());
        request
    }));
    requests
}

/// The links that rules are about.
fn recorded() -> Result<Vec<Exit>, Errno> {
    let mut request = Request::new(NFT_MSG_GETRULE, &header(NFPROTO_INET));
    request.name(NFTA_RULE_TABLE, TABLE);
    request.name(NFTA_RULE_CHAIN, GUARD);
    match Socket::of_filter()?.ask(request, true) {
        Err(Errno::NOENT) => Ok(Vec::new()),
        messages => Ok(messages?.iter().filter_map(read).collect()),
    }
}

/// Reads the link that a rule is about, of an NFT_MSG_NEWRULE. Kernels may send other tables' rules, too.
fn read(message: &Message) -> Option<Exit> {
    let (family, rest) = message.body.split_at_checked(HEADER)?;
    let value = |kind| {
        let mut all = Attribute::all(rest);
        all.find(|attribute| attribute.kind == kind)
            .map(|found| found.value)
    };
    let is_own = family.first() == Some(&NFPROTO_INET)
        && text(value(NFTA_RULE_TABLE)?) == TABLE
        && text(value(NFTA_RULE_CHAIN)?) == GUARD;
    let written = filter::comment_in(value(NFTA_RULE_USERDATA)?)?;
    is_own.then(|| Exit::noted(&written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::messages;

    #[test]
    fn rules_tell_which_links_they_are_about() {
        let exit = |protocol, link: &str| Exit {
            protocol,
            link: link.to_owned(),
        };
        let exits = [
            exit(Protocol::Ipv4, "eth0"),
            exit(Protocol::Ipv6, "fifteen-letters"),
        ];
        let bytes: Vec<u8> = rules(&exits)
            .into_iter()
            .skip(2)
            .flat_map(|rule| rule.finish(0))
            .collect();
        let all = messages(&bytes);
        assert_eq!(all.iter().filter_map(read).collect::<Vec<_>>(), exits);
        for mut message in all {
            while message.body.pop().is_some() {
                let found = read(&message);
                assert!(found.is_none_or(|found| exits.contains(&found)));
            }
        }
        assert!(rules(&[]).is_empty());
    }
}
