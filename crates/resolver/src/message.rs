//! Messages of DNS (RFC 1035), as far as a resolver needs to know them that relays most of them untouched.

use crate::name::{address_of, encoded, labels, text};
use std::net::IpAddr;

/// Length of the header of every message, in bytes.
pub(crate) const HEADER: usize = 12;
/// A record's part between its name and its data, with the pointer that stands for the name.
const RECORD: usize = 12;
/// The length of an answer by UDP that every client takes.
pub(crate) const PLAIN_LIMIT: usize = 512;
/// The longest answer by UDP that is ever given, whatever a client takes: it fits into the packets of most links.
pub(crate) const MOST_BY_UDP: usize = 1232;
/// The longest answer by TCP.
pub(crate) const MOST_BY_TCP: usize = 65535;
/// The most addresses that a name is looked up for: more do not fit into an answer by TCP.
pub const MOST_ADDRESSES: usize = 4000;

pub(crate) const A: u16 = 1;
pub(crate) const PTR: u16 = 12;
pub(crate) const AAAA: u16 = 28;
pub(crate) const OPT: u16 = 41;
const ANY: u16 = 255;
/// Kinds that stand for a transfer of a zone (RFC 5936 and 1995).
const TRANSFERS: [u16; 2] = [251, 252];
pub(crate) const INTERNET: u16 = 1;

const RESPONSE: u8 = 0x80;
const OPCODE: u8 = 0x78;
const AUTHORITATIVE: u8 = 0x04;
const TRUNCATED: u8 = 0x02;
pub(crate) const RECURSION_DESIRED: u8 = 0x01;
const RECURSION_AVAILABLE: u8 = 0x80;
const RCODE: u8 = 0x0f;

/// How long a client may remember an answer, in seconds: the next question is answered from what is true then.
const LIFETIME: u32 = 0;

/// The reason why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The message is not one of a question.
    Malformed = 1,
    /// No server has answered.
    Failed = 2,
    /// The name does not exist.
    NoSuchName = 3,
    /// The operation is another one than a question.
    NotImplemented = 4,
}

/// How a message came, which decides how long an answer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// A question, with what an answer repeats of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The number of the message.
    pub(crate) id: u16,
    /// The name in lower case, with dots between its labels; `None` of one that no container can have.
    pub(crate) name: Option<String>,
    pub(crate) kind: u16,
    class: u16,
    wants_recursion: bool,
    /// The bytes of the question, from the name to the class.
    pub(crate) section: Vec<u8>,
    /// The longest answer in bytes.
    pub(crate) limit: usize,
}

/// The answer to a question that is answered here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The addresses of a name.
    Addresses(Vec<IpAddr>),
    /// The name of an address.
    Name(String),
}

/// The reason why a message is not taken for a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoQuestion {
    /// The message gets no answer: it is a response, or too short to be answered.
    Silence,
    /// The whole answer.
    Refused(Vec<u8>),
}

impl Question {
    /// Reads a message.
    ///
    /// # Errors
    /// [`NoQuestion`].
    pub(crate) fn parse(bytes: &[u8], transport: Transport) -> Result<Self, NoQuestion> {
        let header = bytes.get(..HEADER).ok_or(NoQuestion::Silence)?;
        if header[2] & RESPONSE != 0 {
            return Err(NoQuestion::Silence);
        }
        let refused = |refusal| NoQuestion::Refused(refused_header(header, refusal));
        if header[2] & OPCODE != 0 {
            return Err(refused(Refusal::NotImplemented));
        }
        if word(header, 4) != Some(1) {
            return Err(refused(Refusal::Malformed));
        }
        let (labels, end) = labels(bytes).ok_or_else(|| refused(Refusal::Malformed))?;
        let kinds = word(bytes, end).zip(word(bytes, end + 2));
        let (kind, class) = kinds.ok_or_else(|| refused(Refusal::Malformed))?;
        if TRANSFERS.contains(&kind) {
            // No program looks a name up so. A server that trusts this machine with its zones does not mean a container.
            return Err(refused(Refusal::NotImplemented));
        }
        let end = end + 4;
        Ok(Self {
            id: word(header, 0).unwrap_or_default(),
            name: text(&labels),
            kind,
            class,
            wants_recursion: header[2] & RECURSION_DESIRED != 0,
            section: bytes.get(HEADER..end).unwrap_or_default().to_vec(),
            limit: match transport {
                Transport::Udp => datagram_limit(bytes, end),
                Transport::Tcp => MOST_BY_TCP,
            },
        })
    }

    /// Whether it may be about a container at all.
    pub(crate) fn is_of_internet(&self) -> bool {
        matches!(self.class, INTERNET | ANY)
    }

    /// The address whose name is asked for.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        address_of(self.name.as_deref().filter(|_| self.kind == PTR)?)
    }

    /// The message that answers it. A name that has no record of the kind that was asked for gets an answer without
    /// records; what does not fit is left out, and the message says so.
    pub(crate) fn answer(&self, answer: &Answer) -> Vec<u8> {
        let mut message = self.begin(None);
        let (mut count, mut is_whole) = (0u16, true);
        let mut add = |message: &mut Vec<u8>, kind: u16, data: &[u8]| {
            // The name is the question's, so a pointer stands for it.
            if message.len() + RECORD + data.len() > self.limit {
                is_whole = false;
                return;
            }
            message.extend([0xc0, 12]);
            message.extend(kind.to_be_bytes());
            message.extend(INTERNET.to_be_bytes());
            message.extend(LIFETIME.to_be_bytes());
            message.extend(u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
            message.extend(data);
            count += 1;
        };
        match answer {
            Answer::Addresses(addresses) => {
                for address in addresses.iter().take(MOST_ADDRESSES) {
                    match address {
                        IpAddr::V4(own) if matches!(self.kind, A | ANY) => {
                            add(&mut message, A, &own.octets());
                        }
                        IpAddr::V6(own) if matches!(self.kind, AAAA | ANY) => {
                            add(&mut message, AAAA, &own.octets());
                        }
                        _ => {}
                    }
                }
            }
            Answer::Name(name) => {
                if let Some(data) = encoded(name) {
                    add(&mut message, PTR, &data);
                }
            }
        }
        message[6..8].copy_from_slice(&count.to_be_bytes());
        if !is_whole {
            message[2] |= TRUNCATED;
        }
        message
    }

    /// The message that refuses an answer.
    pub(crate) fn refuse(&self, refusal: Refusal) -> Vec<u8> {
        self.begin(Some(refusal))
    }

    fn begin(&self, refusal: Option<Refusal>) -> Vec<u8> {
        let mut message = Vec::with_capacity(HEADER + self.section.len() + 64);
        message.extend(self.id.to_be_bytes());
        let mut flags = RESPONSE;
        if self.wants_recursion {
            flags |= RECURSION_DESIRED;
        }
        if refusal.is_none() {
            flags |= AUTHORITATIVE;
        }
        message.extend([
            flags,
            RECURSION_AVAILABLE | refusal.map_or(0, |refusal| refusal as u8),
        ]);
        message.extend([0, 1, 0, 0, 0, 0, 0, 0]);
        message.extend(&self.section);
        message
    }

    /// Whether a server's message answers this question, which was sent as this message with that number.
    pub(crate) fn is_answered_by(&self, message: &[u8], (sent, id): (&[u8], u16)) -> bool {
        let is_response = message.get(2).is_some_and(|flags| flags & RESPONSE != 0);
        if word(message, 0) != Some(id) || !is_response {
            return false;
        }
        let section = HEADER..HEADER + self.section.len();
        match word(message, 4) {
            Some(1) => sent
                .get(section.clone())
                .is_some_and(|sent| message.get(section) == Some(sent)),
            // A server that could not read the question does not repeat it.
            Some(0) => rcode(message) == Some(Refusal::Malformed as u8),
            _ => false,
        }
    }
}

/// Whether a server's message says that another server may know better.
pub(crate) fn is_failure(message: &[u8]) -> bool {
    matches!(rcode(message), Some(2 | 5))
}

/// The message with another number.
pub(crate) fn renumbered(message: &[u8], id: u16) -> Vec<u8> {
    let mut message = message.to_vec();
    if let Some(number) = message.get_mut(..2) {
        number.copy_from_slice(&id.to_be_bytes());
    }
    message
}

fn rcode(message: &[u8]) -> Option<u8> {
    message.get(3).map(|flags| flags & RCODE)
}

/// An answer to a message of which nothing but the header is understood.
fn refused_header(header: &[u8], refusal: Refusal) -> Vec<u8> {
    let mut message = vec![0; HEADER];
    message[..2].copy_from_slice(&header[..2]);
    message[2] = RESPONSE | header[2] & (OPCODE | RECURSION_DESIRED);
    message[3] = RECURSION_AVAILABLE | refusal as u8;
    message
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.get(..2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// The length of an answer by UDP that a client says to take (RFC 6891): its record OPT stands right behind the question,
/// in a message that has nothing else.
fn datagram_limit(bytes: &[u8], end: usize) -> usize {
    let is_alone = word(bytes, 6) == Some(0) && word(bytes, 8) == Some(0);
    let is_option = bytes.get(end) == Some(&0) && word(bytes, end + 1) == Some(OPT);
    let said = word(bytes, end + 3).filter(|_| is_alone && is_option);
    said.map_or(PLAIN_LIMIT, |length| {
        usize::from(length).clamp(PLAIN_LIMIT, MOST_BY_UDP)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::LONGEST_NAME;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// A message that asks for a name's record of that kind.
    fn asked(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, RECURSION_DESIRED, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend(encoded(name).unwrap());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(INTERNET.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Question {
        Question::parse(bytes, Transport::Udp).unwrap()
    }

    #[test]
    fn a_question_is_answered_as_rfc_1035_has_it() {
        let question = parse(&asked("WWW", A));
        assert_eq!((question.id, question.name.as_deref()), (0xabcd, Some("www")));
        let answer = question.answer(&Answer::Addresses(vec![Ipv4Addr::new(10, 210, 0, 7).into()]));
        let expected = [
            &[0xab, 0xcd, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0][..],
            b"\x03WWW\0\0\x01\0\x01",
            &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 10, 210, 0, 7],
        ];
        assert_eq!(answer, expected.concat());
        let sent = asked("WWW", A);
        assert!(question.is_answered_by(&answer, (&sent, 0xabcd)));
        let none = parse(&asked("www", AAAA)).answer(&Answer::Addresses(vec![Ipv4Addr::LOCALHOST.into()]));
        assert_eq!(
            (none[3] & RCODE, none[7]),
            (0, 0),
            "a name without IPv6 addresses"
        );
        let both = Answer::Addresses(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        for (kind, count, end) in [
            (A, 1, [1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]),
            (AAAA, 1, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            (ANY, 2, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ] {
            let answer = parse(&asked("www", kind)).answer(&both);
            assert_eq!(answer[7], count, "{kind}");
            assert!(answer.ends_with(&end), "{kind}: {answer:?}");
        }
    }

    #[test]
    fn addresses_have_names() {
        let question = parse(&asked("7.0.210.10.in-addr.arpa", PTR));
        assert_eq!(question.address(), Some(Ipv4Addr::new(10, 210, 0, 7).into()));
        let reversed = "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.7.0.0.0.0.0.d.f.ip6.arpa";
        let question6 = parse(&asked(reversed, PTR));
        assert_eq!(question6.address(), Some("fd00:7::7".parse().unwrap()));
        let answer = question.answer(&Answer::Name("web.lab".to_owned()));
        assert!(answer.ends_with(b"\x03web\x03lab\0"), "{answer:?}");
        for other in [
            "0.210.10.in-addr.arpa",
            "1.7.0.210.10.in-addr.arpa",
            "07.0.210.10.in-addr.arpa",
            "256.0.210.10.in-addr.arpa",
            "7.0.210.10.ip6.arpa",
            &reversed.replace("d.f", "d.f.0"),
            &reversed.replace("d.f", "d.g"),
            &reversed.replace("7.0.0", "70.0"),
        ] {
            assert_eq!(parse(&asked(other, PTR)).address(), None, "{other}");
        }
        assert_eq!(parse(&asked("7.0.210.10.in-addr.arpa", A)).address(), None);
    }

    #[test]
    fn answers_are_as_long_as_a_client_takes() {
        let many = Answer::Addresses((0..5000).map(|number| Ipv4Addr::from(number).into()).collect());
        let mut bytes = asked("www", A);
        let plain = parse(&bytes).answer(&many);
        assert!((497..=PLAIN_LIMIT).contains(&plain.len()) && plain[2] & TRUNCATED != 0);
        let by_tcp = Question::parse(&bytes, Transport::Tcp).unwrap().answer(&many);
        assert!(by_tcp.len() <= MOST_BY_TCP && word(&by_tcp, 6) == Some(4000));
        bytes[11] = 1;
        bytes.extend([0, 0, 41, 0xff, 0xff, 0, 0, 0, 0, 0, 0]);
        let longer = parse(&bytes).answer(&many);
        assert!((1217..=MOST_BY_UDP).contains(&longer.len()), "{}", longer.len());
    }

    #[test]
    fn messages_that_are_no_question() {
        let no = |bytes: &[u8]| Question::parse(bytes, Transport::Udp).unwrap_err();
        let refused = |bytes: &[u8], code: Refusal| match no(bytes) {
            NoQuestion::Refused(answer) => {
                assert_eq!((&answer[..2], answer[3] & RCODE), (&bytes[..2], code as u8));
                assert!(answer[2] & RESPONSE != 0 && answer.len() == HEADER);
            }
            NoQuestion::Silence => panic!("{bytes:?}"),
        };
        let good = asked("www", A);
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        assert_eq!(no(&good[..11]), NoQuestion::Silence);
        assert_eq!(
            no(&changed(2, RESPONSE)),
            NoQuestion::Silence,
            "two resolvers would answer each other"
        );
        refused(&changed(2, 0x28), Refusal::NotImplemented);
        for kind in TRANSFERS {
            refused(&asked("lan", kind), Refusal::NotImplemented);
        }
        refused(&changed(5, 2), Refusal::Malformed);
        refused(&changed(12, 0xc0), Refusal::Malformed);
        refused(&good[..good.len() - 1], Refusal::Malformed);
        let mut endless = good[..HEADER].to_vec();
        endless.extend([1, b'a'].repeat(200));
        refused(&endless, Refusal::Malformed);
    }

    #[test]
    fn a_name_that_no_container_has_is_none() {
        for label in ["..", "a.b", "a/b", "a\0b", "a b", "é"] {
            let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, label.len() as u8];
            bytes.extend(label.as_bytes());
            bytes.extend([0, 0, 1, 0, 1]);
            assert_eq!(parse(&bytes).name, None, "{label:?}");
        }
        assert_eq!(
            parse(&[0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1]).name,
            None
        );
    }

    #[test]
    fn answers_of_servers_are_checked() {
        let sent = asked("www", A);
        let question = parse(&sent);
        let answers = |message: &[u8], id| question.is_answered_by(message, (&sent, id));
        let good = question.refuse(Refusal::NoSuchName);
        assert!(answers(&good, 0xabcd) && !is_failure(&good));
        assert!(!answers(&good, 0xabce), "another number");
        assert!(!answers(&sent, 0xabcd), "a question");
        assert!(!answers(&parse(&asked("ww2", A)).refuse(Refusal::Failed), 0xabcd));
        assert!(!answers(&good[..14], 0xabcd));
        assert!(is_failure(&question.refuse(Refusal::Failed)));
        assert_eq!(renumbered(&good, 7)[..2], [0, 7]);
        assert!(renumbered(&[1], 7) == [1]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), tcp: bool) {
            let transport = if tcp { Transport::Tcp } else { Transport::Udp };
            if let Ok(question) = Question::parse(&bytes, transport) {
                let many = Answer::Addresses(vec![Ipv4Addr::LOCALHOST.into(); 100]);
                prop_assert!(question.answer(&many).len() <= question.limit.max(PLAIN_LIMIT));
                prop_assert!(question.answer(&Answer::Name("a.b".to_owned())).len() <= question.limit);
                prop_assert!(!question.is_answered_by(&bytes, (&bytes, question.id)));
                prop_assert_eq!(question.given_back(bytes.clone()).len(), bytes.len());
                prop_assert_eq!(parse(&question.plain()).name, question.name);
            }
        }

        /// Good messages of which some bytes were changed come further into the parser.
        #[test]
        fn changed_bytes_do_not_either(
            changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
            cut in 0..80usize,
        ) {
            let mut bytes = asked("a.web.example.org", A);
            bytes.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]);
            bytes[11] = 1;
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Ok(question) = Question::parse(&bytes, Transport::Udp) {
                let answer = question.answer(&Answer::Addresses(vec![Ipv4Addr::LOCALHOST.into(); 1000]));
                prop_assert!(answer.len() <= MOST_BY_UDP);
                prop_assert!(question.section.len() <= LONGEST_NAME + 4);
                prop_assert!(question.is_answered_by(&answer, (&bytes, question.id)));
            }
        }
    }
}
