//! Random messages, lines and times: each is parsed or refused, and never a panic.
#![allow(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use proptest::prelude::*;
use tote_calendar::Time;
use tote_monitor::{Entry, Report, Request};

fn message() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop::sample::select(b"AIEWORX?".to_vec());
    let rest = prop::collection::vec(any::<u8>(), 0..8);
    (letter, rest).prop_map(|(letter, mut rest)| {
        rest.insert(0, letter);
        rest
    })
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        6 => prop::sample::select(vec![
            "{", "}", "\"log\":", "\"stream\":", "\"time\":", "\"attrs\":", "\"x\\n\"", "\"stdout\"", ",", "\"\\ud800\"",
            "{\"a\":\"b\"}", "\"2026-11-21T16:42:02.5Z\"", "\"2026-11-21\"", "null", "[[", "1e9", "\n", "\\",
        ]).prop_map(|part| part.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(part, 0..16).prop_map(|parts| parts.concat())
}

fn moment() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => prop::sample::select(vec![
            "2026", "-", "11", "21", "T", "16", ":", "42", ".", "5", "Z", "+", "01:00", "h", "ms", "\u{b5}s", "0", "99999999999999999999",
        ]).prop_map(ToOwned::to_owned),
        1 => any::<String>(),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_message(message in message()) {
        let request = Request::parse(&message);
        let report = Report::parse(&message);
        prop_assert!(request.is_none() || report.is_none(), "no message is of both sides");
    }

    #[test]
    fn any_line(line in line()) {
        if let Some(entry) = Entry::parse(&line) {
            prop_assert!(entry.text.len() <= line.len() * 3);
            drop(entry.details());
        }
    }

    #[test]
    fn any_moment(text in moment(), now in any::<i64>(), offset in -86400..86400) {
        if let Ok(time) = Time::parse(&text, Time(now.into()), offset) {
            drop(time.text().to_string());
        }
    }
}
