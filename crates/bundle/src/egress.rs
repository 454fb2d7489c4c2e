//! `--egress`: where a container may connect.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The most destinations of a policy.
const MOST_ENTRIES: usize = 4096;
/// The most addresses and networks that a policy names: each is a rule.
const MOST_RANGES: usize = 256;
/// The most different pairs of a protocol and a port that names of a policy have: each has sets of its own.
const MOST_SERVICES: usize = 32;
/// The longest name of DNS, and the longest label in one.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// Why a text is not a value of `--egress`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// Neither a list nor one of the words.
    #[error(
        "a policy is allow:NAME,*.NAME,ADDRESS,NETWORK/PREFIX,…, each with :PORT behind it and tcp:, udp: or sctp: before it if need be, \
         @FILE with a list, none, or log"
    )]
    Form,
    /// An entry of a list.
    #[error(
        "{0:?} is no destination: give a name such as example.org or *.example.org, an address, or a network such as 10.1.0.0/16"
    )]
    Entry(String),
    /// An entry's port.
    #[error("{0:?} is no destination: its port is a number from 1 to 65535")]
    Port(String),
    /// A network with bits behind its prefix.
    #[error("{written:?} is no network: it should be {network}/{prefix}")]
    HostBits {
        /// The text.
        written: String,
        /// The network's address.
        network: IpAddr,
        /// The length of its prefix.
        prefix: u8,
    },
    /// Two kinds of policies.
    #[error("log allows everything: it cannot be combined with a list")]
    LogAndList,
    /// Too long a list.
    #[error("a policy has at most {MOST_ENTRIES} destinations: give wildcards and larger networks")]
    ManyEntries,
    /// Too many rules.
    #[error("a policy names at most {MOST_RANGES} addresses and networks: give larger networks")]
    ManyRanges,
    /// Too many ports.
    #[error("names of a policy have at most {MOST_SERVICES} different ports and protocols")]
    ManyServices,
}

/// Where a container may connect: nowhere but to these destinations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    /// The destinations.
    pub entries: Vec<EgressEntry>,
    /// True if it may connect everywhere, and destinations are noted.
    pub log: bool,
    /// Files with lists, as written; the caller reads each and gives its text to [`EgressPolicy::add_file`].
    pub files: Vec<String>,
}

/// A protocol and a port, each of which may be any.
pub type EgressService = (Option<&'static str>, Option<u16>);

/// A destination of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressEntry {
    /// The name or the addresses.
    pub target: EgressTarget,
    /// The protocol, and the port.
    pub service: EgressService,
}

/// Name or addresses of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EgressTarget {
    /// A name of DNS, in lower case and without a dot at its end.
    Name {
        /// The name; of a wildcard what is behind `*.`.
        name: String,
        /// True of `*.NAME`, which is all names below that one and not the name itself.
        is_wildcard: bool,
        /// True of `alias:NAME`: the name may be an alias (CNAME) of any other one.
        is_alias: bool,
    },
    /// An address, or a network.
    Range {
        /// The address, whose bits behind the prefix are zero.
        address: IpAddr,
        /// The length of the prefix, in bits.
        prefix: u8,
    },
}

impl EgressPolicy {
    /// Adds another value of the option.
    pub(crate) fn add(&mut self, value: &str) -> Result<(), EgressError> {
        match value {
            "none" => {}
            "log" => self.log = true,
            _ => match (value.strip_prefix("allow:"), value.strip_prefix('@')) {
                (Some(list), _) if !list.is_empty() => self.add_list(list)?,
                (_, Some(file)) if !file.is_empty() => self.files.push(file.to_owned()),
                _ => return Err(EgressError::Form),
            },
        }
        self.check()?;
        if self.log && !(self.entries.is_empty() && self.files.is_empty()) {
            return Err(EgressError::LogAndList);
        }
        Ok(())
    }

    /// Adds the lists of a file, one or several destinations a line; `#` begins a comment.
    ///
    /// # Errors
    /// [`EgressError`].
    pub fn add_file(&mut self, text: &str) -> Result<(), EgressError> {
        for line in text.lines() {
            let list = line.split('#').next().unwrap_or_default();
            let words = list.split_whitespace();
            for word in words {
                self.add_list(word)?;
            }
        }
        self.check()
    }

    fn add_list(&mut self, list: &str) -> Result<(), EgressError> {
        for text in list.split(',').filter(|text| !text.is_empty()) {
            let entry: EgressEntry = text.parse()?;
            if !self.entries.contains(&entry) {
                self.entries.push(entry);
            }
        }
        if self.entries.len() > MOST_ENTRIES {
            return Err(EgressError::ManyEntries);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), EgressError> {
        let is_range = |entry: &&EgressEntry| matches!(entry.target, EgressTarget::Range { .. });
        if self.entries.iter().filter(is_range).count() > MOST_RANGES {
            return Err(EgressError::ManyRanges);
        }
        if self.services().len() > MOST_SERVICES {
            return Err(EgressError::ManyServices);
        }
        Ok(())
    }

    /// The different protocols and ports of its names.
    #[must_use]
    pub fn services(&self) -> Vec<EgressService> {
        let mut services = Vec::new();
        for entry in &self.entries {
            if matches!(entry.target, EgressTarget::Name { .. }) && !services.contains(&entry.service) {
                services.push(entry.service);
            }
        }
        services
    }

    /// The entries that name a name, which is in lower case.
    pub fn entries_of(&self, name: &str) -> impl Iterator<Item = &EgressEntry> {
        self.entries.iter().filter(move |entry| match &entry.target {
            EgressTarget::Name {
                name: own,
                is_wildcard: false,
                ..
            } => name == own,
            EgressTarget::Name { name: own, .. } => name
                .strip_suffix(own.as_str())
                .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
            EgressTarget::Range { .. } => false,
        })
    }
}

impl fmt::Display for EgressPolicy {
    /// The value of the option that means the same; the files were read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.log {
            return f.write_str("log");
        }
        if self.entries.is_empty() {
            return f.write_str("none");
        }
        let entries: Vec<_> = self.entries.iter().map(ToString::to_string).collect();
        write!(f, "allow:{}", entries.join(","))
    }
}

impl FromStr for EgressEntry {
    type Err = EgressError;

    fn from_str(text: &str) -> Result<Self, EgressError> {
        let (is_alias, rest) = match text.strip_prefix("alias:") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let protocols = ["tcp", "udp", "sctp"].into_iter();
        let mut given =
            protocols.filter_map(|name| Some((name, rest.strip_prefix(name)?.strip_prefix(':')?)));
        let (protocol, rest) = match given.next() {
            Some((name, rest)) => (Some(name), rest),
            None => (None, rest),
        };
        let entry = || EgressError::Entry(text.to_owned());
        let (host, port) = parts(rest).ok_or_else(entry)?;
        let number = |port: &str| {
            let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
            port.parse()
                .ok()
                .filter(|port| is_number && *port > 0)
                .ok_or_else(|| EgressError::Port(text.to_owned()))
        };
        let port = port.map(number).transpose()?;
        let target = match range(host) {
            Some(range) if !is_alias => {
                let (address, prefix) = range.map_err(|()| entry())?;
                let network = network(address, prefix);
                if network != address {
                    let written = host.to_owned();
                    return Err(EgressError::HostBits {
                        written,
                        network,
                        prefix,
                    });
                }
                EgressTarget::Range { address, prefix }
            }
            _ => named(host, is_alias).ok_or_else(entry)?,
        };
        Ok(Self {
            target,
            service: (protocol, port),
        })
    }
}

/// A host, and the port behind it. Addresses of IPv6 have a port only behind brackets.
fn parts(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, behind) = rest.split_once(']')?;
        return match behind {
            "" => Some((host, None)),
            _ => Some((host, Some(behind.strip_prefix(':')?))),
        };
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

/// An address and the length of its prefix; `None` of a text that is neither an address nor a network.
fn range(host: &str) -> Option<Result<(IpAddr, u8), ()>> {
    let (address, prefix) = match host.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (host, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return prefix.map(|_| Err(()));
    };
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let Some(text) = prefix else {
        return Some(Ok((address, whole)));
    };
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let prefix = text.parse().ok().filter(|prefix| is_number && *prefix <= whole);
    Some(prefix.map(|prefix| (address, prefix)).ok_or(()))
}

/// The address without the bits behind the prefix.
fn network(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

fn named(host: &str, is_alias: bool) -> Option<EgressTarget> {
    let (is_wildcard, name) = match host.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, host),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    let is_label = |label: &str| (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(is_letter);
    // A name that ends in a number is an address in a wrong form.
    let last = name.rsplit('.').next()?;
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = name.len() <= LONGEST_NAME && name.split('.').all(is_label) && !is_number;
    is_name.then(|| EgressTarget::Name {
        name: name.to_ascii_lowercase(),
        is_wildcard,
        is_alias,
    })
}

impl fmt::Display for EgressEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (protocol, port) = self.service;
        let before = protocol.map(|name| format!("{name}:")).unwrap_or_default();
        let behind = port.map(|port| format!(":{port}")).unwrap_or_default();
        match &self.target {
            EgressTarget::Name {
                name,
                is_wildcard,
                is_alias,
            } => {
                let alias = if *is_alias { "alias:" } else { "" };
                let star = if *is_wildcard { "*." } else { "" };
                write!(f, "{alias}{before}{star}{name}{behind}")
            }
            EgressTarget::Range { address, prefix } => {
                let whole = if address.is_ipv4() { 32 } else { 128 };
                let range = if *prefix == whole {
                    address.to_string()
                } else {
                    format!("{address}/{prefix}")
                };
                match (address, port) {
                    (IpAddr::V6(_), Some(_)) => write!(f, "{before}[{range}]{behind}"),
                    _ => write!(f, "{before}{range}{behind}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policy(values: &[&str]) -> Result<EgressPolicy, EgressError> {
        let mut policy = EgressPolicy::default();
        for value in values {
            policy.add(value)?;
        }
        Ok(policy)
    }

    #[test]
    fn lists_read_back() {
        for (values, expected) in [
            (&["allow:example.org"][..], "allow:example.org"),
            (&["allow:Example.ORG.:443"], "allow:example.org:443"),
            (
                &["allow:*.a.example,10.1.0.0/16", "allow:tcp:git.example.org:22"],
                "allow:*.a.example,10.1.0.0/16,tcp:git.example.org:22",
            ),
            (&["allow:alias:udp:*.b.example"], "allow:alias:udp:*.b.example"),
            (&["allow:10.0.0.1:80,10.0.0.1/32:80"], "allow:10.0.0.1:80"),
            (
                &["allow:2001:db8::1,[2001:db8::/32]:443,tcp:[2001:db8::2]:22"],
                "allow:2001:db8::1,[2001:db8::/32]:443,tcp:[2001:db8::2]:22",
            ),
            (&["none"], "none"),
            (&["log"], "log"),
        ] {
            let read = policy(values).unwrap();
            assert_eq!(read.to_string(), expected);
            assert_eq!(policy(&[expected]).unwrap(), read);
        }
    }

    #[test]
    fn wrong_values_say_what_would_be_right() {
        for (value, words) in [
            ("", "allow:NAME"),
            ("allow:", "allow:NAME"),
            ("@", "allow:NAME"),
            ("example.org", "allow:NAME"),
            ("allow:*", "\"*\" is no destination"),
            ("allow:a.*.org", "no destination"),
            ("allow:10.1.0.1/16", "it should be 10.1.0.0/16"),
            ("allow:10.1.0", "no destination"),
            ("allow:10.1.0.0/33", "no destination"),
            ("allow:10.1.0.0/+8", "no destination"),
            ("allow:example.org/8", "no destination"),
            ("allow:example.org:0", "its port"),
            ("allow:example.org:http", "its port"),
            ("allow:example.org:70000", "its port"),
            ("allow:https://example.org", "no destination"),
            ("allow:a..b", "no destination"),
            ("allow:alias:10.0.0.1", "no destination"),
        ] {
            let error = policy(&[value]).unwrap_err().to_string();
            assert!(error.contains(words), "{value}: {error}");
        }
        assert_eq!(policy(&["log", "allow:a.b"]), Err(EgressError::LogAndList));
        let many = |entry: &dyn Fn(usize) -> String| {
            let entries: Vec<_> = (0..300).map(entry).collect();
            policy(&[&format!("allow:{}", entries.join(","))])
        };
        assert_eq!(
            many(&|n| format!("10.0.{}.{}", n / 256, n % 256)),
            Err(EgressError::ManyRanges)
        );
        assert_eq!(
            many(&|n| format!("a.example:{}", n + 1)),
            Err(EgressError::ManyServices)
        );
        assert!(many(&|n| format!("a{n}.example")).is_ok());
    }

    #[test]
    fn files_have_comments() {
        let mut policy = EgressPolicy::default();
        policy
            .add_file("# all\n a.example b.example:80 # two\n\n10.0.0.0/8,c.example\n")
            .unwrap();
        assert_eq!(
            policy.to_string(),
            "allow:a.example,b.example:80,10.0.0.0/8,c.example"
        );
        assert!(policy.add_file("a b/c").is_err());
    }

    #[test]
    fn a_wildcard_is_what_is_below() {
        let policy = policy(&["allow:*.example.org:443,example.net,tcp:www.example.org"]).unwrap();
        let services = |name: &str| {
            policy
                .entries_of(name)
                .map(|entry| entry.service)
                .collect::<Vec<_>>()
        };
        assert_eq!(services("a.example.org"), [(None, Some(443))]);
        assert_eq!(services("a.b.example.org").len(), 1);
        assert_eq!(services("www.example.org").len(), 2);
        assert_eq!(services("example.net"), [(None, None)]);
        for other in [
            "example.org",
            "badexample.org",
            ".example.org",
            "a.example.net",
            "a.example.org.evil.example",
            "",
        ] {
            assert!(services(other).is_empty(), "{other}");
        }
        assert_eq!(policy.services().len(), 3);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}", list in "[-a-z0-9*.:/,\\[\\]]{0,40}") {
            for value in [text, format!("allow:{list}")] {
                if let Ok(read) = policy(&[&value]) && read.files.is_empty() {
                    prop_assert_eq!(policy(&[&read.to_string()]).unwrap(), read);
                }
            }
        }
    }
}
