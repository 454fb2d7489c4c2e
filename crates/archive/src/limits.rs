//! How much an archive may ask for.

/// What an archive may at most contain. Exceeding one ends the reading with an error that says which.
///
/// The defaults are far above what images have, and far below what harms the reader itself; they do not protect a disk.
/// A caller who knows more (a manifest's sizes, a quota) lowers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Headers of all kinds.
    pub entries: u64,
    /// Bytes of the whole stream, and of all files with their holes: either.
    pub total_bytes: u64,
    /// Bytes of one file, holes included.
    pub file_size: u64,
    /// Bytes of a path.
    pub path_length: usize,
    /// Components of a path.
    pub path_depth: usize,
    /// Bytes of all names and values of one entry's extended attributes.
    pub xattr_bytes: usize,
    /// Bytes of a symbolic link's target.
    pub link_length: usize,
    /// Bytes of one extended header (pax) or long name (GNU).
    pub header_bytes: u64,
    /// Extents of one sparse file.
    pub sparse_extents: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 10_000_000,
            total_bytes: 4 << 40,
            file_size: 1 << 40,
            // PATH_MAX and its kin: longer ones could be created by descriptors, but hardly used or removed.
            path_length: 4095,
            path_depth: 512,
            // Linux holds 64 KiB in one value, and lists no more than 64 KiB of names.
            xattr_bytes: 1 << 20,
            link_length: 4095,
            // As Go's archive/tar has it, and so docker.
            header_bytes: 1 << 20,
            sparse_extents: 1 << 18,
        }
    }
}

/// An archive asks for more than [`Limits`] allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {what} is over the limit of {limit}")]
pub struct LimitError {
    /// The path, or the archive.
    pub object: String,
    /// Which limit.
    pub what: &'static str,
    /// Its value.
    pub limit: u64,
}

impl LimitError {
    pub(crate) fn check(
        object: impl FnOnce() -> String,
        what: &'static str,
        value: u64,
        limit: u64,
    ) -> Result<(), Self> {
        if value > limit {
            Err(Self {
                object: object(),
                what,
                limit,
            })
        } else {
            Ok(())
        }
    }
}
