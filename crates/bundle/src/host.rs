//! `--hostname`, `--add-host`, `--dns` and their kin: the names of a container, and how it resolves those of
//! others.

use crate::value::{BooleanError, parse_boolean};
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::str::FromStr;

/// Options of `run` about names and their resolution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostOptions {
    /// `--hostname`
    pub hostname: Option<String>,
    /// `--domainname`; empty if not given.
    pub domainname: String,
    /// `--add-host`
    pub added: Vec<HostEntry>,
    /// `--link`
    pub links: Vec<ContainerAlias>,
    /// `--no-hosts`: `/etc/hosts` stays the image's.
    pub no_hosts: bool,
    /// `--dns`
    pub dns: Vec<IpAddr>,
    /// podman's `--dns none`: `/etc/resolv.conf` stays the image's.
    pub no_dns: bool,
    /// `--dns-search`; `.` stands for an empty list.
    pub dns_search: Vec<String>,
    /// `--dns-option`
    pub dns_options: Vec<String>,
}

impl HostOptions {
    /// Applies the option; returns whether its name belongs to this group.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<bool, HostError> {
        match name {
            "hostname" => self.hostname = (!value.is_empty()).then(|| parse_hostname(value)).transpose()?,
            "domainname" => self.domainname = parse_domain_name(value)?,
            "add-host" => self.added.push(value.parse()?),
            "link" => self.links.push(value.parse()?),
            "no-hosts" => self.no_hosts = parse_boolean(value)?,
            "dns" if value == "none" => self.no_dns = true,
            "dns" => self.dns.push(parse_dns(value)?),
            "dns-search" => self.dns_search.push(parse_search(value)?),
            "dns-option" => self.dns_options.push(parse_resolver_option(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A value of `--add-host NAME:ADDRESS`: a line for the container's hosts(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// The name.
    pub name: String,
    /// Its address.
    pub address: HostAddress,
}

/// A value of `--link CONTAINER[:ALIAS]`: a container, and what this one calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerAlias {
    /// Name or id of the other container.
    pub container: String,
    /// The name here.
    pub alias: String,
}

/// The address of a [`HostEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAddress {
    /// The address as written.
    Ip(IpAddr),
    /// `host-gateway`: this machine, as seen from the container.
    Gateway,
}

/// Why a text is refused as the name or address of a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The text is neither true nor false.
    #[error(transparent)]
    Boolean(#[from] BooleanError),
    /// No name, no address, or a name that would break the file.
    #[error("bad format for add-host: {0:?}: give NAME:ADDRESS, such as db:10.0.0.7")]
    Entry(String),
    /// No container, or a name that would break the file.
    #[error("bad format for links: {0:?}: give CONTAINER or CONTAINER:ALIAS, such as web:www")]
    Link(String),
    /// Not an address.
    #[error(
        "invalid IP address in add-host: {0:?}: give NAME:ADDRESS, such as db:10.0.0.7, or NAME:host-gateway"
    )]
    Address(String),
    /// Not an address.
    #[error("{0} is not an ip address: give one such as 10.0.0.1")]
    Dns(String),
    /// Not a name that hostname(7) allows.
    #[error("invalid hostname format: {0}: give at most 64 letters, digits, '.', '-' and '_'")]
    Hostname(String),
    /// Not a name that a domain can have here.
    #[error("invalid domainname format: {0}: give at most 64 letters, digits, '.', '-' and '_'")]
    Domainname(String),
    /// Not a domain to search.
    #[error("{0} is not a valid domain: give one such as example.com, or . for none")]
    Search(String),
    /// More than one word.
    #[error("{0:?} is not an option of the resolver: give one word such as ndots:2, see resolv.conf(5)")]
    ResolverOption(String),
}

impl FromStr for HostEntry {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let (name, address) = text
            .split_once('=')
            .or_else(|| text.split_once(':'))
            .filter(|(name, _)| {
                !name.is_empty() && !name.contains(|c: char| c == ':' || c.is_whitespace() || c == '#')
            })
            .ok_or_else(|| HostError::Entry(text.to_owned()))?;
        let address = match address {
            "host-gateway" => HostAddress::Gateway,
            _ => {
                let bare = address
                    .strip_prefix('[')
                    .and_then(|rest| rest.strip_suffix(']'))
                    .unwrap_or(address);
                HostAddress::Ip(bare.parse().map_err(|_| HostError::Address(bare.to_owned()))?)
            }
        };
        Ok(Self {
            name: name.to_owned(),
            address,
        })
    }
}

impl FromStr for ContainerAlias {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let (container, alias) = text.split_once(':').unwrap_or((text, text));
        // docker's clients of old give names with a slash.
        let bare = |name: &str| name.strip_prefix('/').unwrap_or(name).to_owned();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let (container, alias) = (bare(container), bare(alias));
        let fits = |name: &str| !name.is_empty() && name.bytes().all(plain);
        if !fits(&container) || !fits(&alias) {
            return Err(HostError::Link(text.to_owned()));
        }
        Ok(Self { container, alias })
    }
}

/// docker's form, `db:mysql`.
impl Display for ContainerAlias {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.container, self.alias)
    }
}

/// Parses `--dns`.
///
/// # Errors
/// [`HostError::Dns`] holds the text.
pub fn parse_dns(text: &str) -> Result<IpAddr, HostError> {
    text.trim().parse().map_err(|_| HostError::Dns(text.to_owned()))
}

/// Checks `--hostname`: what sethostname(2) takes, and nothing that would break hosts(5).
///
/// # Errors
/// [`HostError::Hostname`] holds the text.
pub fn parse_hostname(text: &str) -> Result<String, HostError> {
    let fits = (1..=64).contains(&text.len());
    if fits
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
    {
        Ok(text.to_owned())
    } else {
        Err(HostError::Hostname(text.to_owned()))
    }
}

/// Checks `--domainname`: a name that setdomainname(2) takes, without characters that would break hosts(5).
fn parse_domain_name(text: &str) -> Result<String, HostError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if text.len() <= 64 && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(HostError::Domainname(text.to_owned()))
    }
}

/// Checks `--dns-search` by docker's rule: labels of letters, digits and inner dashes, at least one letter, or `.`
/// alone.
fn parse_search(text: &str) -> Result<String, HostError> {
    let domain = text.trim_matches(' ');
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(plain) && !label.starts_with('-') && !label.ends_with('-')
    };
    let labels = domain.strip_suffix('.').unwrap_or(domain);
    let has_letter = domain.bytes().any(|byte| byte.is_ascii_alphabetic());
    if domain == "." || (has_letter && domain.len() < 255 && labels.split('.').all(label)) {
        Ok(domain.to_owned())
    } else {
        Err(HostError::Search(text.to_owned()))
    }
}

/// Checks `--dns-option`: any single word, because the resolver defines which it knows.
fn parse_resolver_option(text: &str) -> Result<String, HostError> {
    let plain = |byte: u8| byte.is_ascii_graphic();
    if !text.is_empty() && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(HostError::ResolverOption(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_and_resolver_options() {
        let mut options = HostOptions::default();
        for (name, value) in [
            ("domainname", "example.com"),
            ("dns-search", "."),
            ("dns-search", "corp.example.com."),
            ("dns-option", "ndots:2"),
            ("no-hosts", "true"),
        ] {
            assert_eq!(options.apply(name, value), Ok(true), "--{name} {value}");
        }
        assert!(options.no_hosts && options.domainname == "example.com");
        assert_eq!(options.dns_search, [".", "corp.example.com."]);
        assert_eq!(options.dns_options, ["ndots:2"]);
        for (name, value) in [
            ("domainname", "a b"),
            ("domainname", "a\nb"),
            ("dns-search", ""),
            ("dns-search", "-a.b"),
            ("dns-search", "a..b"),
            ("dns-search", "10.0.0.1"),
            ("dns-search", "a b"),
            ("dns-option", ""),
            ("dns-option", "a\nnameserver 1.2.3.4"),
        ] {
            assert!(options.apply(name, value).is_err(), "--{name} {value}");
        }
        assert_eq!(options.apply("memory", "1g"), Ok(false));
    }

    #[test]
    fn entries() {
        for (text, name, address) in [
            ("db:10.0.0.7", "db", "10.0.0.7"),
            ("db=10.0.0.7", "db", "10.0.0.7"),
            ("db:::1", "db", "::1"),
            ("db:[::1]", "db", "::1"),
            ("db=::1", "db", "::1"),
        ] {
            let entry: HostEntry = text.parse().unwrap();
            assert_eq!(
                (&*entry.name, entry.address),
                (name, HostAddress::Ip(address.parse().unwrap()))
            );
        }
        assert_eq!(
            "h:host-gateway".parse::<HostEntry>().unwrap().address,
            HostAddress::Gateway
        );
        for text in ["", "db", ":1.2.3.4", "a b:1.2.3.4", "a\nb:1.2.3.4", "a:b=1.2.3.4"] {
            assert_eq!(text.parse::<HostEntry>(), Err(HostError::Entry(text.to_owned())));
        }
        for text in ["db:", "db:1.2.3", "db:1.2.3.4.5", "db:[::1"] {
            assert!(
                matches!(text.parse::<HostEntry>(), Err(HostError::Address(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn links() {
        for (text, container, alias) in [
            ("db", "db", "db"),
            ("db:mysql", "db", "mysql"),
            ("/db:/my.sql", "db", "my.sql"),
        ] {
            let link: ContainerAlias = text.parse().unwrap();
            assert_eq!((&*link.container, &*link.alias), (container, alias), "{text}");
            assert_eq!(link.to_string().parse(), Ok(link), "{text}");
        }
        for text in ["", ":a", "a:", "a:b:c", "a b", "a:b\nc", "a:b#c", "a/b"] {
            let refused = Err(HostError::Link(text.to_owned()));
            assert_eq!(text.parse::<ContainerAlias>(), refused, "{text}");
        }
    }

    #[test]
    fn names_and_servers() {
        assert_eq!(
            parse_hostname("web-1.example_x").as_deref(),
            Ok("web-1.example_x")
        );
        for text in ["", "a b", "a\nb", "a/b", "é", &"x".repeat(65)] {
            assert!(parse_hostname(text).is_err(), "{text}");
        }
        assert!(
            parse_dns("8.8.8.8").is_ok() && parse_dns("::1").is_ok() && parse_dns("dns.example").is_err()
        );
    }
}
