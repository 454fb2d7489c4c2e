//! `--publish`: ports of a container that the host's ports lead to.

use crate::port::{protocol, range};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Why a text publishes no port; docker's words, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// No port of the container.
    #[error("no port specified: {0}: give [[ADDRESS:][PORT]:]PORT[/PROTOCOL]")]
    NoPort(String),
    /// Neither a number nor a range.
    #[error("invalid {side}Port: {text}: give a port from 1 to 65535, or two as in 8000-8010")]
    Port {
        /// `container` or `host`.
        side: &'static str,
        /// The text.
        text: String,
    },
    /// Ranges that do not fit each other.
    #[error("invalid ranges specified for container and host Ports: {container} and {host}")]
    Ranges {
        /// The container's.
        container: String,
        /// The host's.
        host: String,
    },
    /// A protocol without ports.
    #[error("invalid proto: {0}: give tcp, udp or sctp")]
    Protocol(String),
    /// An invalid address.
    #[error("invalid IP address: {0}")]
    Address(String),
    /// The loopback address of IPv6.
    #[error(
        "cannot publish a port at [::1]: the kernel leads nothing from that address to a container; 127.0.0.1 is for programs of this \
         machine, too"
    )]
    Loopback6,
    /// A part of the long form; docker's words.
    #[error("invalid publish opts format (should be name=value but got '{0}')")]
    Field(String),
}

/// A port of a container that one of the host's is to lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBinding {
    /// The host's address as it was given; `None` is each of them.
    pub address: Option<IpAddr>,
    /// The host's ports of which one is taken, the first and the last; `None` is any that is free.
    pub host: Option<(u16, u16)>,
    /// The container's port.
    pub container: u16,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: &'static str,
}

impl PortBinding {
    /// The container's port as docker writes it: `80/tcp`.
    #[must_use]
    pub fn private(&self) -> String {
        format!("{}/{}", self.container, self.protocol)
    }
}

/// The form that [`parse_publish`] reads: `127.0.0.1:8080:80/tcp`.
impl fmt::Display for PortBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V4(address)) => write!(f, "{address}:")?,
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:")?,
            None => {}
        }
        match self.host {
            Some((first, last)) if first == last => write!(f, "{first}:")?,
            Some((first, last)) => write!(f, "{first}-{last}:")?,
            None if self.address.is_some() => f.write_str(":")?,
            None => {}
        }
        f.write_str(&self.private())
    }
}

/// Parses `--publish [[ADDRESS:][PORT[-PORT]]:]PORT[-PORT][/PROTOCOL]`, or docker's long form
/// `published=PORT,target=PORT,protocol=PROTOCOL`.
///
/// # Errors
/// [`PublishError`] holds the text.
pub fn parse_publish(text: &str) -> Result<Vec<PortBinding>, PublishError> {
    if text.contains('=') {
        return parse_publish(&short_form(text)?);
    }
    let (ports, name) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = protocol(name).ok_or_else(|| PublishError::Protocol(name.to_owned()))?;
    let (before, container) = ports.rsplit_once(':').unwrap_or(("", ports));
    if container.is_empty() {
        return Err(PublishError::NoPort(text.to_owned()));
    }
    let (address, host) = match before.rsplit_once(':') {
        Some((address, host)) => (parse_address(address)?, host),
        None => (None, before),
    };
    let (first, last) = ports_of("container", container)?;
    let count = last - first;
    let host_range = match host {
        "" | "0" => None,
        _ => Some(ports_of("host", host)?),
    };
    // docker's: several ports of the host for one of the container are a choice.
    let fits = host_range.is_none_or(|(low, high)| high - low == count || count == 0);
    if !fits {
        return Err(PublishError::Ranges {
            container: container.to_owned(),
            host: host.to_owned(),
        });
    }
    let one = |port: u16| PortBinding {
        address,
        host: host_range.map(|(low, high)| match count {
            0 => (low, high),
            _ => (low + (port - first), low + (port - first)),
        }),
        container: port,
        protocol,
    };
    Ok((first..=last).map(one).collect())
}

/// The long form in the short one's words.
fn short_form(text: &str) -> Result<String, PublishError> {
    let (mut published, mut target, mut protocol) = ("", "", "tcp");
    for field in text.split(',') {
        let wrong = || PublishError::Field(field.to_owned());
        match field.split_once('=').ok_or_else(wrong)? {
            ("published", value) => published = value,
            ("target", value) => target = value,
            ("protocol", value) => protocol = value,
            _ => return Err(wrong()),
        }
    }
    if [published, target, protocol]
        .iter()
        .any(|value| value.contains('='))
    {
        return Err(PublishError::Field(text.to_owned()));
    }
    Ok(format!("{published}:{target}/{protocol}"))
}

/// The host's address; one of IPv6 is in brackets.
fn parse_address(text: &str) -> Result<Option<IpAddr>, PublishError> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || PublishError::Address(text.to_owned());
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = match bracketed {
        Some(text) => IpAddr::V6(text.parse().map_err(|_| wrong())?),
        None if text.contains(':') => return Err(wrong()),
        None => IpAddr::V4(text.parse().map_err(|_| wrong())?),
    };
    if address == Ipv6Addr::LOCALHOST {
        return Err(PublishError::Loopback6);
    }
    Ok(Some(address))
}

/// Parses the ports of one side.
fn ports_of(side: &'static str, text: &str) -> Result<(u16, u16), PublishError> {
    range(text).ok_or_else(|| PublishError::Port {
        side,
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_written_as_it_is_read() {
        for text in [
            "80/tcp",
            "8080:80/udp",
            "127.0.0.1::80/tcp",
            "[fd00::1]:8080:80/tcp",
            "127.0.0.1:8000-8010:80/sctp",
            "8000-8002:80/tcp",
        ] {
            assert_eq!(parse_publish(text).unwrap()[0].to_string(), text);
        }
    }

    /// `ADDRESS HOST CONTAINER/PROTOCOL`, where `*` is any.
    fn parsed(text: &str) -> Result<Vec<String>, PublishError> {
        let show = |binding: &PortBinding| {
            let address = binding
                .address
                .map_or("*".to_owned(), |address| address.to_string());
            let host = match binding.host {
                None => "*".to_owned(),
                Some((first, last)) if first == last => first.to_string(),
                Some((first, last)) => format!("{first}-{last}"),
            };
            format!("{address} {host} {}", binding.private())
        };
        parse_publish(text).map(|all| all.iter().map(show).collect())
    }

    #[test]
    fn ports_addresses_and_ranges() {
        for (text, expected) in [
            ("80", &["* * 80/tcp"][..]),
            ("8080:80", &["* 8080 80/tcp"]),
            ("8080:80/UDP", &["* 8080 80/udp"]),
            (":80", &["* * 80/tcp"]),
            ("0:80", &["* * 80/tcp"]),
            ("127.0.0.1:8080:80", &["127.0.0.1 8080 80/tcp"]),
            ("127.0.0.1::80/sctp", &["127.0.0.1 * 80/sctp"]),
            ("0.0.0.0:80:80", &["0.0.0.0 80 80/tcp"]),
            ("[fd00::1]:8080:80", &["fd00::1 8080 80/tcp"]),
            ("[::]::80/udp", &[":: * 80/udp"]),
            ("80-81", &["* * 80/tcp", "* * 81/tcp"]),
            ("8000-8001:80-81", &["* 8000 80/tcp", "* 8001 81/tcp"]),
            ("8000-8010:80", &["* 8000-8010 80/tcp"]),
            ("published=8080,target=80,protocol=udp", &["* 8080 80/udp"]),
            ("target=80", &["* * 80/tcp"]),
        ] {
            assert_eq!(parsed(text).unwrap(), expected, "{text}");
        }
        assert_eq!(parse_publish("1-65535:1-65535").unwrap().len(), 65535);
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, words) in [
            ("", "no port specified"),
            ("8080:", "no port specified"),
            ("127.0.0.1:8080:", "no port specified"),
            ("0", "invalid containerPort: 0"),
            ("65536", "invalid containerPort: 65536"),
            ("80x:80", "invalid hostPort: 80x"),
            ("82-80:80", "invalid hostPort: 82-80"),
            ("+80:80", "invalid hostPort: +80"),
            ("8000-8002:80-81", "invalid ranges specified"),
            ("80/ip", "invalid proto: ip"),
            ("localhost:80:80", "invalid IP address: localhost"),
            ("[::1]:80:80", "[::1]"),
            ("::1:80:80", "invalid IP address: ::1"),
            ("[10.0.0.1]:80:80", "invalid IP address"),
            ("[fd00::1:80:80", "invalid IP address"),
            ("target=80,color=red", "invalid publish opts"),
            ("target=80,published", "invalid publish opts"),
            ("target=8=0", "invalid publish opts"),
        ] {
            let error = parse_publish(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }
}
