//! Answers of servers, as far as an owner of a resolver has to know them that lets only answered addresses be reached.

use crate::name::text;
use std::net::IpAddr;
use std::time::Duration;

const HEADER: usize = 12;
const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const INTERNET: u16 = 1;
/// The two bits of a length by which it is a pointer.
const POINTER: u8 = 0xc0;
/// The most records that are read, and the most aliases that are followed.
const MOST_RECORDS: u16 = 512;
const MOST_ALIASES: usize = 16;

/// An answer of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The names that the name is an alias of, one after another, in lower case; `None` for one that no host can have.
    pub aliases: Vec<Option<String>>,
    /// The addresses of the last of these names, with the lifetime of the answer.
    pub addresses: Vec<(IpAddr, Duration)>,
}

/// A record of an answer.
struct Record<'a> {
    owner: Option<String>,
    kind: u16,
    lifetime: u32,
    data: &'a [u8],
    /// Where the data are in the message.
    at: usize,
}

impl Heard {
    /// Reads the answer about a name; `None` of a message that is broken.
    pub(crate) fn read(message: &[u8], name: &str) -> Option<Self> {
        let (questions, answers) = (word(message, 4)?, word(message, 6)?);
        let mut at = HEADER;
        for _ in 0..questions {
            at = name_at(message, at)?.1 + 4;
        }
        let mut records = Vec::new();
        for _ in 0..answers.min(MOST_RECORDS) {
            let (record, end) = record_at(message, at)?;
            records.extend(record);
            at = end;
        }
        let (mut heard, mut current, mut shortest) = (Self::default(), Some(name.to_owned()), u32::MAX);
        for _ in 0..=MOST_ALIASES {
            let is_alias = |record: &&Record<'_>| record.kind == CNAME && record.owner == current;
            let Some(record) = records.iter().find(is_alias) else {
                break;
            };
            if heard.aliases.len() == MOST_ALIASES {
                return None;
            }
            shortest = shortest.min(record.lifetime);
            current = name_at(message, record.at)?.0;
            heard.aliases.push(current.clone());
        }
        // A name that no host can have has no addresses.
        let of_name = records
            .iter()
            .filter(|record| record.owner == current && current.is_some());
        for record in of_name {
            let address: Option<IpAddr> = match record.kind {
                A => <[u8; 4]>::try_from(record.data).ok().map(IpAddr::from),
                AAAA => <[u8; 16]>::try_from(record.data).ok().map(IpAddr::from),
                _ => continue,
            };
            let lifetime = Duration::from_secs(record.lifetime.min(shortest).into());
            heard.addresses.push((address?, lifetime));
        }
        Some(heard)
    }
}

/// The record at a place, unless it is of another class, and where it ends.
fn record_at(message: &[u8], at: usize) -> Option<(Option<Record<'_>>, usize)> {
    let (owner, at) = name_at(message, at)?;
    let (kind, class) = (word(message, at)?, word(message, at + 2)?);
    let lifetime = u32::from(word(message, at + 4)?) << 16 | u32::from(word(message, at + 6)?);
    let length = usize::from(word(message, at + 8)?);
    let begin = at + 10;
    let data = message.get(begin..begin + length)?;
    let record = Record {
        owner,
        kind,
        // Negative ones are 0 (RFC 2181).
        lifetime: if lifetime > u32::MAX >> 1 { 0 } else { lifetime },
        data,
        at: begin,
    };
    Some((Some(record).filter(|_| class == INTERNET), begin + length))
}

/// The name at a place, `None` for one that no host can have, and where it ends. Each pointer leads further back than the last,
/// so that there is an end.
fn name_at(message: &[u8], start: usize) -> Option<(Option<String>, usize)> {
    let (mut labels, mut at, mut end, mut bound, mut length) = (Vec::new(), start, None, start, 0);
    loop {
        let byte = *message.get(at)?;
        if byte & POINTER == POINTER {
            let to = usize::from(word(message, at)? & 0x3fff);
            end = end.or(Some(at + 2));
            if to >= bound {
                return None;
            }
            (at, bound) = (to, to);
            continue;
        }
        if byte & POINTER != 0 {
            return None;
        }
        at += 1;
        if byte == 0 {
            return Some((text(&labels), end.unwrap_or(at)));
        }
        let label = message.get(at..at + usize::from(byte))?;
        length += label.len() + 1;
        if length > 254 {
            return None;
        }
        labels.push(label);
        at += label.len();
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.get(..2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message with a question about `a.test` and these records: a name's bytes, the kind, the lifetime and the data.
    fn answer(records: &[(&[u8], u16, u32, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0, 1, 0x81, 0x80, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
        bytes.extend(b"\x01a\x04test\0\0\x01\0\x01");
        for (name, kind, lifetime, data) in records {
            bytes.extend(*name);
            bytes.extend(kind.to_be_bytes());
            bytes.extend([0, 1]);
            bytes.extend(lifetime.to_be_bytes());
            bytes.extend((data.len() as u16).to_be_bytes());
            bytes.extend(*data);
        }
        bytes
    }

    const QUESTION: &[u8] = &[0xc0, 12];

    #[test]
    fn addresses_have_the_lifetime_of_the_answer() {
        let bytes = answer(&[
            (b"\x01A\x04tesT\0", A, 60, &[192, 0, 2, 1]),
            (QUESTION, AAAA, 0x8000_0001, &[1; 16]),
            (b"\x05other\0", A, 60, &[192, 0, 2, 9]),
        ]);
        let heard = Heard::read(&bytes, "a.test").unwrap();
        let expected: [(IpAddr, _); 2] = [
            ([192, 0, 2, 1].into(), Duration::from_secs(60)),
            ([1; 16].into(), Duration::ZERO),
        ];
        assert_eq!((heard.aliases, &heard.addresses[..]), (vec![], &expected[..]));
    }

    #[test]
    fn aliases_are_followed_in_whatever_order_they_come() {
        let bytes = answer(&[
            (b"\x01c\x04test\0", A, 60, &[192, 0, 2, 1]),
            (b"\x01b\xc0\x0e", CNAME, 5, b"\x01c\xc0\x0e"),
            (QUESTION, CNAME, 30, b"\x01b\xc0\x0e"),
        ]);
        let heard = Heard::read(&bytes, "a.test").unwrap();
        assert_eq!(
            heard.aliases,
            [Some("b.test".to_owned()), Some("c.test".to_owned())]
        );
        assert_eq!(heard.addresses, [([192, 0, 2, 1].into(), Duration::from_secs(5))]);
        let strange = answer(&[(QUESTION, CNAME, 30, b"\x01 \0"), (b"\x01 \0", A, 9, &[1; 4])]);
        let heard = Heard::read(&strange, "a.test").unwrap();
        assert_eq!((heard.aliases, heard.addresses), (vec![None], vec![]));
    }

    #[test]
    fn circles_and_broken_messages_are_no_answers() {
        let circle = answer(&[(QUESTION, CNAME, 30, QUESTION)]);
        assert_eq!(Heard::read(&circle, "a.test"), None);
        // A pointer to itself, one forward, and data that end too early.
        let to_itself = answer(&[(&[0xc0, 24], A, 1, &[1; 4])]);
        assert_eq!(Heard::read(&to_itself, "a.test"), None);
        let forward = answer(&[(&[0xc0, 40], A, 1, &[1; 4])]);
        assert_eq!(Heard::read(&forward, "a.test"), None);
        let short = answer(&[(QUESTION, A, 1, &[1; 3])]);
        assert_eq!(Heard::read(&short, "a.test"), None);
        let whole = answer(&[(QUESTION, A, 1, &[1; 4])]);
        for length in 0..whole.len() {
            assert_eq!(Heard::read(&whole[..length], "a.test"), None, "{length}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6),
        ) {
            let _ = Heard::read(&bytes, "a.test");
            let mut bytes = answer(&[(QUESTION, CNAME, 30, b"\x01b\xc0\x0e"), (b"\x01b\xc0\x0e", A, 60, &[1; 4])]);
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let heard = Heard::read(&bytes, "a.test").unwrap_or_default();
            prop_assert!(heard.aliases.len() <= MOST_ALIASES);
        }
    }
}
