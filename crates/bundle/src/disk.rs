//! `--disk-size`, and docker's spelling of it, `--storage-opt size=SIZE`.

use crate::value::{SizeError, parse_size};

const LEAST: u64 = 1 << 20;

/// Label of an image that gives its containers a disk of their own with this size, unless the user asks for
/// another.
pub const DISK_SIZE_LABEL: &str = "tote.disk-size";

/// Builds [`DISK_SIZE_LABEL`] after it has checked the size.
///
/// # Errors
/// [`DiskError`]: the value is not a size, or the size is too small.
pub fn disk_size_label(value: &str) -> Result<(String, String), DiskError> {
    disk_size(value)?;
    Ok((DISK_SIZE_LABEL.to_owned(), value.to_owned()))
}

/// Why an option about the disk is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// The text is not a size.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The size is too small to hold anything.
    #[error("a disk of less than 1 MiB holds nothing: give at least 1m")]
    Little,
    /// `--storage-opt` has no value.
    #[error("invalid storage option: give size=SIZE, such as size=10g")]
    Format,
    /// `--storage-opt` has an unknown key.
    #[error("unknown storage option {0}: the only one is size")]
    Key(String),
}

/// Parses `--disk-size` into bytes.
///
/// # Errors
/// [`DiskError`]: the value is not a size, or the size is too small.
pub fn disk_size(value: &str) -> Result<u64, DiskError> {
    let size = parse_size(value)?;
    if size < LEAST {
        return Err(DiskError::Little);
    }
    Ok(size)
}

/// Returns the value of `--storage-opt`'s only key, `size`.
pub(crate) fn storage_size(value: &str) -> Result<&str, DiskError> {
    match value.split_once('=') {
        Some(("size", size)) => Ok(size),
        Some((key, _)) => Err(DiskError::Key(key.to_owned())),
        None => Err(DiskError::Format),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(disk_size("1m"), Ok(1 << 20));
        assert_eq!(disk_size("1023k"), Err(DiskError::Little));
        assert_eq!(storage_size("size=10g"), Ok("10g"));
        assert_eq!(storage_size("size"), Err(DiskError::Format));
        let other = storage_size("dm.basesize=1").unwrap_err();
        assert_eq!(
            other.to_string(),
            "unknown storage option dm.basesize: the only one is size"
        );
    }
}
