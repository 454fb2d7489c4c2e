//! Limits on the size of an archive and its parts.

/// Maximum sizes within an archive. An archive that exceeds one is refused with an error that names the limit.
///
/// The defaults are far above the sizes of real images, and far below what harms the reader itself; they do not
/// protect a disk. A caller who knows more (a manifest's sizes, a quota) lowers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of headers of all kinds.
    pub entries: u64,
    /// Bytes of the whole stream, and of all files with their holes: a limit for either.
    pub total_bytes: u64,
    /// Bytes of a single file, holes included.
    pub file_size: u64,
    /// Bytes of a path.
    pub path_length: usize,
    /// Components of a path.
    pub path_depth: usize,
    /// Bytes of all names and values of an entry's extended attributes.
    pub xattr_bytes: usize,
    /// Bytes of a symbolic link's target.
    pub link_length: usize,
    /// Bytes of an extended header (pax) or long name (GNU).
    pub header_bytes: u64,
    /// Extents of a sparse file.
    pub sparse_extents: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 10_000_000,
            total_bytes: 4 << 40,
            file_size: 1 << 40,
            // PATH_MAX and its kin: longer paths could be created by descriptors, but hardly used or removed.
            path_length: 4095,
            path_depth: 512,
            // Linux holds 64 KiB in one value, and lists no more than 64 KiB of names.
            xattr_bytes: 1 << 20,
            link_length: 4095,
            // The limit of Go's archive/tar, and so docker's.
            header_bytes: 1 << 20,
            sparse_extents: 1 << 18,
        }
    }
}

/// An archive exceeds one of the [`Limits`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {what} is over the limit of {limit}")]
pub struct LimitError {
    /// The path, or the archive.
    pub object: String,
    /// Name of the limit.
    pub what: &'static str,
    /// Value of the limit.
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
