//! Points in time as people and documents write them.
//!
//! Invariants: a time is a [`Duration`] since 1970 in UTC, the calendar is the Gregorian one, also before its
//! introduction, and no text makes a parser panic.
//!
//! This crate measures nothing: durations come from `Instant`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Days from 1 March of the year 0 to 1 January 1970. Years begin in March, so that the leap day is a year's last.
const EPOCH: i64 = 719_468;
/// Days of 400 years, after which the calendar repeats itself.
const ERA: i64 = 146_097;

/// Returns the present time since 1970; zero for a clock before that.
#[must_use]
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Day, and time of day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Year of the common era; years before it are zero and negative.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 59.
    pub second: u8,
}

impl Civil {
    /// Converts seconds since the beginning of 1970, or negative ones before it.
    #[must_use]
    pub fn of(seconds: i64) -> Self {
        let (days, time) = (seconds.div_euclid(86400) + EPOCH, seconds.rem_euclid(86400));
        let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
        let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // Months from March on have 31, 30, 31, 30 and 31 days, repeatedly.
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (year, month) = if month < 10 {
            (year, month + 3)
        } else {
            (year + 1, month - 9)
        };
        Self {
            year: year + era * 400,
            month: small(month),
            day: small(day),
            hour: small(time / 3600),
            minute: small(time / 60 % 60),
            second: small(time % 60),
        }
    }
}

/// Narrows a number that is below 60.
fn small(number: i64) -> u8 {
    number.to_le_bytes()[0]
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
    let number = |from: usize, to: usize| rfc3339.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * ERA + day_of_era - EPOCH;
    let zone = rfc3339
        .get(19..)?
        .trim_start_matches(|letter: char| letter == '.' || letter.is_ascii_digit());
    let offset = match zone.as_bytes().first() {
        Some(sign @ (b'+' | b'-')) => {
            let hours: i64 = zone.get(1..3)?.parse().ok()?;
            let minutes: i64 = zone.get(4..6)?.parse().ok()?;
            let seconds = hours * 3600 + minutes * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => 0,
    };
    Some(days * 86400 + hour * 3600 + minute * 60 + second - offset)
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
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(seconds_of(text), expected, "{text}");
        }
    }
}
