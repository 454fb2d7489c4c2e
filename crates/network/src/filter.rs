//! The table `tote` of the packet filter (nf_tables), which has the chains of every network that is up.

use crate::foreign;
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
pub(crate) const NFT_MSG_DELRULE: u16 = SUBSYSTEM | 8;
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
pub(crate) const NFTA_CHAIN_POLICY: u16 = 5;
pub(crate) const NFTA_CHAIN_TYPE: u16 = 7;
pub(crate) const NFTA_HOOK_HOOKNUM: u16 = 1;
pub(crate) const NFTA_HOOK_PRIORITY: u16 = 2;
pub(crate) const NFTA_RULE_TABLE: u16 = 1;
pub(crate) const NFTA_RULE_CHAIN: u16 = 2;
pub(crate) const NFTA_RULE_EXPRESSIONS: u16 = 4;
pub(crate) const NFTA_RULE_USERDATA: u16 = 7;
const NFPROTO_UNSPEC: u8 = 0;
pub(crate) const NFPROTO_INET: u8 = 1;
pub(crate) const NFPROTO_IPV4: u8 = 2;
pub(crate) const NF_DROP: u32 = 0;
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
    /// Packets that go out, once every other program's rules have seen them.
    Last,
}

impl Hook {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Raw | Self::Prerouting => 0,
            Self::Input => 1,
            Self::Forward => 2,
            Self::Output | Self::RawOutput => 3,
            Self::Postrouting | Self::Last => 4,
        }
    }

    /// The usual priorities of filters and of translation.
    const fn priority(self) -> i32 {
        match self {
            Self::Raw | Self::RawOutput => -300,
            Self::Prerouting | Self::Output => -100,
            Self::Input | Self::Forward => 0,
            Self::Postrouting => 100,
            // Others keep marks of packets with connections, before this.
            Self::Last => 300,
        }
    }

    const fn kind(self) -> &'static str {
        match self {
            Self::Raw | Self::RawOutput | Self::Input | Self::Forward | Self::Last => "filter",
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
    let found = foreign::chains(&Socket::of_filter()?)?.into_iter();
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

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

/// The messages with all chains, of every table.
pub(crate) fn chain_messages(socket: &Socket) -> Result<Vec<Message>, Errno> {
    socket.ask(Request::new(NFT_MSG_GETCHAIN, &header(NFPROTO_UNSPEC)), true)
}

/// The kind of user data that nft(8) shows as a comment.
const COMMENT: u8 = 0;

/// Gives a rule a comment, as nft(8) writes it: the kind, the length, and a text that ends with a zero byte.
pub(crate) fn comment(rule: &mut Request, text: &str) {
    let length = u8::try_from(text.len() + 1).unwrap_or(u8::MAX);
    let bytes = [&[COMMENT, length], text.as_bytes(), &[0]].concat();
    rule.attribute(NFTA_RULE_USERDATA, &bytes);
}

/// The comment in a rule's user data.
pub(crate) fn comment_in(data: &[u8]) -> Option<String> {
    match data {
        [COMMENT, length, written @ ..] => written.get(..usize::from(*length)).map(text),
        _ => None,
    }
}
