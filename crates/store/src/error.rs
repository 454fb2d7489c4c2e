use rustix::io::Errno;
use std::path::{Path, PathBuf};
use tote_image::Digest;

/// A layer whose content does not have its digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layer {expected} has the content of {found}: it was damaged or forged on the way")]
pub struct WrongLayer {
    /// The announced digest.
    pub expected: Digest,
    /// The digest of the received content.
    pub found: Digest,
}

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation on a file of the store failed.
    #[error("cannot {attempt} {path}")]
    Io {
        /// The attempt, as a verb.
        attempt: &'static str,
        /// Path of the attempt.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be given to its owner.
    #[error("cannot change the owner of {path} to {uid}:{gid}, as the image requires")]
    Owner {
        /// The file, in the image or in the store.
        path: PathBuf,
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
        /// The cause.
        #[source]
        source: Errno,
    },
    /// A layer cannot be read.
    #[error("cannot read {}", called(layer.as_ref()))]
    Layer {
        /// Digest of the layer, if it is known before reading.
        layer: Option<Digest>,
        /// The cause.
        #[source]
        source: Box<tote_archive::ReadError>,
    },
    /// A file in a layer cannot be read to its end.
    #[error("cannot read {path} of {}", called(layer.as_ref()))]
    Content {
        /// Digest of the layer, if it is known before reading.
        layer: Option<Digest>,
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A layer does not have its digest.
    #[error(transparent)]
    WrongLayer(Box<WrongLayer>),
    /// A layer's changes contradict each other.
    #[error("cannot apply layer {layer}: {path}: {reason}")]
    Apply {
        /// Digest of the layer.
        layer: Digest,
        /// Path of the change.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// A digest of a kind that the store does not support.
    #[error("{0}: the store names layers and images by sha256 only")]
    Algorithm(Digest),
    /// The store does not have the layer.
    #[error("layer {0} is not in the store")]
    NoLayer(Digest),
    /// An image's configuration cannot be parsed.
    #[error("cannot read the configuration of an image")]
    Config(#[source] tote_image::DocumentError),
    /// An image's manifest cannot be parsed.
    #[error("cannot read the manifest of an image")]
    Manifest(#[source] tote_image::DocumentError),
    /// The name or id is not that of an image; docker's wording.
    #[error("no such image: {0}")]
    NoImage(String),
    /// An index has no image, but one is needed.
    #[error("index {0} has no image")]
    EmptyIndex(String),
    /// Several ids have this beginning.
    #[error("{0} is ambiguous: the ids of several images begin with it")]
    Ambiguous(String),
    /// A record of the store cannot be read.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The record.
        path: PathBuf,
        /// The reason why the record is refused.
        reason: &'static str,
    },
    /// Layers were lost, completely or in part, by a crash of the machine.
    #[error("{count} layers of the image are lost or damaged, the first is {first}")]
    LostLayers {
        /// Number of lost layers.
        count: usize,
        /// Digest of a lost layer.
        first: Digest,
    },
    /// Files were lost by a crash of the machine.
    #[error("{count} files of image {image} are lost or damaged, the first is {first}")]
    Lost {
        /// The image.
        image: Digest,
        /// Number of lost files.
        count: usize,
        /// Name of a lost object.
        first: String,
    },
}

impl StoreError {
    pub(crate) fn io(attempt: &'static str, path: PathBuf, errno: Errno) -> Self {
        Self::Io {
            attempt,
            path,
            source: errno.into(),
        }
    }

    pub(crate) fn damaged(path: PathBuf, reason: &'static str) -> Self {
        Self::Damaged { path, reason }
    }

    /// Returns the error number, if a system call failed.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Io { source, .. } => Errno::from_io_error(source),
            Self::Owner { source, .. } => Some(*source),
            _ => None,
        }
    }

    /// True if another kind of entry is in the place of a directory.
    pub(crate) fn is_no_directory(&self) -> bool {
        self.errno()
            .is_some_and(|errno| errno != Errno::NOENT && is_gone(errno))
    }
}

/// Returns the name of a layer for messages.
fn called(layer: Option<&Digest>) -> String {
    layer.map_or_else(|| "the layer".to_owned(), |layer| format!("layer {layer}"))
}

/// True if a file or a directory does not exist, or part of its path is another kind of entry.
pub(crate) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

/// Whether the kernel shows what was mounted at `path` to find that out. A kernel that refuses says no; one that lacks memory
/// or descriptors has said nothing.
///
/// # Errors
/// The kernel said nothing.
pub(crate) fn is_shown(path: &Path, shown: Result<bool, Errno>) -> Result<bool, StoreError> {
    match shown {
        Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::INTR)) => {
            Err(StoreError::io("mount", path.to_owned(), errno))
        }
        shown => Ok(shown.unwrap_or(false)),
    }
}

/// Converts damage to `None`. An error of the file system stays an error, because nothing is known then.
pub(crate) fn or_damaged<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(whole) => Ok(Some(whole)),
        Err(StoreError::Damaged { .. } | StoreError::Config(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_descriptors_has_not_refused() {
        let path = Path::new("/tree");
        assert!(is_shown(path, Ok(true)).unwrap());
        assert!(!is_shown(path, Err(Errno::NODEV)).unwrap());
        assert!(is_shown(path, Err(Errno::MFILE)).is_err());
    }
}
