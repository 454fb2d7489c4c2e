//! Any bytes as what is read beside a container: a message on its socket, a line of its log, a time, detach keys.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tote_calendar::Time;
use tote_monitor::{Entry, Report, Request};
use tote_runtime::DetachKeys;

fuzz_target!(|bytes: &[u8]| {
    assert!(Request::parse(bytes).is_none() || Report::parse(bytes).is_none());
    if let Some(entry) = Entry::parse(bytes) {
        drop(entry.details());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(time) = Time::parse(text, Time(0), 0) {
            drop(time.text().to_string());
        }
        if let Ok(mut keys) = DetachKeys::parse(text) {
            let (passed, found) = keys.pass(bytes);
            assert!(passed.len() <= bytes.len() && (!found || passed.len() < bytes.len()));
        }
    }
});
