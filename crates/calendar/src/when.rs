//! Times as docker's users write them: `--since` and `--until`.

use crate::civil::{days_of, days_since_1970};
use crate::duration::{decimal, parse_duration};
use crate::time::{NANOS, Time};

/// Error for a text that is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTime;

impl std::fmt::Display for BadTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "not a time: give a duration before now such as 10m or 1h30m, seconds since 1970, or a date such as \
             2026-11-21T16:42:02Z",
        )
    }
}

impl std::error::Error for BadTime {}

impl Time {
    /// Parses a duration before `now` as Go writes it, a date with or without a time of day as of RFC 3339, or
    /// seconds since 1970. A date without a zone is in the zone `offset` seconds east of UTC.
    ///
    /// # Errors
    /// [`BadTime`].
    pub fn parse(text: &str, now: Self, offset: i32) -> Result<Self, BadTime> {
        if let Some(nanos) = parse_duration(text).filter(|_| text != "0") {
            return Ok(Self(now.0 - i128::from(nanos)));
        }
        date(text, offset)
            .or_else(|| seconds(text))
            .map(Self)
            .ok_or(BadTime)
    }

    /// Parses what [`Time::text`] writes, and the same with another offset than `Z`.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        date(text, 0).map(Self)
    }
}

/// Parses `1763743322`, `1763743322.5`.
fn seconds(text: &str) -> Option<i128> {
    match text.strip_prefix('-') {
        Some(text) => decimal(text, NANOS).map(|nanos| -nanos),
        None => decimal(text, NANOS),
    }
}

/// Parses `2026-11-21`, `2026-11-21Z`, `2026-11-21T16`, `…T16:42`, `…T16:42:02.5`, each with a zone or without one.
fn date(text: &str, offset: i32) -> Option<i128> {
    let (day, rest) = text.split_at_checked(10)?;
    let day = day.as_bytes();
    if day[4] != b'-' || day[7] != b'-' {
        return None;
    }
    let (year, month, day) = (number(&day[..4])?, number(&day[5..7])?, number(&day[8..])?);
    if !(1..=12).contains(&month) || day < 1 || day > days_of(year, month) {
        return None;
    }
    let zone = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone);
    let clock = match clock.strip_prefix(['T', 't', ' ']) {
        Some(clock) => time_of_day(clock)?,
        None if clock.is_empty() => 0,
        None => return None,
    };
    let offset = match zone.as_bytes() {
        [] => i128::from(offset),
        b"Z" | b"z" => 0,
        [sign, a, b, b':', c, d] => {
            let (hours, minutes) = (number(&[*a, *b])?, number(&[*c, *d])?);
            let east = i128::from(hours * 3600 + minutes * 60);
            match (sign, hours, minutes) {
                (b'+', 0..24, 0..60) => east,
                (b'-', 0..24, 0..60) => -east,
                _ => return None,
            }
        }
        _ => return None,
    };
    Some((i128::from(days_since_1970(year, month, day)) * 86400 - offset) * NANOS + clock)
}

fn time_of_day(text: &str) -> Option<i128> {
    let mut parts = text.split(':');
    let hours = parts.next().filter(|part| part.len() == 2)?;
    let minutes = parts.next().unwrap_or("00");
    let seconds = parts.next().unwrap_or("00");
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    if minutes.len() != 2 || whole.len() != 2 || fraction.is_empty() || parts.next().is_some() {
        return None;
    }
    let (hours, minutes) = (number(hours.as_bytes())?, number(minutes.as_bytes())?);
    let seconds = decimal(seconds, NANOS)?;
    if hours > 23 || minutes > 59 || seconds >= 60 * NANOS {
        return None;
    }
    Some(i128::from(hours * 3600 + minutes * 60) * NANOS + seconds)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + i64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_800_000_000 * NANOS);

    #[test]
    fn what_docker_takes() {
        for (text, seconds) in [
            ("10m", 1_800_000_000.0 - 600.0),
            ("1h30m", 1_800_000_000.0 - 5400.0),
            ("1.5s", 1_800_000_000.0 - 1.5),
            ("-2h", 1_800_000_000.0 + 7200.0),
            ("0s", 1_800_000_000.0),
            ("0", 0.0),
            ("1136073600", 1_136_073_600.0),
            ("1136073600.5", 1_136_073_600.5),
            ("2006-01-02T15:04:05Z", 1_136_214_245.0),
            ("2006-01-02T15:04:05.5Z", 1_136_214_245.5),
            ("2006-01-02T15:04:05+07:00", 1_136_214_245.0 - 25200.0),
            ("2006-01-02T15:04:05.25-07:00", 1_136_214_245.25 + 25200.0),
            ("2006-01-02T15:04Z", 1_136_214_240.0),
            ("2006-01-02T15Z", 1_136_214_000.0),
            ("2006-01-02Z", 1_136_160_000.0),
            ("2006-01-02T15:04:05", 1_136_214_245.0 - 3600.0),
            ("2006-01-02T15:04", 1_136_214_240.0 - 3600.0),
            ("2006-01-02", 1_136_160_000.0 - 3600.0),
            ("2024-02-29", 1_709_164_800.0 - 3600.0),
        ] {
            let nanos = Time::parse(text, NOW, 3600).map(|time| time.0);
            assert_eq!(nanos, Ok((seconds * 1e6) as i128 * 1000), "{text}");
        }
    }

    #[test]
    fn everything_else_is_an_error() {
        for text in [
            "",
            "x",
            "10",
            "10x",
            "m",
            "1h30",
            ".",
            "-",
            "+",
            ".s",
            "2006-13-02",
            "2023-02-29",
            "2006-01-32",
            "2006-01-02T",
            "2006-01-02T24",
            "2006-01-02T1:00",
            "2006-01-02T10:60",
            "2006-01-02T10:00:61",
            "2006-01-02T10:00:00.",
            "2006-01-02T10:00:00+7",
            "2006-01-02T10:00:00+99:00",
            "2006-01-02\u{fc}",
            "9999999999999999999",
            "\u{fc}berhaupt nicht",
        ] {
            let parsed = Time::parse(text, NOW, 0);
            assert_eq!(parsed.is_err(), text != "10", "{text}: {parsed:?}");
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        for nanos in [
            0,
            1,
            999_999_999,
            1_709_164_800 * NANOS,
            951_782_399 * NANOS + 120_000_000,
        ] {
            let text = Time(nanos).text().to_string();
            assert_eq!(Time::from_rfc3339(&text), Some(Time(nanos)), "{text}");
        }
    }
}
