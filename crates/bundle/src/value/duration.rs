use std::time::Duration;

/// Why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a number of seconds, such as 10 or 0.5")]
pub struct DurationError;

/// A century: no realistic limit is longer, and the sum of two such times cannot overflow.
const MOST: f64 = 100.0 * 365.0 * 86_400.0;

/// Parses a number of seconds with an optional fraction.
///
/// # Errors
/// [`DurationError`] for another text, and for more than a hundred years.
pub fn parse_seconds(text: &str) -> Result<Duration, DurationError> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(DurationError);
    }
    let seconds: f64 = text.parse().map_err(|_| DurationError)?;
    if seconds > MOST {
        return Err(DurationError);
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| DurationError)
}

/// Why a text is not a time in Go's syntax.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time: invalid duration {0:?}: give a number with a unit, such as 30s, 1m30s or 500ms")]
pub struct GoDurationError(String);

/// Parses a time in Go's syntax, `1h2m3.5s`, into nanoseconds. Only 0 needs no unit.
///
/// # Errors
/// [`GoDurationError`] for another text, and for more than 292 years.
pub fn parse_go_duration(text: &str) -> Result<i64, GoDurationError> {
    tote_calendar::parse_duration(text).ok_or_else(|| GoDurationError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_go_writes_them() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("1ns", 1),
            ("1.5s", 1_500_000_000),
            ("1h2m3s", 3_723_000_000_000),
            ("-2ms", -2_000_000),
            (".5s", 500_000_000),
            ("1µs", 1_000),
        ] {
            assert_eq!(parse_go_duration(text), Ok(nanoseconds), "{text}");
        }
        for bad in ["", "-", "5", "1x", "s", ".s", "1.2.3s", "9999999h", "1s5", "1 s"] {
            assert!(parse_go_duration(bad).is_err(), "{bad}");
        }
    }
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn seconds() {
        assert_eq!(parse_seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_seconds("0"), Ok(Duration::ZERO));
        for text in [
            "",
            ".",
            "-1",
            "1e3",
            "10s",
            "inf",
            "NaN",
            "1.2.3",
            "9999999999999",
        ] {
            assert_eq!(parse_seconds(text), Err(DurationError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _parsed = parse_seconds(&text);
        }

        #[test]
        fn milliseconds_read_back(milliseconds in 0u64..1_000_000_000) {
            let text = format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000);
            let parsed = parse_seconds(&text).unwrap();
            // A float holds the nanoseconds only approximately.
            prop_assert_eq!((parsed + Duration::from_micros(500)).as_millis(), u128::from(milliseconds));
        }
    }
}
