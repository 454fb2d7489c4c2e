use std::fmt;
use std::str::FromStr;

/// A container's id: 64 lower-case hexadecimal digits. Kernel objects of the container (cgroup, namespace files,
/// mount points) are named from it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(String);

/// Why a text is not a container's id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid container id {0:?}: 64 digits from 0-9 and a-f are needed")]
pub struct ContainerIdError(pub String);

const DIGITS: usize = 64;

impl ContainerId {
    /// Builds the id from 32 bytes, which the caller takes from the kernel's random source.
    #[must_use]
    pub fn from_bytes(bytes: [u8; DIGITS / 2]) -> Self {
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
        let text = bytes
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)])
            .collect();
        Self(text)
    }

    /// Returns the 32 bytes that the digits stand for.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; DIGITS / 2] {
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => digit - b'0',
            _ => digit - b'a' + 10,
        };
        let digits = self.0.as_bytes();
        std::array::from_fn(|at| nibble(digits[2 * at]) << 4 | nibble(digits[2 * at + 1]))
    }

    /// Returns the name of the container's session keyring, as runc names it.
    #[must_use]
    pub fn keyring(&self) -> String {
        format!("_ses.{}", self.0)
    }

    /// Returns all 64 digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 12 digits: the form shown to people, and the default host name.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.0[..12]
    }

    /// True if the id begins with `prefix`, which must not be empty. People name a container by such a prefix.
    #[must_use]
    pub fn has_prefix(&self, prefix: &str) -> bool {
        !prefix.is_empty() && self.0.starts_with(prefix)
    }
}

impl FromStr for ContainerId {
    type Err = ContainerIdError;

    fn from_str(text: &str) -> Result<Self, ContainerIdError> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == DIGITS && text.bytes().all(hex) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ContainerIdError(text.to_owned()))
        }
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn only_64_lower_case_digits() {
        for text in [
            String::new(),
            "a".repeat(63),
            "a".repeat(65),
            "A".repeat(64),
            "g".repeat(64),
            format!("../{}", "a".repeat(61)),
            "é".repeat(32),
        ] {
            assert_eq!(text.parse::<ContainerId>(), Err(ContainerIdError(text.clone())));
        }
    }

    #[test]
    fn prefixes() {
        let id = ContainerId::from_bytes([0xab; 32]);
        assert_eq!(id.short(), "abababababab");
        assert!(id.has_prefix("aba") && id.has_prefix(id.as_str()));
        assert!(!id.has_prefix("") && !id.has_prefix("b") && !id.has_prefix(&format!("{id}a")));
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(bytes in any::<[u8; 32]>()) {
            let id = ContainerId::from_bytes(bytes);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }

        #[test]
        fn never_panics(text in any::<String>()) {
            prop_assert!(text.parse::<ContainerId>().is_err());
        }
    }
}
