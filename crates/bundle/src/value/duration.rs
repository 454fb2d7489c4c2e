use std::time::Duration;

/// Why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a number of seconds, such as 10 or 0.5")]
pub struct DurationError;

/// A century: no limit that anybody means is longer, and sums of two such times cannot overflow.
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

#[cfg(test)]
mod tests {
    use super::*;
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
            // A float holds the nanoseconds only nearly.
            prop_assert_eq!((parsed + Duration::from_micros(500)).as_millis(), u128::from(milliseconds));
        }
    }
}
