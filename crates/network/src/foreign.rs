//! Chains and rules of other programs in the packet filter, as far as their words are understood.

use crate::filter::{
    HEADER, Hook, NFPROTO_INET, NFPROTO_IPV4, NFT_MSG_NEWRULE, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME,
    NFTA_CHAIN_POLICY, NFTA_CHAIN_TABLE, NFTA_HOOK_HOOKNUM, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS,
    NFTA_RULE_TABLE, NFTA_RULE_USERDATA, SUBSYSTEM, TABLE, chain_messages, comment_in, header,
};
use crate::filter::{NF_DROP, NFT_MSG_NEWCHAIN};
use crate::netlink::{Attribute, Message, Request, Socket, text};
use tote_sys::Errno;

const NFT_MSG_GETRULE: u16 = SUBSYSTEM | 7;
const NFTA_RULE_HANDLE: u16 = 3;
const NFPROTO_IPV6: u8 = 10;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
/// Attributes that several expressions have at these numbers: a register that is written or compared, and what is loaded into it.
const FIRST: u16 = 1;
const SECOND: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFTA_BITWISE_MASK: u16 = 4;
const NFTA_BITWISE_XOR: u16 = 5;
const NFTA_BITWISE_OP: u16 = 6;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;
const NFTA_TARGET_NAME: u16 = 1;
/// Codes of verdicts, as the kernel has them in 32 bits.
const ACCEPT: u32 = 1;
const DROP: u32 = 0;
const CONTINUE: u32 = u32::MAX;
const JUMP: u32 = u32::MAX - 2;
const GOTO: u32 = u32::MAX - 3;
const RETURN: u32 = u32::MAX - 4;

/// A chain of another program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForeignChain {
    pub(crate) family: u8,
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) hook: Option<u32>,
    policy: Option<u32>,
}

impl ForeignChain {
    /// Reads an NFT_MSG_NEWCHAIN.
    pub(crate) fn read(message: &Message) -> Option<Self> {
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

    /// Whether the kernel asks the chain about packets of these protocols that pass through the machine, and it belongs to another program.
    pub(crate) fn forwards(&self, ipv6: bool) -> bool {
        let is_seen = match self.family {
            NFPROTO_INET | NFPROTO_IPV4 => true,
            NFPROTO_IPV6 => ipv6,
            _ => false,
        };
        is_seen && self.hook == Some(Hook::Forward.number()) && self.table != TABLE
    }

    /// Whether packets of that protocol come by the chain.
    pub(crate) fn sees(&self, protocol: u8) -> bool {
        self.family == NFPROTO_INET || self.family == protocol
    }

    /// Whether what no rule decides is dropped.
    pub(crate) fn drops(&self) -> bool {
        self.policy == Some(NF_DROP)
    }

    /// Its table, as nft(8) takes it.
    pub(crate) fn table_words(&self) -> String {
        let family = match self.family {
            NFPROTO_INET => "inet",
            NFPROTO_IPV6 => "ip6",
            _ => "ip",
        };
        format!("{family} {}", self.table)
    }
}

/// All chains, of every table.
pub(crate) fn chains(socket: &Socket) -> Result<Vec<ForeignChain>, Errno> {
    let messages = chain_messages(socket)?;
    Ok(messages.iter().filter_map(ForeignChain::read).collect())
}

/// Decision of a rule about a packet that it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    /// The packet is dropped or refused.
    Deny,
    Jump(String),
    Goto(String),
    Return,
    /// The next rule is asked.
    Continue,
}

/// A part of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Loads what `meta` knows by that number into a register.
    Meta {
        register: u32,
        key: u32,
    },
    /// Loads what the connection knows by that number into a register.
    Connection {
        register: u32,
        key: u32,
    },
    /// Loads something else into a register.
    Other {
        register: u32,
    },
    /// Goes on if a register has this value, or has another one.
    Compare {
        register: u32,
        /// The kernel's number of the comparison.
        operator: u32,
        value: Vec<u8>,
    },
    /// Takes bits of one register to another.
    Mask {
        from: u32,
        to: u32,
        mask: Vec<u8>,
        xor: Vec<u8>,
    },
    Verdict(Verdict),
    /// Decides nothing.
    Idle,
    /// Decides nothing, and writes packets down.
    Log,
    /// Goes on for some packets.
    Condition,
    /// May decide for some packets.
    Decision,
}

/// A rule of another program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForeignRule {
    pub(crate) chain: String,
    /// The kernel's number of it, in its table.
    pub(crate) handle: u64,
    /// Its comment; empty without one.
    pub(crate) comment: String,
    pub(crate) parts: Vec<Part>,
}

/// The rules of a table, those of each chain in order.
pub(crate) fn rules(socket: &Socket, family: u8, table: &str) -> Result<Vec<ForeignRule>, Errno> {
    let mut request = Request::new(NFT_MSG_GETRULE, &header(family));
    request.name(NFTA_RULE_TABLE, table);
    match socket.ask(request, true) {
        Err(Errno::NOENT) => Ok(Vec::new()),
        messages => Ok(messages?
            .iter()
            .filter_map(|message| ForeignRule::read(message, family, table))
            .collect()),
    }
}

impl ForeignRule {
    /// Reads an NFT_MSG_NEWRULE of that table. Kernels may send other tables' rules, too.
    fn read(message: &Message, family: u8, of: &str) -> Option<Self> {
        let (header, rest) = message.body.split_at_checked(HEADER)?;
        if message.kind != NFT_MSG_NEWRULE || header[0] != family {
            return None;
        }
        let (mut found, mut table) = (Self::default(), String::new());
        for attribute in Attribute::all(rest) {
            match attribute.kind {
                NFTA_RULE_TABLE => table = text(attribute.value),
                NFTA_RULE_CHAIN => found.chain = text(attribute.value),
                NFTA_RULE_HANDLE => found.handle = attribute.value.try_into().map_or(0, u64::from_be_bytes),
                NFTA_RULE_USERDATA => found.comment = comment_in(attribute.value).unwrap_or_default(),
                NFTA_RULE_EXPRESSIONS => {
                    let elements = Attribute::all(attribute.value);
                    found.parts = elements.map(|element| Part::read(element.value)).collect();
                }
                _ => {}
            }
        }
        (table == of).then_some(found)
    }
}

/// The value of an attribute.
fn value(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    let found = Attribute::all(bytes).find(|attribute| attribute.kind == kind);
    found.map(|attribute| attribute.value)
}

fn number_in(bytes: &[u8], kind: u16) -> Option<u32> {
    number(value(bytes, kind)?)
}

fn data_in(bytes: &[u8], kind: u16) -> Option<Vec<u8>> {
    value(value(bytes, kind)?, NFTA_DATA_VALUE).map(<[u8]>::to_vec)
}

impl Part {
    fn read(element: &[u8]) -> Self {
        let name = value(element, NFTA_EXPR_NAME).map(text).unwrap_or_default();
        let data = value(element, NFTA_EXPR_DATA).unwrap_or_default();
        match name.as_str() {
            "log" => Self::Log,
            "counter" | "notrack" | "nat" | "masq" | "objref" | "flow_offload" | "last" => Self::Idle,
            "reject" => Self::Verdict(Verdict::Deny),
            "immediate" => Self::immediate(data),
            // Another program, or another way, has the packet then.
            "queue" | "synproxy" | "tproxy" | "fwd" => Self::Decision,
            "target" => Self::target(&value(data, NFTA_TARGET_NAME).map(text).unwrap_or_default()),
            // A map to verdicts has no register for its result but that of the verdict, whose number is 0.
            "lookup" | "dynset" => match number_in(data, NFTA_CMP_DATA) {
                Some(0) => Self::Decision,
                Some(register) if name == "lookup" => Self::Other { register },
                _ => Self::Condition,
            },
            _ => Self::register(&name, data).unwrap_or(Self::Condition),
        }
    }

    /// Reads an expression about a register.
    fn register(name: &str, data: &[u8]) -> Option<Self> {
        let register = number_in(data, FIRST)?;
        Some(match name {
            "meta" | "ct" => {
                let key = number_in(data, SECOND)?;
                if name == "meta" {
                    Self::Meta { register, key }
                } else {
                    Self::Connection { register, key }
                }
            }
            "cmp" => Self::Compare {
                register,
                operator: number_in(data, SECOND)?,
                value: data_in(data, NFTA_CMP_DATA)?,
            },
            // Operation 0 is that of a mask, and the only one of older kernels.
            "bitwise" if number_in(data, NFTA_BITWISE_OP).unwrap_or(0) == 0 => Self::Mask {
                from: register,
                to: number_in(data, SECOND)?,
                mask: data_in(data, NFTA_BITWISE_MASK)?,
                xor: data_in(data, NFTA_BITWISE_XOR)?,
            },
            "payload" | "exthdr" | "fib" | "rt" | "socket" | "osf" | "numgen" | "xfrm" => {
                Self::Other { register }
            }
            // What is computed from registers is not known; a comparison of it is one of a register with an unknown value.
            "bitwise" | "byteorder" | "hash" => Self::Other {
                register: number_in(data, SECOND)?,
            },
            _ => Self::Condition,
        })
    }

    fn immediate(data: &[u8]) -> Self {
        let Some(verdict) = value(data, SECOND).and_then(|data| value(data, NFTA_DATA_VERDICT)) else {
            return number_in(data, FIRST).map_or(Self::Decision, |register| Self::Other { register });
        };
        let chain = || value(verdict, NFTA_VERDICT_CHAIN).map(text).unwrap_or_default();
        match number_in(verdict, NFTA_VERDICT_CODE) {
            Some(ACCEPT) => Self::Verdict(Verdict::Accept),
            Some(DROP) => Self::Verdict(Verdict::Deny),
            Some(JUMP) => Self::Verdict(Verdict::Jump(chain())),
            Some(GOTO) => Self::Verdict(Verdict::Goto(chain())),
            Some(RETURN) => Self::Verdict(Verdict::Return),
            Some(CONTINUE) => Self::Verdict(Verdict::Continue),
            _ => Self::Decision,
        }
    }

    /// Meaning of a target of iptables for which nf_tables has no expression.
    fn target(name: &str) -> Self {
        match name {
            "REJECT" => Self::Verdict(Verdict::Deny),
            "LOG" | "NFLOG" => Self::Log,
            "MARK" | "CONNMARK" | "TCPMSS" | "CT" | "AUDIT" => Self::Idle,
            _ => Self::Decision,
        }
    }
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Chain, new_rule_of};
    use crate::netlink::messages;
    use crate::rule::Expression;

    #[test]
    fn a_chain_reads_back_as_it_was_asked_for() {
        let chain = Chain {
            name: "tote-1-forward".to_owned(),
            hook: Some(Hook::Forward),
            rules: Vec::new(),
        };
        let bytes = chain.new_in(TABLE).finish(0);
        let read = ForeignChain::read(&messages(&bytes)[0]).unwrap();
        assert_eq!(
            (read.table.as_str(), read.name.as_str()),
            (TABLE, "tote-1-forward")
        );
        assert_eq!((read.family, read.hook), (NFPROTO_INET, Some(2)));
        assert!(!read.drops() && !read.forwards(true));
    }

    #[test]
    fn a_rule_reads_back_as_it_was_asked_for() {
        let link = "tote-1".to_owned();
        let rule = [
            Expression::From(link),
            Expression::Established,
            Expression::Accept,
        ];
        let mut request = new_rule_of("filter", "FORWARD", &rule);
        request.attribute(NFTA_RULE_HANDLE, &7u64.to_be_bytes());
        let all = messages(&request.finish(0));
        let read = ForeignRule::read(&all[0], NFPROTO_INET, "filter").unwrap();
        assert_eq!((read.chain.as_str(), read.handle), ("FORWARD", 7));
        let [meta, name, connection, mask, bits, verdict] = &read.parts[..] else {
            panic!("{:?}", read.parts);
        };
        assert!(matches!(meta, Part::Meta { register: 1, key: 6 }));
        assert!(matches!(name, Part::Compare { operator: 0, value, .. } if value.starts_with(b"tote-1\0")));
        assert!(matches!(connection, Part::Connection { key: 0, .. }));
        assert!(matches!(mask, Part::Mask { from: 1, to: 1, mask, .. } if mask.len() == 4));
        assert!(matches!(bits, Part::Compare { operator: 1, .. }));
        assert_eq!(*verdict, Part::Verdict(Verdict::Accept));
        assert_eq!(ForeignRule::read(&all[0], NFPROTO_INET, "other"), None);
        let whole = all[0].body.len();
        for length in 0..whole {
            let mut cut = messages(&new_rule_of("filter", "FORWARD", &rule).finish(0));
            cut[0].body.truncate(length);
            // Whatever is cut off, nothing panics.
            drop(ForeignRule::read(&cut[0], NFPROTO_INET, "filter"));
        }
    }
}
