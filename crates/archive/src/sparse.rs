//! Files with holes: the parts that an archive stores.

/// A stored part of a file; the bytes between extents are holes and read as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    /// Its length in bytes, never 0.
    pub len: u64,
}

/// Why the map of a sparse file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SparseError {
    /// Extents overlap, are not sorted, or pass the file's end.
    #[error("the map of the sparse file is not sorted and within the file")]
    Order,
    /// The total of the extents differs from the stored size.
    #[error("the map of the sparse file does not match the stored size")]
    StoredSize,
    /// An offset without a length, or a line that is not a number.
    #[error("the map of the sparse file is malformed")]
    Malformed,
    /// More extents than the limit, which is given.
    #[error("the map of the sparse file is over the limit of {0} extents")]
    TooMany(usize),
}

/// The stored parts of a file, sorted and within its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SparseMap {
    pub(crate) extents: Vec<Extent>,
    pub(crate) size: u64,
}

impl SparseMap {
    /// Turns the map, whose memory is used again, into that of a file without holes.
    pub(crate) fn into_whole(mut self, size: u64) -> Self {
        self.clear();
        if size > 0 {
            self.extents.push(Extent { offset: 0, len: size });
        }
        self.size = size;
        self
    }

    /// Turns the map into that of an empty file.
    pub(crate) fn clear(&mut self) {
        self.extents.clear();
        self.size = 0;
    }

    /// # Errors
    /// Checks that the pairs are the map of a file of `size` bytes, of which `stored` bytes are stored.
    pub(crate) fn new(
        pairs: impl IntoIterator<Item = (u64, u64)>,
        size: u64,
        stored: u64,
    ) -> Result<Self, SparseError> {
        let mut extents: Vec<Extent> = Vec::new();
        let (mut end, mut sum) = (0_u64, 0_u64);
        for (offset, len) in pairs {
            if offset < end {
                return Err(SparseError::Order);
            }
            end = offset
                .checked_add(len)
                .filter(|end| *end <= size)
                .ok_or(SparseError::Order)?;
            sum += len;
            if len > 0 {
                extents.push(Extent { offset, len });
            }
        }
        if sum != stored {
            return Err(SparseError::StoredSize);
        }
        Ok(Self { extents, size })
    }

    /// # Errors
    /// Refuses more extents than the limit.
    pub(crate) fn check_count(count: usize, limit: usize) -> Result<(), SparseError> {
        if count > limit {
            Err(SparseError::TooMany(limit))
        } else {
            Ok(())
        }
    }
}

/// Pairs up offsets and lengths that alternate.
pub(crate) fn pairs(map: &[u64]) -> Result<impl Iterator<Item = (u64, u64)>, SparseError> {
    let (pairs, rest) = map.as_chunks::<2>();
    if rest.is_empty() {
        Ok(pairs.iter().map(|[offset, len]| (*offset, *len)))
    } else {
        Err(SparseError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps() {
        let map = SparseMap::new([(0, 0), (10, 5), (15, 1), (20, 0)], 20, 6).unwrap();
        assert_eq!(
            map.extents,
            [Extent { offset: 10, len: 5 }, Extent { offset: 15, len: 1 }]
        );
        for (pairs, size, stored, error) in [
            (vec![(10, 5), (5, 1)], 20, 6, SparseError::Order),
            (vec![(10, 5), (14, 1)], 20, 6, SparseError::Order),
            (vec![(10, 5)], 14, 5, SparseError::Order),
            (vec![(u64::MAX, 1)], u64::MAX, 1, SparseError::Order),
            (vec![(0, 5)], 5, 6, SparseError::StoredSize),
            (vec![(0, 5)], 5, 4, SparseError::StoredSize),
        ] {
            assert_eq!(
                SparseMap::new(pairs.clone(), size, stored),
                Err(error),
                "{pairs:?}"
            );
        }
        assert_eq!(pairs(&[1, 2, 3]).err(), Some(SparseError::Malformed));
    }
}
