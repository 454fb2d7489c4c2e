//! Times as in docker's logs: RFC 3339 in UTC, with nanoseconds without trailing zeros.

use crate::civil::Civil;
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds of a second.
pub(crate) const NANOS: i128 = 1_000_000_000;

/// Time in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i128);

/// Length of the longest text of a time: `2026-11-21T16:42:02.123456789Z`.
const LONGEST: usize = 30;

impl Time {
    /// Returns the time of the wall clock.
    #[must_use]
    pub fn now() -> Self {
        let nanos = |since: std::time::Duration| {
            i128::from(since.as_secs()) * NANOS + i128::from(since.subsec_nanos())
        };
        Self(match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => nanos(since),
            Err(before) => -nanos(before.duration()),
        })
    }

    /// Returns the text, without allocation. Times before 1970 or after 9999 are clamped to those years.
    #[must_use]
    pub fn text(self) -> TimeText {
        let mut text = self.long_text();
        text.trim();
        text
    }

    /// Returns the text, always with nine digits after the point.
    #[must_use]
    pub fn long_text(self) -> TimeText {
        let nanos = self.0.clamp(0, 253_402_300_800 * NANOS - 1);
        let (seconds, fraction) = ((nanos / NANOS) as i64, (nanos % NANOS) as u64);
        let date = Civil::of(seconds);
        let mut text = TimeText {
            bytes: *b"0000-00-00T00:00:00.000000000Z",
            length: LONGEST,
        };
        text.digits(0, 4, date.year.unsigned_abs());
        text.digits(5, 2, date.month.into());
        text.digits(8, 2, date.day.into());
        text.digits(11, 2, date.hour.into());
        text.digits(14, 2, date.minute.into());
        text.digits(17, 2, date.second.into());
        text.digits(20, 9, fraction);
        text
    }
}

/// Text of a [`Time`].
#[derive(Clone, Copy, Debug)]
pub struct TimeText {
    bytes: [u8; LONGEST],
    length: usize,
}

impl TimeText {
    fn digits(&mut self, at: usize, count: usize, mut number: u64) {
        for place in self.bytes[at..at + count].iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }

    /// Removes the zeros at the end of the fraction, and the point if nothing is left after it.
    fn trim(&mut self) {
        let mut end = LONGEST - 1;
        while self.bytes[end - 1] == b'0' && end > 20 {
            end -= 1;
        }
        if end == 20 {
            end = 19;
        }
        self.bytes[end] = b'Z';
        self.length = end + 1;
    }

    /// Returns the text as ASCII bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl std::fmt::Display for TimeText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        for (seconds, nanos, expected) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_782_399, 1, "2000-02-28T23:59:59.000000001Z"),
            (951_782_400, 100_000_000, "2000-02-29T00:00:00.1Z"),
            (1_709_251_199, 123_456_789, "2024-02-29T23:59:59.123456789Z"),
            (1_735_689_599, 120_000_000, "2024-12-31T23:59:59.12Z"),
            (4_107_542_400, 10, "2100-03-01T00:00:00.00000001Z"),
            (i128::from(i64::MAX), 0, "9999-12-31T23:59:59.999999999Z"),
            (-5, 0, "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(Time(seconds * NANOS + nanos).text().to_string(), expected);
        }
        assert_eq!(
            Time(NANOS / 2).long_text().to_string(),
            "1970-01-01T00:00:00.500000000Z"
        );
        assert!(Time::now() > Time(1_700_000_000 * NANOS));
    }
}
