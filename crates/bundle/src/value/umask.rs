/// Why a text is not a umask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid umask {0}: give an octal number up to 0777, such as 0027")]
pub struct UmaskError(String);

/// Parses `--umask`: octal digits.
///
/// # Errors
/// [`UmaskError`] holds the text.
pub fn parse_umask(text: &str) -> Result<u32, UmaskError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let mask = u32::from_str_radix(text, 8)
        .ok()
        .filter(|mask| digits && *mask <= 0o777);
    mask.ok_or_else(|| UmaskError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::parse_umask;

    #[test]
    fn umasks() {
        assert_eq!(parse_umask("0027"), Ok(0o27));
        assert_eq!(parse_umask("777"), Ok(0o777));
        for text in ["", "8", "1777", "+7", "-1", "x"] {
            assert!(parse_umask(text).is_err(), "{text}");
        }
    }
}
