use std::fmt;
use std::str::FromStr;

/// A container's name, by docker's rule: a letter or digit, then letters, digits, `_`, `.` and `-`. The limit of
/// 255 bytes is that of a file's name; no kernel object is named from it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A character that is not allowed there, or an empty name.
    #[error("invalid container name ({0}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")]
    Characters(String),
    /// More than 255 bytes.
    #[error("invalid container name of {0} bytes: the most is 255")]
    Length(usize),
}

const MOST: usize = 255;

impl Name {
    /// Returns the name as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Builds a name such as `quiet_harbour` from `seed`; the caller makes sure that it is free.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        // splitmix64: neighbouring seeds give unrelated numbers.
        let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let choice = (mixed ^ (mixed >> 31)) % (ADJECTIVES.len() * NOUNS.len()) as u64;
        // `choice` is less than the number of pairs, so both indices fit.
        let (adjective, noun) = (choice as usize / NOUNS.len(), choice as usize % NOUNS.len());
        Self(format!("{}_{}", ADJECTIVES[adjective], NOUNS[noun]))
    }
}

/// True if `text` follows docker's rule for names of containers and volumes.
pub(crate) fn is_restricted(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        // docker shows and accepts names with a slash in front.
        let text = text.strip_prefix('/').unwrap_or(text);
        if text.len() > MOST {
            Err(NameError::Length(text.len()))
        } else if is_restricted(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::Characters(text.to_owned()))
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const ADJECTIVES: [&str; 48] = [
    "amber", "ample", "brave", "breezy", "bright", "brisk", "calm", "candid", "clever", "copper", "cosy",
    "crisp", "curious", "deft", "eager", "early", "fair", "fleet", "fond", "frosty", "gentle", "glad",
    "golden", "hardy", "honest", "jolly", "keen", "kind", "light", "lively", "lucid", "mellow", "merry",
    "misty", "neat", "nimble", "patient", "plucky", "proud", "quick", "quiet", "silver", "sound", "steady",
    "sunny", "swift", "tidy", "warm",
];

const NOUNS: [&str; 48] = [
    "anchor", "barge", "basket", "beacon", "brook", "canoe", "canvas", "cargo", "cedar", "clover", "compass",
    "coral", "crane", "dinghy", "drift", "ferry", "finch", "fjord", "galley", "gull", "hamper", "harbour",
    "heron", "island", "kayak", "keel", "lagoon", "lantern", "lark", "maple", "meadow", "otter", "parcel",
    "pebble", "pier", "pilot", "porter", "quay", "raft", "reef", "rudder", "satchel", "sparrow", "tide",
    "trunk", "valley", "wharf", "willow",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use std::collections::BTreeSet;

    #[test]
    fn rule() {
        for text in ["a", "0", "web-1", "A.b_c-d", &"x".repeat(255)] {
            assert_eq!(
                text.parse::<Name>().map(|name| name.to_string()).as_deref(),
                Ok(text)
            );
        }
        for text in ["", "-a", ".a", "_a", "a/b", "a b", "a\n", "é", "a\0"] {
            assert_eq!(text.parse::<Name>(), Err(NameError::Characters(text.to_owned())));
        }
        assert_eq!("x".repeat(256).parse::<Name>(), Err(NameError::Length(256)));
    }

    #[test]
    fn neighbouring_seeds_give_different_names() {
        let names: BTreeSet<_> = (0..200).map(Name::random).collect();
        assert!(names.len() > 180, "{}", names.len());
        assert_eq!(Name::random(7), Name::random(7));
    }

    proptest! {
        #[test]
        fn random_names_follow_the_rule(seed in any::<u64>()) {
            let name = Name::random(seed);
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }

        #[test]
        fn never_panics(text in any::<String>()) {
            if let Ok(name) = text.parse::<Name>() {
                prop_assert!(!name.as_str().contains(['/', '\0', '\n']));
            }
        }
    }
}
