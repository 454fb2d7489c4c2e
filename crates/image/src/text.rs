//! Rules for texts from untrusted sources, shared by the parsers.

use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// Makes a text fit for an error: a single line, without control characters, at most 200 characters.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 200;
    let mut shown: String = text
        .chars()
        .take(MOST)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

/// Reads `null`, which Go writes for an empty value, as the default.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a list of words; docker's old images may have a single text in its place.
pub(crate) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words<'a> {
        Many(Vec<String>),
        One(Cow<'a, str>),
    }
    Ok(match Option::deserialize(deserializer)? {
        None => Vec::new(),
        Some(Words::Many(words)) => words,
        Some(Words::One(word)) => vec![word.into_owned()],
    })
}

/// Reads and writes Go's `map[string]struct{}`, a set written as an object of empty objects.
pub(crate) mod set {
    use serde::de::IgnoredAny;
    use serde::ser::SerializeMap;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::{BTreeMap, BTreeSet};

    pub(crate) fn serialize<S: Serializer>(set: &BTreeSet<String>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(set.len()))?;
        for name in set {
            map.serialize_entry(name, &serde_json::Map::new())?;
        }
        map.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeSet<String>, D::Error> {
        let map = Option::<BTreeMap<String, IgnoredAny>>::deserialize(deserializer)?;
        Ok(map.unwrap_or_default().into_keys().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_is_one_short_line() {
        assert_eq!(shown("a b"), "a b");
        assert_eq!(shown("a\nb\u{1b}"), "a?b?");
        assert_eq!(shown(&"é".repeat(201)), format!("{}…", "é".repeat(200)));
    }
}
