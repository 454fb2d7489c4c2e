//! Keys by which a user at a terminal detaches from a process.

/// Sequence of keys that is looked for in typed input; input that turns out not to belong to it is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachKeys {
    keys: Vec<u8>,
    /// Number of its keys that have just been typed, and are held back.
    typed: usize,
}

/// Reason why a text is not a list of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid detach keys: unknown character '{0}': give single characters, or ctrl- with a-z, @, [, \\, ], ^ or _, \
     with commas between"
)]
pub struct DetachKeysError(String);

impl Default for DetachKeys {
    /// Returns docker's keys: ctrl-p, ctrl-q.
    fn default() -> Self {
        Self {
            keys: vec![0x10, 0x11],
            typed: 0,
        }
    }
}

impl DetachKeys {
    /// Parses `ctrl-p,ctrl-q`; an empty text means no keys.
    ///
    /// # Errors
    /// [`DetachKeysError`] names the invalid part.
    pub fn parse(text: &str) -> Result<Self, DetachKeysError> {
        let key = |part: &str| match (part.as_bytes(), part.strip_prefix("ctrl-").map(str::as_bytes)) {
            (&[one], _) => Ok(one),
            (b"DEL", _) => Ok(127),
            (_, Some(&[letter])) => match letter.to_ascii_lowercase() {
                b'a'..=b'z' => Ok(letter.to_ascii_lowercase() - b'a' + 1),
                b'@' => Ok(0),
                other @ b'['..=b'_' => Ok(other - b'[' + 27),
                _ => Err(DetachKeysError(part.to_owned())),
            },
            _ => Err(DetachKeysError(part.to_owned())),
        };
        let parts = text.split(',').filter(|_| !text.is_empty());
        Ok(Self {
            keys: parts.map(key).collect::<Result<_, _>>()?,
            typed: 0,
        })
    }

    /// Returns the bytes to pass on, including held-back ones, and whether the sequence is complete: bytes after it
    /// are not passed on then.
    pub fn pass(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut passed = Vec::with_capacity(bytes.len() + self.typed);
        if self.keys.is_empty() {
            passed.extend_from_slice(bytes);
            return (passed, false);
        }
        for &byte in bytes {
            // Held-back keys stay so if they can be the beginning of another try.
            while self.typed > 0 && self.keys[self.typed] != byte {
                let shorter = self.border();
                passed.extend_from_slice(&self.keys[..self.typed - shorter]);
                self.typed = shorter;
            }
            if self.keys[self.typed] != byte {
                passed.push(byte);
                continue;
            }
            self.typed += 1;
            if self.typed == self.keys.len() {
                self.typed = 0;
                return (passed, true);
            }
        }
        (passed, false)
    }

    /// Returns the length of the longest proper prefix of the typed keys that is also their end.
    fn border(&self) -> usize {
        let typed = &self.keys[..self.typed];
        let is_border = |length: &usize| typed.ends_with(&self.keys[..*length]);
        (0..self.typed).rev().find(is_border).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_keys() {
        assert_eq!(DetachKeys::parse("ctrl-p,ctrl-q"), Ok(DetachKeys::default()));
        assert_eq!(DetachKeys::parse("a,ctrl-@,ctrl-_").unwrap().keys, [b'a', 0, 31]);
        assert!(DetachKeys::parse("").unwrap().keys.is_empty());
        for bad in ["ctrl-", "ab", "a,,b", "ctrl-1", "é"] {
            assert!(DetachKeys::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_none_of_the_keys_goes_on() {
        let mut keys = DetachKeys::parse("x,x,y").unwrap();
        assert_eq!(keys.pass(b"ax"), (b"a".to_vec(), false));
        assert_eq!(keys.pass(b"b"), (b"xb".to_vec(), false));
        assert_eq!(keys.pass(b"xx"), (Vec::new(), false));
        assert_eq!(keys.pass(b"yz"), (Vec::new(), true));
        assert_eq!(
            keys.pass(b"xxxy"),
            (b"x".to_vec(), true),
            "they may begin within a try"
        );
        let mut keys = DetachKeys::parse("a,b,a,DEL").unwrap();
        assert_eq!(keys.pass(b"abab"), (b"ab".to_vec(), false));
        assert_eq!(keys.pass(b"a\x7f"), (Vec::new(), true));
        assert_eq!(
            DetachKeys::parse("").unwrap().pass(b"\x10\x11"),
            (b"\x10\x11".to_vec(), false)
        );
    }
}
