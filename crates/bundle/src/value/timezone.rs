/// Why a text is not a time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {0:?}: give one such as Europe/Berlin, or local")]
pub struct TimezoneError(String);

/// Parses `--tz`: a path that stays below /usr/share/zoneinfo, or `local`; `None` for an empty text.
///
/// # Errors
/// [`TimezoneError`] holds the text.
pub fn parse_timezone(text: &str) -> Result<Option<String>, TimezoneError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
    if text.starts_with('/') || !text.bytes().all(plain) {
        return Err(TimezoneError(text.to_owned()));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::parse_timezone;

    #[test]
    fn zones() {
        assert_eq!(parse_timezone(""), Ok(None));
        for text in ["local", "Etc/GMT+3", "America/Port-au-Prince"] {
            assert_eq!(parse_timezone(text), Ok(Some(text.to_owned())));
        }
        for text in ["/etc/passwd", "../../../etc/passwd", "a b"] {
            assert!(parse_timezone(text).is_err(), "{text}");
        }
    }
}
