//! How much of what is kept for builds may stay.

use super::BuildFault;
use crate::EngineError;

/// docker's three limits, in bytes; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The most that stays.
    pub max_used: u64,
    /// What stays in any case.
    pub reserved: u64,
    /// What is to be free on the disk.
    pub min_free: u64,
}

impl Room {
    /// Reads the value of an option as docker does: `10GB` are 10 times 1024 times 1024 times 1024 bytes.
    ///
    /// # Errors
    /// [`BuildFault::PruneSize`].
    pub fn parse(option: &'static str, text: &str) -> Result<u64, EngineError> {
        let size = tote_bundle::parse_size(text);
        Ok(size.map_err(|source| BuildFault::PruneSize { option, source })?)
    }

    /// Whether nothing is said.
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    /// How many of the bytes that are used may stay, where so many are free.
    pub(super) fn keeps(self, used: u64, free: u64) -> u64 {
        let most = match self {
            Self {
                max_used: 0,
                min_free: 0,
                ..
            } => 0,
            // What is free already asks for nothing to go.
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
            // 100 are used, and 50 free.
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
