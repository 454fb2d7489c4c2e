use crate::{ContainerError, OciError};
use std::fmt;
use std::str::FromStr;

/// Id of a container: letters, digits and `_+-.`, but neither `.` nor `..`, as it names a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(String);

/// Longest name of a directory, in bytes.
const LONGEST: usize = 255;

impl Id {
    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Id {
    type Err = OciError;

    fn from_str(text: &str) -> Result<Self, OciError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'-' | b'.');
        if text.is_empty() {
            return Err(OciError::Container(ContainerError::NoId));
        }
        if matches!(text, "." | "..") || text.len() > LONGEST || !text.bytes().all(fits) {
            return Err(OciError::Container(ContainerError::Id(
                text.chars().take(LONGEST).collect(),
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        for good in ["a", "a.b", "A_b+c-d.9", "...", "-x", &"x".repeat(255)] {
            assert_eq!(good.parse::<Id>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "a b", "ä", "a\n", "a\0", &"x".repeat(256)] {
            assert!(bad.parse::<Id>().is_err(), "{bad:?}");
        }
    }
}
