//! Formats of sizes, times and tables for people.

use serde_json::Value;
use std::collections::BTreeMap;
use tote_calendar::Civil;
use tote_engine::RemovedImage;

/// Formats a number of bytes with three digits and powers of 1000, as docker does: `5.58MB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    size_with(bytes, 3)
}

/// Formats a number of bytes with powers of 1000 and the given number of digits.
#[must_use]
pub fn size_with(bytes: u64, digits: usize) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    // Rounding may add a digit before the point, and one less is then shown after it.
    let fits = |behind: &usize| {
        let number = format!("{value:.0$}", behind);
        number.bytes().filter(u8::is_ascii_digit).count() <= digits
    };
    let behind = (0..digits).rev().find(fits).unwrap_or_default();
    let mut number = format!("{value:.behind$}");
    if number.contains('.') {
        let kept = number.trim_end_matches('0').trim_end_matches('.').len();
        number.truncate(kept);
    }
    format!("{number}{}", UNITS[unit])
}

/// Adds the reason why an object in a list cannot be used; there is no such field where it can.
pub(crate) fn with_error(mut row: Value, error: &str) -> Value {
    if let (Some(fields), false) = (row.as_object_mut(), error.is_empty()) {
        fields.insert("Error".to_owned(), error.into());
    }
    row
}

/// Formats the time since an event in docker's words; empty for an invalid time.
#[must_use]
pub fn ago(rfc3339: &str) -> String {
    let now = tote_calendar::now().as_secs();
    let then = tote_calendar::seconds_of(rfc3339);
    let then = then.map(|then| now.saturating_sub(u64::try_from(then).unwrap_or_default()));
    then.map(|age| format!("{} ago", duration(age)))
        .unwrap_or_default()
}

/// Formats a time as docker does: `2024-01-27 00:30:48 +0000 UTC`; empty for an invalid time.
#[must_use]
pub fn moment(rfc3339: &str) -> String {
    let Some(seconds) = tote_calendar::seconds_of(rfc3339) else {
        return String::new();
    };
    let Civil {
        year,
        month,
        day,
        hour,
        minute,
        second,
    } = Civil::of(seconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} +0000 UTC")
}

/// Formats a length of time in seconds, in docker's words.
#[must_use]
pub fn duration(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, (seconds + 1800) / 3600);
    match seconds {
        0 => "Less than a second".to_owned(),
        1 => "1 second".to_owned(),
        2..60 => format!("{seconds} seconds"),
        60..120 => "About a minute".to_owned(),
        _ if minutes < 60 => format!("{minutes} minutes"),
        _ if hours == 1 => "About an hour".to_owned(),
        _ if hours < 48 => format!("{hours} hours"),
        _ if hours < 24 * 14 => format!("{} days", hours / 24),
        _ if hours < 24 * 60 => format!("{} weeks", hours / 24 / 7),
        _ if hours < 24 * 365 * 2 => format!("{} months", hours / 24 / 30),
        _ => format!("{} years", hours / 24 / 365),
    }
}

/// Least width of a column in docker's tables, without the three spaces behind it.
const LEAST: usize = 7;

/// Formats rows in columns with three spaces between them, as docker does. Control characters become spaces,
/// because a cell is a single line.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let clean = |row: &Vec<String>| row.iter().map(|cell| one_line(cell)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(clean).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), LEAST);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line += &format!("{cell:width$}   ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Names what the removal of an image has done, as a line.
#[must_use]
pub fn removal(removed: &RemovedImage) -> String {
    match removed {
        RemovedImage::Untagged(name) => format!("Untagged: {}\n", name.familiar()),
        RemovedImage::Deleted(digest) => format!("Deleted: {digest}\n"),
    }
}

/// Replaces control characters by spaces: parts of the text may come from an image or a file, and must not control
/// the terminal.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// Cuts a text to `most` letters; the last letter of a cut text is an ellipsis.
#[must_use]
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Joins labels as docker's tables do: `KEY=VALUE,KEY=VALUE`.
#[must_use]
pub fn joined(labels: &BTreeMap<String, String>) -> String {
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0B"),
            (999, "999B"),
            (1000, "1kB"),
            (5_577_325, "5.58MB"),
            (72_800_000, "72.8MB"),
            (133_000_000, "133MB"),
            (99_990_000, "100MB"),
            (1_230_000_000, "1.23GB"),
            (u64::MAX, "18.4EB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn sizes_of_four_digits() {
        for (bytes, text) in [
            (0, "0B"),
            (3584, "3.584kB"),
            (429_900_000, "429.9MB"),
            (58_470_000, "58.47MB"),
            (999_960, "1000kB"),
            (99_996, "100kB"),
            (9_999_600, "10MB"),
        ] {
            assert_eq!(size_with(bytes, 4), text, "{bytes}");
        }
    }

    #[test]
    fn moments() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", "1970-01-01 00:00:00 +0000 UTC"),
            (
                "2024-02-29T23:30:48.743965523-01:00",
                "2024-03-01 00:30:48 +0000 UTC",
            ),
            ("1969-12-31T23:59:59Z", "1969-12-31 23:59:59 +0000 UTC"),
            ("2000-12-31T12:00:00Z", "2000-12-31 12:00:00 +0000 UTC"),
            ("", ""),
        ] {
            assert_eq!(moment(text), expected, "{text}");
        }
    }

    #[test]
    fn ages() {
        for (seconds, text) in [
            (0, "Less than a second"),
            (59, "59 seconds"),
            (119, "About a minute"),
            (3599, "59 minutes"),
            (4000, "About an hour"),
            (86400, "24 hours"),
            (5 * 86400, "5 days"),
            (20 * 86400, "2 weeks"),
            (100 * 86400, "3 months"),
            (800 * 86400, "2 years"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn columns() {
        let rows = [
            vec!["A".to_owned(), "B".to_owned()],
            vec!["l\u{1b}\nng".to_owned(), String::new()],
        ];
        assert_eq!(table(&rows), "A         B\nl  ng\n");
        assert_eq!(one_line("a\nb\x1b[31mc"), "a b [31mc");
    }
}
