//! `--disk-size` and docker's way to say it, `--storage-opt size=SIZE`.

use crate::error::ValueError;
use crate::value::parse_size;

const LEAST: u64 = 1 << 20;

/// The label of an image whose containers are to have a disk of a size of their own, unless somebody says otherwise.
pub const DISK_SIZE_LABEL: &str = "tote.disk-size";

/// That label, with a size that is one.
///
/// # Errors
/// [`ValueError`]: it is none, or too little.
pub fn disk_size_label(value: &str) -> Result<(String, String), ValueError> {
    disk_size(value)?;
    Ok((DISK_SIZE_LABEL.to_owned(), value.to_owned()))
}

/// Why such an option is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// Less than anything fits into.
    #[error("a disk of less than 1 MiB holds nothing: give at least 1m")]
    Little,
    /// `--storage-opt` without a value.
    #[error("invalid storage option: give size=SIZE, such as size=10g")]
    Format,
    /// `--storage-opt` of another key.
    #[error("unknown storage option {0}: the only one is size")]
    Key(String),
}

/// `--disk-size`: bytes.
pub(crate) fn disk_size(value: &str) -> Result<u64, ValueError> {
    let size = parse_size(value)?;
    if size < LEAST {
        return Err(DiskError::Little.into());
    }
    Ok(size)
}

/// `--storage-opt`: the value of its only key.
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
        assert_eq!(disk_size("1023k"), Err(DiskError::Little.into()));
        assert_eq!(storage_size("size=10g"), Ok("10g"));
        assert_eq!(storage_size("size"), Err(DiskError::Format));
        let other = storage_size("dm.basesize=1").unwrap_err();
        assert_eq!(
            other.to_string(),
            "unknown storage option dm.basesize: the only one is size"
        );
    }
}
