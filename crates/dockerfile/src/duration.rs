//! Durations in Go's syntax: `1h30m`, `1.5s`, `300ms`.

use crate::error::Reason;
use std::time::Duration;

/// Parses a duration.
///
/// # Errors
/// The text is not a duration, or is negative, or longer than Go's maximum of 292 years.
pub fn parse(text: &str) -> Result<Duration, Reason> {
    nanos(text)
        .map(Duration::from_nanos)
        .ok_or_else(|| Reason::Duration(text.to_owned()))
}

fn nanos(text: &str) -> Option<u64> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0_u128;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest
            .bytes()
            .position(|byte| !byte.is_ascii_digit() && byte != b'.')?;
        let (number, after) = rest.split_at(end);
        let unit_len = after
            .bytes()
            .position(|byte| byte.is_ascii_digit() || byte == b'.')
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_len);
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || number.len() > 30 {
            return None;
        }
        let digits = |text: &str| {
            if text.is_empty() {
                Some(0)
            } else {
                text.parse::<u64>().ok().map(u128::from)
            }
        };
        total += digits(whole)? * unit;
        let places = u32::try_from(fraction.len()).ok()?;
        total += digits(fraction)? * unit / 10_u128.checked_pow(places)?;
        rest = next;
    }
    u64::try_from(total)
        .ok()
        .filter(|nanos| *nanos <= i64::MAX.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, nanos) in [
            ("30s", 30_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("300ms", 300_000_000),
            ("0", 0),
            ("1us", 1000),
        ] {
            assert_eq!(parse(text).unwrap(), Duration::from_nanos(nanos), "{text}");
        }
        for bad in ["", "1", "s", "1x", "-1s", "1..5s", ".s", "99999999999h", "1s2"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
