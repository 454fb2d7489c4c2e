//! `--expose`: ports on which a container declares to listen.

/// Why a text is not a list of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The text also names a port of the host.
    #[error("invalid port format for --expose: {0}: give PORT[-PORT][/PROTOCOL]; --expose publishes nothing")]
    Published(String),
    /// Not a number, or a number out of the range of ports.
    #[error("invalid range format for --expose: {0}: give a port from 1 to 65535, or two as in 8000-8010")]
    Range(String),
    /// A protocol without ports.
    #[error("invalid proto: {0}: give tcp, udp or sctp")]
    Protocol(String),
}

/// Parses `--expose PORT[-PORT][/PROTOCOL]` into one text for each port, as docker writes it: `80/tcp`.
///
/// # Errors
/// [`PortError`] holds the text.
pub fn parse_expose(text: &str) -> Result<Vec<String>, PortError> {
    if text.contains(':') {
        return Err(PortError::Published(text.to_owned()));
    }
    let (ports, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = match protocol.to_ascii_lowercase().as_str() {
        "" | "tcp" => "tcp",
        "udp" => "udp",
        "sctp" => "sctp",
        _ => return Err(PortError::Protocol(protocol.to_owned())),
    };
    let range = || PortError::Range(text.to_owned());
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let port: Option<u16> = text.parse().ok().filter(|port| digits && *port > 0);
        port.ok_or_else(range)
    };
    let (first, last) = match ports.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(ports)?, number(ports)?),
    };
    if first > last {
        return Err(range());
    }
    Ok((first..=last).map(|port| format!("{port}/{protocol}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_ranges() {
        assert_eq!(parse_expose("80").unwrap(), ["80/tcp"]);
        assert_eq!(parse_expose("53/UDP").unwrap(), ["53/udp"]);
        assert_eq!(parse_expose("7/").unwrap(), ["7/tcp"]);
        assert_eq!(
            parse_expose("8-10/sctp").unwrap(),
            ["8/sctp", "9/sctp", "10/sctp"]
        );
        assert_eq!(parse_expose("1-65535").unwrap().len(), 65535);
        for text in ["", "0", "+1", "65536", "a", "2-1", "1-", "-", "1-2-3", "/tcp"] {
            assert_eq!(
                parse_expose(text),
                Err(PortError::Range(text.to_owned())),
                "{text}"
            );
        }
        assert_eq!(
            parse_expose("80:80"),
            Err(PortError::Published("80:80".to_owned()))
        );
        assert_eq!(parse_expose("80/ip"), Err(PortError::Protocol("ip".to_owned())));
    }
}
