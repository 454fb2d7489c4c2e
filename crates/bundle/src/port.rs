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
    let (ports, name) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = protocol(name).ok_or_else(|| PortError::Protocol(name.to_owned()))?;
    let (first, last) = range(ports).ok_or_else(|| PortError::Range(text.to_owned()))?;
    Ok((first..=last).map(|port| format!("{port}/{protocol}")).collect())
}

/// The protocol of that name, in any case; tcp if the text is empty.
pub(crate) fn protocol(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "" | "tcp" => Some("tcp"),
        "udp" => Some("udp"),
        "sctp" => Some("sctp"),
        _ => None,
    }
}

/// Parses `PORT` or `PORT-PORT` into the first and the last port.
pub(crate) fn range(text: &str) -> Option<(u16, u16)> {
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|port: &u16| digits && *port > 0)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
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
