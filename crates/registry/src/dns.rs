//! Host names: `/etc/hosts`, `/etc/resolv.conf`, and the messages of the domain name system (RFC 1035, RFC 3596).
//! All functions are pure; their input may come from an attacker.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Record type `A`, an IPv4 address.
pub(crate) const A: u16 = 1;
/// Record type `AAAA`, an IPv6 address.
pub(crate) const AAAA: u16 = 28;

/// Maximum number of name servers, as in resolv.conf(5).
const SERVERS: usize = 3;

/// Length of a message's header in bytes.
const HEAD: usize = 12;

/// Finds the addresses of a name in a text in the format of hosts(5).
pub(crate) fn hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words
                .any(|word| word.eq_ignore_ascii_case(name))
                .then_some(address)
        })
        .collect()
}

/// Name servers and options of resolv.conf(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvConf {
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) search: Vec<String>,
    /// Number of dots from which on a name is tried as it is before the search list.
    pub(crate) ndots: usize,
    /// Time to wait for one answer.
    pub(crate) timeout: Duration,
    /// Number of rounds through the servers.
    pub(crate) attempts: usize,
}

impl ResolvConf {
    pub(crate) fn parse(text: &str) -> Self {
        let mut conf = Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in text.lines().filter(|line| !line.starts_with(['#', ';'])) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    // An address with a zone is skipped: the zone names a link, and links are not looked up here.
                    if let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) {
                        conf.servers.push(SocketAddr::new(address, 53));
                    }
                }
                Some("search" | "domain") => conf.search = words.map(str::to_owned).collect(),
                Some("options") => words.for_each(|word| conf.option(word)),
                _ => {}
            }
        }
        conf.servers.truncate(SERVERS);
        if conf.servers.is_empty() {
            conf.servers.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53));
        }
        conf
    }

    /// Applies an option, within the limits that resolv.conf(5) gives.
    fn option(&mut self, word: &str) {
        let Some((name, Ok(number))) = word
            .split_once(':')
            .map(|(name, number)| (name, number.parse::<u8>()))
        else {
            return;
        };
        match name {
            "ndots" => self.ndots = usize::from(number.min(15)),
            "timeout" => self.timeout = Duration::from_secs(u64::from(number.clamp(1, 30))),
            "attempts" => self.attempts = usize::from(number.clamp(1, 5)),
            _ => {}
        }
    }

    /// Lists the names to ask for, in this order.
    pub(crate) fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(whole) = name.strip_suffix('.') {
            return vec![whole.to_owned()];
        }
        let below = |domain: &String| format!("{name}.{}", domain.trim_matches('.'));
        let mut names: Vec<String> = self.search.iter().map(below).collect();
        if name.matches('.').count() >= self.ndots {
            names.insert(0, name.to_owned());
        } else {
            names.push(name.to_owned());
        }
        names
    }
}

/// Answer of a name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The addresses; possibly an empty list.
    Addresses(Vec<IpAddr>),
    /// The name does not exist.
    NoName,
    /// The answer does not fit into a datagram.
    Truncated,
    /// The server failed.
    Failed,
}

/// Builds a query with the given id; `None` if the name is not valid in DNS.
pub(crate) fn question(id: u16, name: &str, kind: u16) -> Option<Vec<u8>> {
    let mut message = id.to_be_bytes().to_vec();
    // Recursion desired; one question and no other records.
    message.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    if name.len() > 253 {
        return None;
    }
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok()?;
        if !(1..=63).contains(&length) {
            return None;
        }
        message.push(length);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&kind.to_be_bytes());
    // Class IN.
    message.extend_from_slice(&[0, 1]);
    Some(message)
}

/// Parses an answer to `question`; `None` if the message does not answer it.
pub(crate) fn answer(question: &[u8], message: &[u8]) -> Option<Answer> {
    let [flags, status] = *message.get(2..4)? else {
        return None;
    };
    let same = message.get(..2)? == question.get(..2)?
        && message
            .get(HEAD..question.len())?
            .eq_ignore_ascii_case(question.get(HEAD..)?);
    if !same || flags & 0x80 == 0 || number(message, 4)? != 1 {
        return None;
    }
    if flags & 0x02 != 0 {
        return Some(Answer::Truncated);
    }
    match status & 0x0f {
        0 => {}
        3 => return Some(Answer::NoName),
        _ => return Some(Answer::Failed),
    }
    let kind = number(question, question.len().checked_sub(4)?)?;
    let mut addresses = Vec::new();
    let mut at = question.len();
    for _ in 0..number(message, 6)? {
        at = behind_name(message, at)?;
        let length = usize::from(number(message, at + 8)?);
        let content = message.get(at + 10..at + 10 + length)?;
        // Records of aliases (CNAME) precede those of the final name; they have another type.
        if number(message, at)? == kind {
            addresses.extend(address(content));
        }
        at += 10 + length;
    }
    Some(Answer::Addresses(addresses))
}

fn address(content: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(content) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(content)
        .ok()
        .map(|bytes| Ipv6Addr::from(bytes).into())
}

fn number(message: &[u8], at: usize) -> Option<u16> {
    let bytes = message.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

/// Returns the position after a name, which ends with an empty label or with a pointer to the rest.
fn behind_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_files() {
        let text =
            "127.0.0.1 localhost\n# 1.1.1.1 no\n10.0.0.1\ta.lan B.lan # c.lan\n::1 localhost a.lan\nx y\n";
        let found = |name| {
            hosts(text, name)
                .iter()
                .map(IpAddr::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(found("localhost"), ["127.0.0.1", "::1"]);
        assert_eq!(found("a.lan"), ["10.0.0.1", "::1"]);
        assert_eq!(found("b.LAN"), ["10.0.0.1"]);
        assert!(found("c.lan").is_empty() && found("no").is_empty());
    }

    #[test]
    fn configurations() {
        let conf = ResolvConf::parse(
            "# x\nnameserver 10.0.0.2\nnameserver fe80::1%eth0\nnameserver ::2\nsearch a.lan b.lan.\n\
             options ndots:2 timeout:99 attempts:x edns0\n",
        );
        assert_eq!(
            conf.servers,
            ["10.0.0.2:53".parse().unwrap(), "[::2]:53".parse().unwrap()]
        );
        assert_eq!((conf.ndots, conf.timeout.as_secs(), conf.attempts), (2, 30, 2));
        assert_eq!(conf.candidates("h.x"), ["h.x.a.lan", "h.x.b.lan", "h.x"]);
        assert_eq!(conf.candidates("h.x.y"), ["h.x.y", "h.x.y.a.lan", "h.x.y.b.lan"]);
        assert_eq!(conf.candidates("h.x."), ["h.x"]);
        assert_eq!(ResolvConf::parse("").servers, ["127.0.0.1:53".parse().unwrap()]);
    }

    /// Builds an answer with an alias and two addresses.
    fn message(question: &[u8]) -> Vec<u8> {
        let mut message = question.to_vec();
        message[2] = 0x81;
        message[3] = 0x80;
        message[7] = 3;
        message.extend_from_slice(&[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 3, 1, b'b', 0]);
        for last in [1, 2] {
            message.extend_from_slice(&[1, b'b', 0, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 0, 0, last]);
        }
        message
    }

    #[test]
    fn answers() {
        let question = question(0x1234, "a.lan", A).unwrap();
        let whole = message(&question);
        let addresses = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()].to_vec();
        assert_eq!(answer(&question, &whole), Some(Answer::Addresses(addresses)));
        for (at, byte, expected) in [
            (0, 0, None),
            (2, 0x01, None),
            (14, b'x', None),
            (2, 0x83, Some(Answer::Truncated)),
            (3, 0x83, Some(Answer::NoName)),
            (3, 0x82, Some(Answer::Failed)),
        ] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(answer(&question, &other), expected, "{at} {byte}");
        }
        // No truncated answer is accepted, and none panics.
        for length in 0..whole.len() {
            assert_eq!(answer(&question, &whole[..length]), None, "{length}");
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x40, 0xc0, 0xff] {
                let mut other = whole.clone();
                other[at] = byte;
                drop(answer(&question, &other));
            }
        }
    }

    #[test]
    fn what_is_no_name() {
        for name in ["", ".", "a..b", &"a".repeat(64), &"a.".repeat(130)] {
            assert_eq!(question(1, name, A), None, "{name}");
        }
    }
}
