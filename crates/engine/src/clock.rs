//! Time as RFC 3339 writes it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in UTC, in whole seconds.
pub(crate) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    text(since.as_secs())
}

/// Seconds since 1970, proleptic Gregorian: days are counted in eras of 400 years that begin in March, so that the leap
/// day is the last of its year.
fn text(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (year + era * 400, month + 3)
    } else {
        (year + era * 400 + 1, month - 9)
    };
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(text(seconds), expected);
        }
        assert_eq!(now().len(), "1970-01-01T00:00:00Z".len());
    }
}
