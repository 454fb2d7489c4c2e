use crate::text::shown;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A hash function for naming content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// SHA-256, the usual function.
    Sha256,
    /// SHA-512, which the specification also registers.
    Sha512,
}

impl Algorithm {
    /// Returns the name, as written before the colon.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// Returns the length of the hash in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Hash that names content, as in `sha256:e3b0c442…`.
///
/// A value is always well-formed: its hexadecimal form has the right length and is safe as a file's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    /// The hash, padded with zeros if it is shorter.
    hash: [u8; 64],
}

/// Why a text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// The colon is missing, or the hash is not hexadecimal, in upper case, or of the wrong length.
    #[error("digest {0} is not of the form sha256:64 hexadecimal digits in lower case")]
    Malformed(String),
    /// The algorithm is unknown to this engine.
    #[error("digest {0} has an unknown algorithm: only sha256 and sha512 are supported")]
    Unknown(String),
}

impl Digest {
    /// Builds a digest from a computed hash; `None` if the length is not the algorithm's.
    #[must_use]
    pub fn from_bytes(algorithm: Algorithm, hash: &[u8]) -> Option<Self> {
        if hash.len() != algorithm.bytes() {
            return None;
        }
        let mut padded = [0; 64];
        padded[..hash.len()].copy_from_slice(hash);
        Some(Self {
            algorithm,
            hash: padded,
        })
    }

    /// Builds the digest of a SHA-256 hash.
    #[must_use]
    pub fn sha256(hash: [u8; 32]) -> Self {
        let mut padded = [0; 64];
        padded[..32].copy_from_slice(&hash);
        Self {
            algorithm: Algorithm::Sha256,
            hash: padded,
        }
    }

    /// Returns the hash function.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the hash itself, 32 or 64 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.hash[..self.algorithm.bytes()]
    }

    /// Returns the hash in hexadecimal, without the algorithm: the name of a file in an OCI layout.
    #[must_use]
    pub fn hex(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(2 * self.algorithm.bytes());
        for byte in self.as_bytes() {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        text
    }

    /// Returns the first twelve digits, the form shown to people.
    #[must_use]
    pub fn short(&self) -> String {
        let mut text = self.hex();
        text.truncate(12);
        text
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let malformed = || DigestError::Malformed(shown(text));
        let (algorithm, digits) = text.split_once(':').ok_or_else(malformed)?;
        let algorithm = match algorithm {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return Err(DigestError::Unknown(shown(text))),
        };
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        if pairs.len() != algorithm.bytes() || !rest.is_empty() {
            return Err(malformed());
        }
        let mut hash = [0; 64];
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            *byte = digit(*high).ok_or_else(malformed)? << 4 | digit(*low).ok_or_else(malformed)?;
        }
        Ok(Self { algorithm, hash })
    }
}

/// Parses a digit. The specification allows only lower case, so that a digest has a single form.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn what_is_printed_is_what_was_parsed() {
        let long = format!("sha512:{}", "0f".repeat(64));
        for text in [EMPTY, &long] {
            let digest: Digest = text.parse().unwrap();
            assert_eq!(digest.to_string(), text);
            assert_eq!(
                Digest::from_bytes(digest.algorithm(), digest.as_bytes()),
                Some(digest)
            );
            let json = serde_json::to_string(&digest).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        }
        let empty: Digest = EMPTY.parse().unwrap();
        assert_eq!(empty.short(), "e3b0c44298fc");
        assert_eq!(empty.as_bytes().len(), 32);
    }

    #[test]
    fn what_is_no_digest() {
        for text in [
            "",
            "sha256",
            "sha256:",
            "sha256:e3b0",
            &EMPTY.to_uppercase(),
            &EMPTY.replace("e3b0", "E3B0"),
            &EMPTY[..EMPTY.len() - 1],
            &format!("{EMPTY}0"),
            &EMPTY.replace("e3b0", "e3/0"),
            &EMPTY.replace("e3b0", "é30"),
            &EMPTY.replace("sha256", "sha512"),
            &EMPTY.replace("sha256", "md5"),
            "sha256:../../../../../../../../../../../../../../../../../../etc/passwdx",
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
        assert_eq!(Digest::from_bytes(Algorithm::Sha512, &[0; 32]), None);
    }

    #[test]
    fn errors_quote_no_more_than_a_line() {
        let error = "x".repeat(100_000).parse::<Digest>().unwrap_err().to_string();
        assert!(error.len() < 400, "{}", error.len());
        let error = "sha256:\u{1b}[2J\n".parse::<Digest>().unwrap_err().to_string();
        assert!(!error.contains('\u{1b}') && !error.contains('\n'), "{error:?}");
    }
}
