//! Ways of packets through chains of another program, and the places where a rule would let them pass.
//!
//! A rule of tote's in such a chain comes last, right before what denies everything that no rule knows: each rule by which the
//! administrator forbids something is asked before it. So a place is for the policy of the first chain, and for a denial without any
//! condition behind which nothing passes. Each other denial is a rule of the administrator's, and has no exception.

use crate::foreign::{ForeignRule, Part, Verdict};
use crate::rule::padded;
use std::collections::BTreeMap;

const NFT_META_IIFNAME: u32 = 6;
const NFT_META_OIFNAME: u32 = 7;
const NFT_META_NFPROTO: u32 = 15;
const NFT_CT_STATE: u32 = 0;
const NFT_CT_STATUS: u32 = 2;
const NFT_CMP_EQ: u32 = 0;
const NFT_CMP_NEQ: u32 = 1;
/// The numbers of registers of 4 bytes begin here; those of 16 bytes lie over them, and begin with 1.
const FIRST_SHORT: u32 = 8;
/// The kernel allows 16 jumps within one another.
const DEPTH: usize = 16;

/// A connection that begins.
pub(crate) const NEW: u32 = 8;
/// A connection whose destination was translated.
pub(crate) const TRANSLATED: u32 = 0x20;

/// A packet that passes through the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passing {
    pub(crate) from: String,
    pub(crate) to: String,
    /// The number of its protocol, IPv4 or IPv6, as the packet filter has it.
    pub(crate) protocol: u8,
    /// The state of its connection, and the bits that the kernel keeps of it.
    pub(crate) state: u32,
    pub(crate) status: u32,
}

/// A place in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) chain: String,
    /// The number of the rule before which it is; `None` for the chain's end.
    pub(crate) before: Option<u64>,
}

/// Denial of packets that no rule knows, or that a rule forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    /// A rule there would let them pass.
    pub(crate) place: Place,
    /// Whether a rule forbids these packets, rather than all that no rule knows.
    pub(crate) is_forbidden: bool,
}

/// End of a packet's way through a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Accepted,
    /// Denial; a rule at that place would let the packet pass.
    Denied {
        denied: Denied,
        /// Whether a rule of the chain decides something about packets of this kind before. Where none does, the place may as well be in the
        /// chain that has led here, which is seldom written anew.
        is_decided: bool,
    },
    Through,
}

/// Whether a rule fits a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Fits,
    /// For some packets of this kind.
    Perhaps,
    Not,
}

/// The rules of a table.
pub(crate) struct Walk<'a> {
    chains: BTreeMap<&'a str, Vec<&'a ForeignRule>>,
}

impl<'a> Walk<'a> {
    pub(crate) fn of(rules: &'a [ForeignRule]) -> Self {
        let mut chains: BTreeMap<&str, Vec<&ForeignRule>> = BTreeMap::new();
        for rule in rules {
            chains.entry(&rule.chain).or_default().push(rule);
        }
        Self { chains }
    }

    /// How the chain, or its policy (`drops`), denies a packet. `None` where such packets pass.
    pub(crate) fn denied(&self, chain: &str, drops: bool, packet: &Passing) -> Option<Denied> {
        let mut open = 0;
        match self.chain(chain, packet, (0, &mut open)) {
            End::Accepted => None,
            End::Denied { denied, .. } => Some(denied),
            End::Through => drops.then(|| Denied {
                place: self.place(chain, open, self.rules(chain).len()),
                is_forbidden: false,
            }),
        }
    }

    /// Whether a rule is the last word of its chain, about all packets: those behind it decide about none, but for denying all.
    fn is_last_word(&self, chain: &str, number: usize) -> bool {
        let rules = self.rules(chain);
        let rest = rules.get(number + 1..).unwrap_or_default();
        rules.get(number).is_some_and(|rule| is_bare(rule)) && !self.decide(rest, 0)
    }

    /// Whether some of the rules, or those to which they lead, let a packet pass or deny some packets alone.
    fn decide(&self, rules: &[&ForeignRule], depth: usize) -> bool {
        let decides = |rule: &ForeignRule, part: &Part| match part {
            Part::Verdict(Verdict::Accept) | Part::Decision => true,
            Part::Verdict(Verdict::Deny) => !is_bare(rule),
            Part::Verdict(Verdict::Jump(to) | Verdict::Goto(to)) => {
                depth > DEPTH || self.decide(self.rules(to), depth + 1)
            }
            _ => false,
        };
        rules
            .iter()
            .any(|rule| rule.parts.iter().any(|part| decides(rule, part)))
    }

    fn rules(&self, chain: &str) -> &[&'a ForeignRule] {
        self.chains.get(chain).map_or(&[], Vec::as_slice)
    }

    /// The place before the rule of number `stop`, or before one that logs packets as denied, if no rule from number `open` on decides anything.
    fn place(&self, chain: &str, open: usize, stop: usize) -> Place {
        let rules = self.rules(chain);
        let logging = (open..stop).find(|place| rules.get(*place).is_some_and(|rule| self.logs(rule)));
        let before = rules.get(logging.unwrap_or(stop));
        Place {
            chain: chain.to_owned(),
            before: before.map(|rule| rule.handle),
        }
    }

    /// Whether a rule logs, itself or by the chain to which it leads.
    fn logs(&self, rule: &ForeignRule) -> bool {
        let logs = |rule: &ForeignRule| rule.parts.contains(&Part::Log);
        let leads = |part: &Part| match part {
            Part::Verdict(Verdict::Jump(to)) => self.rules(to).iter().any(|rule| logs(rule)),
            _ => false,
        };
        logs(rule) || rule.parts.iter().any(leads)
    }

    /// Follows a packet through a chain; `open` becomes the number of the first rule from which on none decides anything about some packets of its kind.
    fn chain(&self, name: &str, packet: &Passing, (depth, open): (usize, &mut usize)) -> End {
        if depth > DEPTH {
            return End::Through;
        }
        for (number, rule) in self.rules(name).iter().enumerate() {
            let (fit, outcome) = read(rule, packet);
            let mut inner = 0;
            let (end, is_last) = match outcome {
                None => continue,
                Some(Outcome::Unknown) => (None, false),
                Some(Outcome::Known(verdict)) => match verdict {
                    Verdict::Continue => continue,
                    Verdict::Accept => (Some(End::Accepted), true),
                    Verdict::Deny => {
                        let denied = Denied {
                            place: self.place(name, *open, number),
                            is_forbidden: !self.is_last_word(name, number),
                        };
                        let is_decided = *open > 0;
                        (Some(End::Denied { denied, is_decided }), true)
                    }
                    Verdict::Return => (Some(End::Through), true),
                    Verdict::Jump(to) => (Some(self.chain(&to, packet, (depth + 1, &mut inner))), false),
                    Verdict::Goto(to) => (Some(self.chain(&to, packet, (depth + 1, &mut inner))), true),
                },
            };
            match end {
                Some(End::Through) if inner == 0 && !is_last => {}
                Some(End::Through) if is_last && fit == Fit::Fits => {
                    *open = if inner > 0 { number + 1 } else { *open };
                    return End::Through;
                }
                Some(End::Accepted) if fit == Fit::Fits => return End::Accepted,
                Some(End::Denied {
                    mut denied,
                    is_decided,
                }) if fit == Fit::Fits => {
                    denied.is_forbidden |= !self.is_last_word(name, number);
                    if !is_decided {
                        denied.place = self.place(name, *open, number);
                    }
                    let is_decided = is_decided || *open > 0;
                    return End::Denied { denied, is_decided };
                }
                _ => *open = number + 1,
            }
        }
        End::Through
    }
}

/// Whether a rule is about all packets.
fn is_bare(rule: &ForeignRule) -> bool {
    let mut parts = rule.parts.iter();
    parts.all(|part| matches!(part, Part::Verdict(_) | Part::Idle | Part::Log))
}

/// A rule's decision.
enum Outcome {
    Known(Verdict),
    Unknown,
}

/// Whether a rule fits a packet, and what it decides then; `None` for nothing.
fn read(rule: &ForeignRule, packet: &Passing) -> (Fit, Option<Outcome>) {
    let mut registers: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let mut fit = Fit::Fits;
    for part in &rule.parts {
        match part {
            Part::Meta { register, key } => keep(&mut registers, *register, packet.meta(*key)),
            Part::Connection { register, key } => {
                keep(&mut registers, *register, packet.connection(*key));
            }
            Part::Other { register } => keep(&mut registers, *register, None),
            Part::Mask { from, to, mask, xor } => {
                let old = registers.get(&place_of(*from));
                let new = old.map(|old| masked(old, mask, xor));
                keep(&mut registers, *to, new);
            }
            Part::Compare {
                register,
                operator,
                value,
            } => match registers
                .get(&place_of(*register))
                .map(|known| known.starts_with(value))
            {
                Some(same) if [NFT_CMP_EQ, NFT_CMP_NEQ].contains(operator) => {
                    if same != (*operator == NFT_CMP_EQ) {
                        return (Fit::Not, None);
                    }
                }
                _ => fit = Fit::Perhaps,
            },
            Part::Verdict(verdict) => return (fit, Some(Outcome::Known(verdict.clone()))),
            Part::Idle | Part::Log => {}
            Part::Condition => fit = Fit::Perhaps,
            Part::Decision => return (Fit::Perhaps, Some(Outcome::Unknown)),
        }
    }
    (fit, None)
}

/// Where a register begins, in bytes.
fn place_of(register: u32) -> u32 {
    match register.checked_sub(FIRST_SHORT) {
        Some(short) => short * 4,
        None => register.saturating_sub(1) * 16,
    }
}

fn keep(registers: &mut BTreeMap<u32, Vec<u8>>, register: u32, value: Option<Vec<u8>>) {
    let place = place_of(register);
    match value {
        Some(value) => drop(registers.insert(place, value)),
        None => drop(registers.remove(&place)),
    }
}

fn masked(old: &[u8], mask: &[u8], xor: &[u8]) -> Vec<u8> {
    let bits = old.iter().zip(mask).zip(xor);
    bits.map(|((old, mask), xor)| old & mask ^ xor).collect()
}

impl Passing {
    fn meta(&self, key: u32) -> Option<Vec<u8>> {
        match key {
            NFT_META_IIFNAME => Some(padded(&self.from).to_vec()),
            NFT_META_OIFNAME => Some(padded(&self.to).to_vec()),
            NFT_META_NFPROTO => Some(vec![self.protocol]),
            _ => None,
        }
    }

    fn connection(&self, key: u32) -> Option<Vec<u8>> {
        match key {
            NFT_CT_STATE => Some(self.state.to_ne_bytes().to_vec()),
            NFT_CT_STATUS => Some(self.status.to_ne_bytes().to_vec()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: (&str, &str) = ("tote-1", "eth0");

    fn packet((from, to): (&str, &str), status: u32) -> Passing {
        Passing {
            from: from.to_owned(),
            to: to.to_owned(),
            protocol: 2,
            state: NEW,
            status,
        }
    }

    /// Rules, each a line: the chain, conditions (`i=`, `o=` with a link, or its beginning before a star, `?`), and a verdict.
    fn rules(text: &str) -> Vec<ForeignRule> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let rule = |(place, line): (usize, &str)| {
            let mut words = line.split_whitespace();
            let chain = words.next().unwrap().to_owned();
            let handle = u64::try_from(place).unwrap() + 1;
            let parts = words.flat_map(part).collect();
            ForeignRule {
                chain,
                handle,
                comment: String::new(),
                parts,
            }
        };
        lines.enumerate().map(rule).collect()
    }

    fn part(word: &str) -> Vec<Part> {
        let named = |key, name: &str| {
            let value = match name.strip_suffix('*') {
                Some(begin) => begin.as_bytes().to_vec(),
                None => padded(name).to_vec(),
            };
            vec![
                Part::Meta { register: 1, key },
                Part::Compare {
                    register: 8,
                    operator: NFT_CMP_EQ,
                    value,
                },
            ]
        };
        let bits = |key, bits: u32| {
            vec![
                Part::Connection { register: 1, key },
                Part::Mask {
                    from: 1,
                    to: 1,
                    mask: bits.to_ne_bytes().to_vec(),
                    xor: vec![0; 4],
                },
                Part::Compare {
                    register: 1,
                    operator: NFT_CMP_NEQ,
                    value: vec![0; 4],
                },
            ]
        };
        let verdict = |verdict| vec![Part::Verdict(verdict)];
        match word.split_once('=') {
            Some(("i", name)) => named(NFT_META_IIFNAME, name),
            Some(("o", name)) => named(NFT_META_OIFNAME, name),
            Some(("jump", chain)) => verdict(Verdict::Jump(chain.to_owned())),
            Some((_, chain)) => verdict(Verdict::Goto(chain.to_owned())),
            None => match word {
                "established" => bits(NFT_CT_STATE, 2 | 4),
                "translated" => bits(NFT_CT_STATUS, TRANSLATED),
                "?" => vec![Part::Condition],
                "log" => vec![Part::Log],
                "map" => vec![Part::Decision],
                "accept" => verdict(Verdict::Accept),
                "return" => verdict(Verdict::Return),
                _ => verdict(Verdict::Deny),
            },
        }
    }

    /// The place at which a new connection out of a container is denied, as words.
    fn place(text: &str, drops: bool, packet: &Passing) -> String {
        let rules = rules(text);
        match Walk::of(&rules).denied("F", drops, packet) {
            None => "passes".to_owned(),
            Some(denied) if denied.is_forbidden => "forbidden".to_owned(),
            Some(Denied { place, .. }) => {
                let before = place.before.map(|rule| rule.to_string());
                format!("{} {}", place.chain, before.as_deref().unwrap_or("end"))
            }
        }
    }

    #[test]
    fn what_a_rule_forbids_has_no_place_for_an_exception() {
        let docker = "F jump=USER\nF i=docker0 accept\nF o=docker0 accept";
        for denial in [
            "deny",
            "i=tote-* deny",
            "i=tote-* o=eth0 deny",
            "i=tote-1 log deny",
        ] {
            let rules = format!("{docker}\nUSER {denial}\nUSER return");
            assert_eq!(place(&rules, true, &packet(OUT, 0)), "forbidden", "{denial}");
            let alone = format!("{docker}\nUSER {denial}");
            assert_eq!(place(&alone, true, &packet(OUT, 0)), "forbidden", "{denial}");
        }
        for (rules, drops) in [
            ("F ? accept\nF i=tote-* deny", true),
            (
                "F jump=zones\nF deny\nzones i=tote-1 goto=public\npublic deny",
                false,
            ),
            ("F deny\nF ? accept", true),
            (
                "F jump=before\nF jump=reject\nbefore jump=user\nuser i=tote-1 o=eth0 deny\nreject ? accept",
                true,
            ),
        ] {
            assert_eq!(place(rules, drops, &packet(OUT, 0)), "forbidden", "{rules}");
        }
    }

    /// All chains of up to three rules over a few conditions, with one that leads to another: a packet that an exception at the place lets pass is one
    /// that no rule before the last word denies.
    #[test]
    fn no_exception_is_in_front_of_a_denial_with_a_condition() {
        let conditions = ["", "i=tote-*", "o=eth0", "i=docker0", "?"];
        let verdicts = ["accept", "deny", "return", "jump=U"];
        let mut texts = vec![String::new()];
        for condition in conditions {
            texts.extend(verdicts.map(|verdict| format!("{condition} {verdict}")));
        }
        for (first, second) in texts
            .iter()
            .flat_map(|one| texts.iter().map(move |two| (one, two)))
        {
            for inner in texts.iter().filter(|text| !text.contains("jump")) {
                let text = format!("F {first}\nF {second}\nU {inner}");
                let known = rules(&text);
                let Some(denied) = Walk::of(&known).denied("F", true, &packet(OUT, 0)) else {
                    continue;
                };
                if denied.is_forbidden {
                    continue;
                }
                // The rules behind the exception's place in the first chain.
                let behind = known.iter().filter(|rule| {
                    rule.chain == "F" && denied.place.before.is_some_and(|place| rule.handle >= place)
                });
                for rule in behind {
                    let denies = rule.parts.contains(&Part::Verdict(Verdict::Deny));
                    assert!(!denies || rule.parts.len() == 1, "{text}");
                }
            }
        }
    }

    #[test]
    fn the_place_of_a_rule_is_behind_all_that_is_forbidden() {
        let docker = "F jump=USER\nF o=docker0 established accept\nF o=docker0 jump=DOCKER\nF i=docker0 accept\nUSER return";
        let forbids = "F jump=USER\nUSER ? deny\nUSER return";
        let ufw = "F jump=log\nF jump=before\nF jump=after\nF jump=tail\nlog log\nbefore established accept\nbefore ? accept\nbefore jump=user\ntail ? log";
        let rejects = "F jump=before\nF jump=reject\nbefore ? accept\nreject log deny";
        let firewalld = "F established accept\nF translated accept\nF jump=zones\nF deny\nzones goto=public\npublic jump=allow\npublic deny\nallow o=eth1 accept\nallow ? accept";
        for (rules, drops, expected) in [
            ("", false, "passes"),
            ("", true, "F end"),
            ("F ? accept", true, "F end"),
            ("F accept", true, "passes"),
            ("F i=tote-* accept", true, "passes"),
            ("F i=tote-1 o=eth0 accept\nF deny", false, "passes"),
            ("F i=tote-2 accept\nF deny", false, "F 2"),
            ("F map\nF deny", false, "F 2"),
            ("F return\nF deny", false, "passes"),
            ("F ? return\nF deny", false, "F 2"),
            // docker's rules are about its own links; what others write into its first chain comes first.
            (docker, true, "F end"),
            (forbids, true, "F end"),
            (ufw, true, "F 4"),
            (rejects, false, "F 2"),
            (firewalld, false, "public 7"),
            // A chain that leads to itself, which no kernel takes, ends.
            ("F jump=F", true, "F end"),
        ] {
            let found = place(rules, drops, &packet(OUT, 0));
            assert_eq!(found, expected, "{rules}");
        }
        let way_in = packet(("eth0", "tote-1"), TRANSLATED);
        assert_eq!(place(firewalld, false, &way_in), "passes");
        assert_eq!(place(docker, true, &way_in), "F end");
    }
}
