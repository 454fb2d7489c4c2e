//! Events, as docker shows them.

use crate::text::one_line;
use serde_json::{Value, json};
use tote_engine::container::Event;
use tote_template::Unset;

/// Formats an event as `2026-11-21T17:05:35.000000012Z container die ID (exitCode=0, image=alpine, name=web)`.
#[must_use]
pub fn event_text(event: &Event) -> String {
    let attributes = event
        .attributes
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    let attributes: Vec<String> = attributes.collect();
    let beside = if attributes.is_empty() {
        String::new()
    } else {
        format!(" ({})", attributes.join(", "))
    };
    let line = format!("{} {} {}{beside}", event.kind, event.action, event.id);
    format!("{} {}", fixed(&tote_engine::moment(event.time)), one_line(&line))
}

/// Formats a time with nine digits after the point, so that lines are aligned.
fn fixed(moment: &str) -> String {
    let (seconds, fraction) = moment
        .split_once('.')
        .unwrap_or((moment.trim_end_matches('Z'), ""));
    format!("{seconds}.{:0<9}Z", fraction.trim_end_matches('Z'))
}

fn from(event: &Event) -> &str {
    event.attributes.get("image").map_or("", String::as_str)
}

/// Builds docker's JSON message of an event.
#[must_use]
pub fn event_message(event: &Event) -> Value {
    json!({
        "status": event.action,
        "id": event.id,
        "from": from(event),
        "Type": event.kind,
        "Action": event.action,
        "Actor": { "ID": event.id, "Attributes": event.attributes },
        "scope": "local",
        "time": event.time / 1_000_000_000,
        "timeNano": event.time,
    })
}

/// Types of an event's fields for templates: an attribute that an event lacks is not an error.
pub const EVENT_TYPES: &[(&str, Unset)] = &[("Attributes", Unset::Map)];

/// Builds the fields of an event, with the names that templates use.
#[must_use]
pub fn event_fields(event: &Event) -> Value {
    json!({
        "Status": event.action,
        "ID": event.id,
        "From": from(event),
        "Type": event.kind,
        "Action": event.action,
        "Actor": { "ID": event.id, "Attributes": event.attributes },
        "Scope": "local",
        "Time": event.time / 1_000_000_000,
        "TimeNano": event.time,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dockers_lines() {
        let event = Event {
            time: 1_500_000_000,
            kind: "container".to_owned(),
            action: "die".to_owned(),
            id: "abc".to_owned(),
            attributes: [("name", "web\x1b"), ("exitCode", "0")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        };
        assert_eq!(
            event_text(&event),
            "1970-01-01T00:00:01.500000000Z container die abc (exitCode=0, name=web )"
        );
        let bare = Event {
            attributes: Default::default(),
            ..event.clone()
        };
        assert_eq!(
            event_text(&bare),
            "1970-01-01T00:00:01.500000000Z container die abc"
        );
        assert_eq!(fixed("1970-01-01T00:00:01Z"), "1970-01-01T00:00:01.000000000Z");
        assert_eq!(event_message(&event)["timeNano"], 1_500_000_000_u64);
    }
}
