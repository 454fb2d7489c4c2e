use std::ops::RangeInclusive;

/// Why a text is not a number that the option takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a whole number from {least} to {most}")]
pub struct IntegerError {
    /// The least number allowed.
    pub least: i64,
    /// The greatest number allowed.
    pub most: i64,
}

/// Parses a decimal whole number within `range`.
///
/// # Errors
/// [`IntegerError`] names the range.
pub fn parse_integer(text: &str, range: RangeInclusive<i64>) -> Result<i64, IntegerError> {
    text.parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or(IntegerError {
            least: *range.start(),
            most: *range.end(),
        })
}

/// Parses a whole number from 0 to `most`.
pub(crate) fn parse_unsigned(text: &str, most: i64) -> Result<u64, IntegerError> {
    parse_integer(text, 0..=most).map(i64::unsigned_abs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_and_outside() {
        assert_eq!(parse_integer("-1000", -1000..=1000), Ok(-1000));
        assert_eq!(parse_integer("+7", 0..=7), Ok(7));
        for text in ["", "1001", "-1001", "1.5", "0x10", "99999999999999999999"] {
            let error = parse_integer(text, -1000..=1000).unwrap_err();
            assert_eq!((error.least, error.most), (-1000, 1000), "{text}");
        }
    }
}
