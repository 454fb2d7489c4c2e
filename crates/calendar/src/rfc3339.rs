//! RFC 3339 in the precision that each document wants.

use crate::civil::Civil;
use crate::time::{NANOS, Time};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the present time since 1970; zero for a clock before that.
#[must_use]
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Formats a time as RFC 3339 in whole seconds: `2000-02-29T00:00:00Z`.
#[must_use]
pub fn in_seconds(time: Duration) -> String {
    format!("{}Z", until_seconds(time))
}

/// Formats a time as RFC 3339 with nanoseconds: `2000-02-29T00:00:00.000000000Z`.
#[must_use]
pub fn in_nanoseconds(time: Duration) -> String {
    format!("{}.{:09}Z", until_seconds(time), time.subsec_nanos())
}

fn until_seconds(time: Duration) -> String {
    let Civil {
        year,
        month,
        day,
        hour,
        minute,
        second,
    } = Civil::of(i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// Parses RFC 3339, `2024-01-27T00:30:48.743965523Z` or with an offset, to seconds since 1970; fractions are dropped.
#[must_use]
pub fn seconds_of(rfc3339: &str) -> Option<i64> {
    let Time(nanos) = Time::from_rfc3339(rfc3339)?;
    i64::try_from(nanos.div_euclid(NANOS)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Civil;

    #[test]
    fn known_times() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(in_seconds(Duration::from_secs(seconds)), expected);
            assert_eq!(seconds_of(expected), Some(seconds.cast_signed()));
        }
        let before = Civil::of(-1);
        assert_eq!((before.year, before.month, before.day), (1969, 12, 31));
        assert_eq!((before.hour, before.minute, before.second), (23, 59, 59));
        let moment = Duration::new(951_782_400, 70);
        assert_eq!(in_nanoseconds(moment), "2000-02-29T00:00:00.000000070Z");
        assert_eq!(in_seconds(now()).len(), "1970-01-01T00:00:00Z".len());
    }

    #[test]
    fn what_others_write() {
        for (text, expected) in [
            ("2024-01-27T00:30:48.743965523Z", Some(1_706_315_448)),
            ("2000-02-29T12:00:00+01:30", Some(951_820_200)),
            ("1969-12-31T23:59:59-00:30", Some(1799)),
            ("2024-99-01T00:00:00Z", None),
            ("2023-02-29T00:00:00Z", None),
            ("2024-01-27T25:00:00Z", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(seconds_of(text), expected, "{text}");
        }
    }
}
