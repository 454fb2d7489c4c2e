//! Limits of the build cache's size.

use super::{BuildFault, BuildOptionError};
use crate::EngineError;

/// Limits of docker, in bytes; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Maximum size of the cache.
    pub max_used: u64,
    /// Size that is kept in any case.
    pub reserved: u64,
    /// Free space that the disk should have.
    pub min_free: u64,
}

impl Room {
    /// Parses the value of an option as docker does: `10GB` are 10 times 1024 times 1024 times 1024 bytes.
    ///
    /// # Errors
    /// `BuildOptionError::PruneSize`.
    pub fn parse(option: &'static str, text: &str) -> Result<u64, EngineError> {
        let size = tote_bundle::parse_size(text);
        Ok(size.map_err(|source| BuildFault::Option(BuildOptionError::PruneSize { option, source }))?)
    }

    /// True if no limit is set.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Returns the number of bytes out of `used` that may stay with `free` bytes on the disk.
    pub(super) fn keeps(self, used: u64, free: u64) -> u64 {
        let most = match self {
            Self {
                max_used: 0,
                min_free: 0,
                ..
            } => 0,
            // Without a maximum only a lack of free space limits the cache.
            Self { max_used: 0, .. } => used,
            Self { max_used, .. } => max_used,
        };
        let lacking = self.min_free.saturating_sub(free);
        let most = match lacking {
            0 => most,
            lacking => most.min(used.saturating_sub(lacking)),
        };
        most.max(self.reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn what_stays() {
        for (max_used, reserved, min_free, expected) in [
            (0, 0, 0, 0),
            (0, 30, 0, 30),
            (60, 0, 0, 60),
            (60, 80, 0, 80),
            // In these rows 100 bytes are used, and 50 are free.
            (0, 0, 40, 100),
            (0, 0, 70, 80),
            (60, 0, 70, 60),
            (90, 0, 70, 80),
            (0, 90, 500, 90),
            (0, 0, 500, 0),
        ] {
            let room = Room {
                max_used,
                reserved,
                min_free,
            };
            assert_eq!(room.keeps(100, 50), expected, "{room:?}");
        }
        assert!(Room::parse("max-used-space", "1g").is_ok());
        assert!(Room::parse("max-used-space", "much").is_err());
    }
}
