//! Log of events for `tote events`: lines of JSON in the file `events`.

use crate::Home;
use crate::record::now;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use tote_sys::best_effort;

/// The file is renamed to `events.1` when it has grown beyond this many bytes.
const MOST: u64 = 4 << 20;

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// When: nanoseconds since 1970.
    pub time: u64,
    /// `container`, `image`, `volume`, `builder` or `pod`.
    #[serde(rename = "type")]
    pub kind: String,
    /// docker's word: `create`, `start`, `die`, `destroy` and so on.
    pub action: String,
    /// The id of what it happened to; none of a pruning.
    pub id: String,
    /// docker's: `name`, `image`, `exitCode`, `signal` and the labels.
    pub attributes: BTreeMap<String, String>,
}

impl Event {
    /// Something that happens now to a thing of that kind.
    #[must_use]
    pub fn of(kind: &str, action: &str, id: &str) -> Self {
        Self {
            time: now(),
            kind: kind.to_owned(),
            action: action.to_owned(),
            id: id.to_owned(),
            ..Self::default()
        }
    }

    /// The end of a pruning of objects of that kind, with the number of bytes reclaimed; docker's words.
    #[must_use]
    pub fn pruned(kind: &str, reclaimed: u64) -> Self {
        Self::of(kind, "prune", "").with("reclaimed", reclaimed)
    }

    /// With one more attribute.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.attributes.insert(name.to_owned(), value.to_string());
        self
    }
}

/// Appends them, in one write: lines of several writers do not mix. What cannot be noted has happened all the same.
pub fn append(home: &Home, events: &[Event]) {
    if events.is_empty() {
        return;
    }
    let mut text = Vec::new();
    for event in events {
        if let Ok(line) = serde_json::to_vec(event) {
            text.extend(line);
            text.push(b'\n');
        }
    }
    let mut options = std::fs::OpenOptions::new();
    let path = home.events();
    let Ok(mut file) = options.append(true).create(true).mode(0o600).open(&path) else {
        return;
    };
    best_effort(file.write_all(&text));
    // The one whose line crosses the limit rotates; a second at the same moment would rotate a short file, and no line is lost.
    // absence: the next event rotates the file
    let after = file.metadata().map_or(0, |meta| meta.len());
    if after > MOST && after - text.len() as u64 <= MOST {
        best_effort(std::fs::rename(&path, path.with_extension("1")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        append(
            &home,
            &[
                Event::of("container", "create", "1").with("name", "web"),
                Event::of("container", "die", "1").with("exitCode", 3),
            ],
        );
        let text = std::fs::read_to_string(home.events()).unwrap();
        let events: Vec<Event> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let actions: Vec<_> = events.iter().map(|event| event.action.as_str()).collect();
        assert_eq!(actions, ["create", "die"]);
        assert_eq!(events[1].attributes["exitCode"], "3");
        assert_eq!(events[0].attributes["name"], "web");
    }
}
