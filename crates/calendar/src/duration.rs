//! Durations as Go writes them, which are docker's: `1h30m`, `1.5s`, `300ms`.

/// Units, and their lengths in nanoseconds.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a duration, which may be negative, into nanoseconds, as Go's `time.ParseDuration` does. Only 0 needs no unit.
/// `None` for another text, and for more than 292 years.
#[must_use]
pub fn parse_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut sum = 0_i64;
    loop {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.');
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let part = decimal(number, i128::from(*unit))?;
        sum = sum.checked_add(i64::try_from(part).ok()?)?;
        if after.is_empty() {
            return Some(sign * sum);
        }
        rest = after;
    }
}

/// Parses digits with or without a point as a number of `unit`s; returns nanoseconds.
pub(crate) fn decimal(text: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || whole.len() > 18 {
        return None;
    }
    let mut nanos = whole.parse::<i128>().unwrap_or(0).checked_mul(unit)?;
    let mut part = unit;
    for digit in fraction.bytes() {
        part /= 10;
        nanos += i128::from(digit - b'0') * part;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_go_writes_them() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("-0", 0),
            ("1ns", 1),
            ("1.5s", 1_500_000_000),
            ("1h2m3s", 3_723_000_000_000),
            ("-2ms", -2_000_000),
            ("+2ms", 2_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("2540400h", 9_145_440_000_000_000_000),
            ("0.00000000000000000000000000000001h", 0),
        ] {
            assert_eq!(parse_duration(text), Some(nanoseconds), "{text}");
        }
        for bad in [
            "",
            "-",
            "+",
            "5",
            "1x",
            "s",
            ".s",
            "1.2.3s",
            "9999999h",
            "1s5",
            "1 s",
            "--1s",
            "1s-1s",
            "1e3s",
            "\u{fc}",
            "infs",
            "9999999999999999999s",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
