//! The keys that end an attachment and leave the container alone.

use std::str::FromStr;

/// A sequence of keys as docker writes it: `ctrl-p,ctrl-q`. An empty one never occurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachKeys(Vec<u8>);

impl Default for DetachKeys {
    fn default() -> Self {
        Self(vec![16, 17])
    }
}

/// A key that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid detach keys {text:?}: {key:?} is no key: give single characters and ctrl-<character>, separated by commas"
)]
pub struct BadDetachKeys {
    text: String,
    key: String,
}

/// The most keys.
const MOST: usize = 32;

impl FromStr for DetachKeys {
    type Err = BadDetachKeys;

    fn from_str(text: &str) -> Result<Self, BadDetachKeys> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let mut keys = Vec::new();
        for key in text.split(',') {
            let code = code(key).filter(|_| keys.len() < MOST);
            keys.push(code.ok_or_else(|| BadDetachKeys {
                text: text.to_owned(),
                key: key.to_owned(),
            })?);
        }
        Ok(Self(keys))
    }
}

fn code(key: &str) -> Option<u8> {
    match key.as_bytes() {
        [key] => Some(*key),
        b"DEL" => Some(127),
        [
            b'c',
            b't',
            b'r',
            b'l',
            b'-',
            key @ (b'@' | b'a'..=b'z' | b'['..=b'_'),
        ] => Some(key & 0x1f),
        _ => None,
    }
}

/// Looks for the keys in what is typed.
#[derive(Debug)]
pub(crate) struct Detector<'a> {
    keys: &'a [u8],
    /// How many of them the last bytes were. These are held back.
    matched: usize,
}

impl<'a> Detector<'a> {
    pub(crate) fn new(keys: &'a DetachKeys) -> Self {
        Self {
            keys: &keys.0,
            matched: 0,
        }
    }

    /// Adds what is to be passed on to `out`. True when the sequence is complete; what follows it is dropped.
    pub(crate) fn feed(&mut self, typed: &[u8], out: &mut Vec<u8>) -> bool {
        if self.keys.is_empty() {
            out.extend_from_slice(typed);
            return false;
        }
        for &byte in typed {
            // What was held back stays so as far as it can be the beginning of another try.
            while self.matched > 0 && self.keys[self.matched] != byte {
                let shorter = self.border();
                out.extend_from_slice(&self.keys[..self.matched - shorter]);
                self.matched = shorter;
            }
            if self.keys[self.matched] != byte {
                out.push(byte);
                continue;
            }
            self.matched += 1;
            if self.matched == self.keys.len() {
                return true;
            }
        }
        false
    }

    /// The length of the longest proper beginning of the matched keys that is their end as well.
    fn border(&self) -> usize {
        let matched = &self.keys[..self.matched];
        (0..self.matched)
            .rev()
            .find(|length| matched.ends_with(&self.keys[..*length]))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_docker_does() {
        for (text, keys) in [
            ("ctrl-p,ctrl-q", &[16, 17][..]),
            (
                "ctrl-@,ctrl-[,ctrl-\\,ctrl-],ctrl-^,ctrl-_",
                &[0, 27, 28, 29, 30, 31],
            ),
            ("a,ctrl-z,DEL", b"a\x1a\x7f"),
            ("", b""),
        ] {
            assert_eq!(text.parse(), Ok(DetachKeys(keys.to_vec())), "{text}");
        }
        for text in ["ctrl-P", "ctrl-", "ab", ",", "ctrl-1", "\u{e9}", &"a,".repeat(40)] {
            assert!(text.parse::<DetachKeys>().is_err(), "{text}");
        }
        let error = "ctrl-p,strg-q".parse::<DetachKeys>().unwrap_err().to_string();
        assert!(
            error.starts_with("invalid detach keys \"ctrl-p,strg-q\": \"strg-q\""),
            "{error}"
        );
    }

    fn fed(keys: &str, typed: &[&[u8]]) -> (Vec<u8>, bool) {
        let keys = keys.parse().unwrap();
        let (mut detector, mut out) = (Detector::new(&keys), Vec::new());
        let found = typed.iter().any(|typed| detector.feed(typed, &mut out));
        (out, found)
    }

    #[test]
    fn a_sequence_is_found_wherever_it_is() {
        assert_eq!(fed("ctrl-p,ctrl-q", &[b"ls\x10\x11rm"]), (b"ls".to_vec(), true));
        assert_eq!(fed("ctrl-p,ctrl-q", &[b"\x10", b"\x11"]), (vec![], true));
        assert_eq!(
            fed("ctrl-p,ctrl-q", &[b"\x10", b"x\x11"]),
            (b"\x10x\x11".to_vec(), false)
        );
        assert_eq!(fed("ctrl-p,ctrl-q", &[b"\x10\x10\x11"]), (b"\x10".to_vec(), true));
        assert_eq!(fed("a,a,b", &[b"a", b"a", b"ab"]), (b"a".to_vec(), true));
        assert_eq!(fed("a,b,a,c", &[b"abab", b"ac"]), (b"ab".to_vec(), true));
        assert_eq!(fed("x", &[b"yx"]), (b"y".to_vec(), true));
        assert_eq!(fed("", &[b"\x10\x11"]), (b"\x10\x11".to_vec(), false));
    }
}
