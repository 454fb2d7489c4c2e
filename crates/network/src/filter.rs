//! The table `tote` of the packet filter (nf_tables), which has the chains of every network that is up.

use crate::netlink::{Attribute, Message, NLM_F_CREATE, Request, Socket, text};
use crate::rule::{self, Expression, big};
use tote_sys::Errno;

pub(crate) const SUBSYSTEM: u16 = 10 << 8;
pub(crate) const NFT_MSG_NEWTABLE: u16 = SUBSYSTEM;
const NFT_MSG_DELTABLE: u16 = SUBSYSTEM | 2;
pub(crate) const NFT_MSG_NEWCHAIN: u16 = SUBSYSTEM | 3;
const NFT_MSG_GETCHAIN: u16 = SUBSYSTEM | 4;
const NFT_MSG_DELCHAIN: u16 = SUBSYSTEM | 5;
pub(crate) const NFT_MSG_NEWRULE: u16 = SUBSYSTEM | 6;
const NFT_MSG_DELRULE: u16 = SUBSYSTEM | 8;
const NFT_MSG_GETGEN: u16 = SUBSYSTEM | 16;
const NFNL_MSG_BATCH_BEGIN: u16 = 16;
const NFNL_MSG_BATCH_END: u16 = 17;
const NFNL_BATCH_GENID: u16 = 1;
const NFTA_GEN_ID: u16 = 1;
pub(crate) const NLM_F_APPEND: u16 = 0x800;
/// The kernel refuses to delete a table that is not empty.
const NLM_F_NONREC: u16 = 0x100;
pub(crate) const NFTA_TABLE_NAME: u16 = 1;
pub(crate) const NFTA_CHAIN_TABLE: u16 = 1;
pub(crate) const NFTA_CHAIN_NAME: u16 = 3;
pub(crate) const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
pub(crate) const NFTA_CHAIN_TYPE: u16 = 7;
pub(crate) const NFTA_HOOK_HOOKNUM: u16 = 1;
pub(crate) const NFTA_HOOK_PRIORITY: u16 = 2;
pub(crate) const NFTA_RULE_TABLE: u16 = 1;
pub(crate) const NFTA_RULE_CHAIN: u16 = 2;
pub(crate) const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFPROTO_UNSPEC: u8 = 0;
pub(crate) const NFPROTO_INET: u8 = 1;
pub(crate) const NFPROTO_IPV4: u8 = 2;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;
/// Length of `struct nfgenmsg` in bytes.
pub(crate) const HEADER: usize = 4;

/// The table's name.
pub(crate) const TABLE: &str = "tote";

/// The place in the kernel where a chain is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Packets for the host itself.
    Input,
    /// Packets that pass through the host.
    Forward,
    /// Packets that leave the host, where addresses are translated.
    Postrouting,
    /// Packets that have just come in, before anything else looks at them.
    Raw,
    /// Packets of the host's own programs, before anything else looks at them.
    RawOutput,
    /// Packets that have come in, where destinations are translated.
    Prerouting,
    /// Packets of the host's own programs, where destinations are translated.
    Output,
}

impl Hook {
    const fn number(self) -> u32 {
        match self {
            Self::Raw | Self::Prerouting => 0,
            Self::Input => 1,
            Self::Forward => 2,
            Self::Output | Self::RawOutput => 3,
            Self::Postrouting => 4,
        }
    }

    /// The usual priorities of filters and of translation.
    const fn priority(self) -> i32 {
        match self {
            Self::Raw | Self::RawOutput => -300,
            Self::Prerouting | Self::Output => -100,
            Self::Input | Self::Forward => 0,
            Self::Postrouting => 100,
        }
    }

    const fn kind(self) -> &'static str {
        match self {
            Self::Raw | Self::RawOutput | Self::Input | Self::Forward => "filter",
            Self::Prerouting | Self::Output | Self::Postrouting => "nat",
        }
    }
}

/// A chain that accepts each packet that none of its rules drops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) name: String,
    /// Where it is asked; `None` for a chain that stands for a map.
    pub(crate) hook: Option<Hook>,
    pub(crate) rules: Vec<Vec<Expression>>,
}

/// `struct nfgenmsg`, of the family of both IPv4 and IPv6.
pub(crate) const fn header(family: u8) -> [u8; HEADER] {
    [family, 0, 0, 0]
}

/// Makes the table and these chains, in one transaction; chains that are there get these rules in place of theirs. These requests are
/// carried out between the table's and those of the chains.
pub(crate) fn put_with(before: Vec<Request>, chains: &[Chain]) -> Result<(), Errno> {
    transaction(making(before, chains))
}

/// Like [`put_with`], in that state of the packet filter and no later one.
///
/// # Errors
/// [`Errno::RESTART`] if there is a later one.
pub(crate) fn put_at(generation: u32, before: Vec<Request>, chains: &[Chain]) -> Result<(), Errno> {
    transaction_at(generation, making(before, chains))
}

fn making(before: Vec<Request>, chains: &[Chain]) -> Vec<Request> {
    let mut table = Request::new(NFT_MSG_NEWTABLE, &header(NFPROTO_INET)).flags(NLM_F_CREATE);
    table.name(NFTA_TABLE_NAME, TABLE);
    let mut requests = vec![table];
    requests.extend(before);
    for chain in chains {
        requests.extend(emptied(chain));
        requests.extend(chain.rules.iter().map(|rule| new_rule(&chain.name, rule)));
    }
    requests
}

/// Makes a chain, if it is not there, and takes its rules out.
pub(crate) fn emptied(chain: &Chain) -> [Request; 2] {
    let mut empty = Request::new(NFT_MSG_DELRULE, &header(NFPROTO_INET));
    empty.name(NFTA_RULE_TABLE, TABLE);
    empty.name(NFTA_RULE_CHAIN, &chain.name);
    [chain.new_in(TABLE), empty]
}

/// Adds a rule to a chain, behind the others.
pub(crate) fn new_rule(chain: &str, rule: &[Expression]) -> Request {
    new_rule_of(TABLE, chain, rule)
}

/// Adds a rule to a chain of another table.
pub(crate) fn new_rule_of(table: &str, chain: &str, rule: &[Expression]) -> Request {
    let mut request = Request::new(NFT_MSG_NEWRULE, &header(NFPROTO_INET)).flags(NLM_F_CREATE | NLM_F_APPEND);
    request.name(NFTA_RULE_TABLE, table);
    request.name(NFTA_RULE_CHAIN, chain);
    rule::append(&mut request, NFTA_RULE_EXPRESSIONS, rule);
    request
}

impl Chain {
    /// The request that makes the chain in a table, without its rules.
    pub(crate) fn new_in(&self, table: &str) -> Request {
        let mut request = Request::new(NFT_MSG_NEWCHAIN, &header(NFPROTO_INET)).flags(NLM_F_CREATE);
        request.name(NFTA_CHAIN_TABLE, table);
        request.name(NFTA_CHAIN_NAME, &self.name);
        let Some(place) = self.hook else {
            return request;
        };
        request.nest(NFTA_CHAIN_HOOK, &[], |hook| {
            big(hook, NFTA_HOOK_HOOKNUM, place.number());
            hook.attribute(NFTA_HOOK_PRIORITY, &place.priority().to_be_bytes());
        });
        big(&mut request, NFTA_CHAIN_POLICY, NF_ACCEPT);
        request.name(NFTA_CHAIN_TYPE, place.kind());
        request
    }
}

pub(crate) fn delete_chain(name: &str) -> Request {
    let mut request = Request::new(NFT_MSG_DELCHAIN, &header(NFPROTO_INET));
    request.name(NFTA_CHAIN_TABLE, TABLE);
    request.name(NFTA_CHAIN_NAME, name);
    request
}

/// Removes the table, if nothing is left in it.
pub(crate) fn delete_table() -> Request {
    let mut request = Request::new(NFT_MSG_DELTABLE, &header(NFPROTO_INET)).flags(NLM_F_NONREC);
    request.name(NFTA_TABLE_NAME, TABLE);
    request
}

/// The names of the table's chains.
pub(crate) fn own_chains() -> Result<Vec<String>, Errno> {
    let found = chains(&Socket::of_filter()?)?.into_iter();
    let own = found.filter(|chain| chain.table == TABLE && chain.family == NFPROTO_INET);
    Ok(own.map(|chain| chain.name).collect())
}

/// The number of the packet filter's present state in this network namespace: each change of a rule, of any program, has another one.
pub(crate) fn generation() -> Result<u32, Errno> {
    let request = Request::new(NFT_MSG_GETGEN, &header(NFPROTO_UNSPEC));
    let answers = Socket::of_filter()?.ask(request, false)?;
    let rest = |message: &Message| message.body.get(HEADER..).map(<[u8]>::to_vec);
    let found = answers.iter().filter_map(rest).find_map(|rest| {
        let mut all = Attribute::all(&rest);
        let id = all.find(|attribute| attribute.kind == NFTA_GEN_ID)?;
        number(id.value)
    });
    found.ok_or(Errno::PROTO)
}

/// Whether the table has a chain of that name.
pub(crate) fn has(name: &str) -> Result<bool, Errno> {
    has_in(TABLE, name)
}

/// Whether another table has a chain of that name.
pub(crate) fn has_in(table: &str, name: &str) -> Result<bool, Errno> {
    let mut request = Request::new(NFT_MSG_GETCHAIN, &header(NFPROTO_INET));
    request.name(NFTA_CHAIN_TABLE, table);
    request.name(NFTA_CHAIN_NAME, name);
    match Socket::of_filter()?.ask(request, false) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Sends messages as one transaction: all of them take effect, or none.
pub(crate) fn transaction(requests: Vec<Request>) -> Result<(), Errno> {
    transaction_by(&Socket::of_filter()?, requests)
}

/// Sends messages as one transaction, which the kernel refuses with [`Errno::RESTART`] if the packet filter has changed since it was in that
/// state.
pub(crate) fn transaction_at(generation: u32, requests: Vec<Request>) -> Result<(), Errno> {
    send(&Socket::of_filter()?, Some(generation), requests)
}

/// Sends messages as one transaction, in the network namespace that the socket belongs to.
pub(crate) fn transaction_by(socket: &Socket, requests: Vec<Request>) -> Result<(), Errno> {
    send(socket, None, requests)
}

fn send(socket: &Socket, generation: Option<u32>, requests: Vec<Request>) -> Result<(), Errno> {
    let mut bounds = header(NFPROTO_UNSPEC);
    // The subsystem, in the network's order of bytes.
    bounds[2..].copy_from_slice(&(SUBSYSTEM >> 8).to_be_bytes());
    let last = requests.len();
    let mut begin = Request::new(NFNL_MSG_BATCH_BEGIN, &bounds);
    if let Some(generation) = generation {
        big(&mut begin, NFNL_BATCH_GENID, generation);
    }
    let mut batch = vec![begin];
    batch.extend(requests);
    batch.push(Request::new(NFNL_MSG_BATCH_END, &bounds));
    let refused = socket.batch_until(batch, last)?;
    refused.first().map_or(Ok(()), |(_, errno)| Err(*errno))
}

/// A chain that the kernel asks, as it describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    family: u8,
    table: String,
    name: String,
    hook: Option<u32>,
    policy: Option<u32>,
}

impl Found {
    /// Reads an NFT_MSG_NEWCHAIN.
    fn read(message: &Message) -> Option<Self> {
        let (header, rest) = message.body.split_at_checked(HEADER)?;
        if message.kind != NFT_MSG_NEWCHAIN {
            return None;
        }
        let mut found = Self {
            family: header[0],
            ..Self::default()
        };
        for attribute in Attribute::all(rest) {
            match attribute.kind {
                NFTA_CHAIN_TABLE => found.table = text(attribute.value),
                NFTA_CHAIN_NAME => found.name = text(attribute.value),
                NFTA_CHAIN_POLICY => found.policy = number(attribute.value),
                NFTA_CHAIN_HOOK => {
                    let mut parts = Attribute::all(attribute.value);
                    let hook = parts.find(|part| part.kind == NFTA_HOOK_HOOKNUM);
                    found.hook = hook.and_then(|hook| number(hook.value));
                }
                _ => {}
            }
        }
        Some(found)
    }

    /// Its name with that of its table, as nft(8) takes it.
    fn words(&self) -> String {
        let family = if self.family == NFPROTO_INET { "inet" } else { "ip" };
        format!("{family} {} {}", self.table, self.name)
    }
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

fn chains(socket: &Socket) -> Result<Vec<Found>, Errno> {
    let messages = socket.ask(Request::new(NFT_MSG_GETCHAIN, &header(NFPROTO_UNSPEC)), true)?;
    Ok(messages.iter().filter_map(Found::read).collect())
}

/// A chain of another program that drops what passes through the host and no rule of it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignDrop {
    /// Its name with that of its table: `ip filter FORWARD`.
    pub(crate) chain: String,
    /// The name of the chain of that table where docker leaves room for the rules of others, before its own; `None` without it.
    pub(crate) room: Option<String>,
}

/// Where docker leaves room for the rules of others.
const ROOM: &str = "DOCKER-USER";

/// The first such chain.
pub(crate) fn foreign_drop() -> Result<Option<ForeignDrop>, Errno> {
    Ok(drop_among(&chains(&Socket::of_filter()?)?))
}

fn drop_among(chains: &[Found]) -> Option<ForeignDrop> {
    let drops = chains.iter().find(|chain| {
        let is_ipv4 = matches!(chain.family, NFPROTO_INET | NFPROTO_IPV4);
        let forwards = chain.hook == Some(Hook::Forward.number());
        is_ipv4 && forwards && chain.policy == Some(NF_DROP) && chain.table != TABLE
    })?;
    let is_beside = |other: &&Found| other.family == drops.family && other.table == drops.table;
    let room = chains.iter().filter(is_beside).find(|other| other.name == ROOM);
    Some(ForeignDrop {
        chain: drops.words(),
        room: room.map(Found::words),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::messages;

    #[test]
    fn a_chain_that_drops_is_found_and_the_room_beside_it() {
        let chain = |table: &str, name: &str, hook, policy| Found {
            family: NFPROTO_IPV4,
            table: table.to_owned(),
            name: name.to_owned(),
            hook,
            policy,
        };
        let forward = Some(Hook::Forward.number());
        let drops = chain("filter", "FORWARD", forward, Some(NF_DROP));
        let others = [
            chain(TABLE, "own", forward, Some(NF_DROP)),
            chain("mine", "FORWARD", forward, Some(NF_ACCEPT)),
            chain("mine", ROOM, None, None),
        ];
        assert_eq!(drop_among(&others), None);
        let mut all = others.to_vec();
        all.push(drops);
        let found = |room: Option<&str>| ForeignDrop {
            chain: "ip filter FORWARD".to_owned(),
            room: room.map(str::to_owned),
        };
        assert_eq!(drop_among(&all), Some(found(None)));
        all.push(chain("filter", ROOM, None, None));
        assert_eq!(drop_among(&all), Some(found(Some("ip filter DOCKER-USER"))));
    }

    #[test]
    fn a_chain_reads_back_as_it_was_asked_for() {
        let chain = Chain {
            name: "tote-1-forward".to_owned(),
            hook: Some(Hook::Forward),
            rules: Vec::new(),
        };
        let bytes = chain.new_in(TABLE).finish(0);
        let read = Found::read(&messages(&bytes)[0]).unwrap();
        assert_eq!(
            (read.table.as_str(), read.name.as_str()),
            (TABLE, "tote-1-forward")
        );
        assert_eq!(
            (read.family, read.hook, read.policy),
            (NFPROTO_INET, Some(2), Some(NF_ACCEPT))
        );
    }
}
