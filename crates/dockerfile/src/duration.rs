//! Durations in Go's syntax: `1h30m`, `1.5s`, `300ms`.

use crate::error::{HealthcheckReason, Reason};
use std::time::Duration;

/// Parses a duration.
///
/// # Errors
/// The text is not a duration, or is negative, or longer than Go's maximum of 292 years.
pub fn parse(text: &str) -> Result<Duration, Reason> {
    tote_calendar::parse_duration(text)
        .and_then(|nanos| u64::try_from(nanos).ok())
        .map(Duration::from_nanos)
        .ok_or_else(|| Reason::Healthcheck(HealthcheckReason::Duration(text.to_owned())))
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
