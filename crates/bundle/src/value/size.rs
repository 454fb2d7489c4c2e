/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// No number, or a negative one.
    #[error("invalid size: '{0}': give bytes, or a number with k, m, g, t or p, such as 64m")]
    Number(String),
    /// The letters are not a unit.
    #[error("invalid suffix: '{0}': give bytes, or a number with k, m, g, t or p, such as 64m")]
    Suffix(String),
    /// More than the kernel can count.
    #[error("size out of range: '{0}': the most is 8388607t")]
    Range(String),
}

/// Maximum size: the kernel counts in signed integers.
const MOST: u64 = i64::MAX as u64;

/// Parses a size as docker's `go-units` does, at most `i64::MAX`. A decimal number is followed by nothing or `b`
/// for bytes, or by `k`, `m`, `g`, `t`, `p` in powers of 1024, in either case and with an optional `b` or `ib`.
///
/// # Errors
/// [`SizeError`], worded as docker does.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    parse_in(text, 1024)
}

/// Parses a size as [`parse_size`] does, but in powers of 1000, as docker reads the sizes of logs.
///
/// # Errors
/// [`SizeError`].
pub(crate) fn parse_decimal_size(text: &str) -> Result<u64, SizeError> {
    parse_in(text, 1000)
}

fn parse_in(text: &str, base: u64) -> Result<u64, SizeError> {
    let invalid = || SizeError::Number(text.to_owned());
    let (number, suffix) = match text.split_once(' ') {
        Some(parts) => parts,
        None => {
            let last = text
                .rfind(|c: char| c.is_ascii_digit() || c == '.')
                .ok_or_else(invalid)?;
            text.split_at(last + 1)
        }
    };
    let unit = unit(suffix, base).ok_or_else(|| SizeError::Suffix(suffix.to_owned()))?;
    let range = || SizeError::Range(text.to_owned());
    // A float would lose bytes above 2^53, so whole numbers are multiplied as integers.
    if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: u64 = number.parse().map_err(|_| range())?;
        return number
            .checked_mul(unit)
            .filter(|bytes| *bytes <= MOST)
            .ok_or_else(range);
    }
    let number: f64 = number.parse().map_err(|_| invalid())?;
    if !number.is_finite() || number < 0.0 {
        return Err(invalid());
    }
    let bytes = number * unit as f64;
    if bytes >= MOST as f64 {
        return Err(range());
    }
    Ok(bytes as u64)
}

fn unit(suffix: &str, base: u64) -> Option<u64> {
    let mut bytes = suffix.bytes().map(|byte| byte.to_ascii_lowercase());
    let (letter, rest) = (bytes.next(), (bytes.next(), bytes.next(), bytes.next()));
    let power = match (letter, rest) {
        (None, _) | (Some(b'b'), (None, ..)) => return Some(1),
        (Some(letter), (None, ..) | (Some(b'b'), None, _) | (Some(b'i'), Some(b'b'), None)) => {
            b"kmgtp".iter().zip(1..).find(|(unit, _)| **unit == letter)?.1
        }
        _ => return None,
    };
    Some(base.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn sizes_of_logs_are_decimal() {
        for (text, bytes) in [
            ("10m", 10_000_000),
            ("1.5kB", 1500),
            ("2Gib", 2_000_000_000),
            ("7", 7),
        ] {
            assert_eq!(parse_decimal_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn as_go_units() {
        for (text, bytes) in [
            ("32", 32),
            ("32b", 32),
            ("32B", 32),
            ("32k", 32 << 10),
            ("32K", 32 << 10),
            ("32kb", 32 << 10),
            ("32Kib", 32 << 10),
            ("32Mb", 32 << 20),
            ("32Gb", 32 << 30),
            ("32Tb", 32 << 40),
            ("8Pb", 8 << 50),
            ("32.5kB", 33_280),
            ("32.5 kB", 33_280),
            ("32.5 B", 32),
            ("0.3K", 307),
            (".3kB", 307),
            ("1.5g", 1_610_612_736),
            ("1e3", 1000),
            ("0", 0),
            ("32 ", 32),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "hello", ".", "-32", " ", "k", "inf", ". k", "inf k", "32m b"] {
            assert!(matches!(parse_size(text), Err(SizeError::Number(_))), "{text}");
        }
        for text in ["32bb", "32bm", "32kbb", "32x", "32 kx", "32  mb", "32µ"] {
            assert!(matches!(parse_size(text), Err(SizeError::Suffix(_))), "{text}");
        }
        for text in [
            "9223372036854775808",
            "8192p",
            "99999999999999999999",
            "1e300",
            "8388608.5t",
        ] {
            assert!(matches!(parse_size(text), Err(SizeError::Range(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            if let Ok(bytes) = parse_size(&text) {
                prop_assert!(bytes <= MOST);
            }
        }

        #[test]
        fn whole_numbers_are_exact(number in 0u64..(1 << 23), power in 0usize..5, long in 0usize..3) {
            let text = format!("{number}{}{}", &"bkmgt"[power..=power], ["", "b", "ib"][if power == 0 { 0 } else { long }]);
            prop_assert_eq!(parse_size(&text), Ok(number << (10 * power)));
        }
    }
}
