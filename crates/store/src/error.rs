use rustix::io::Errno;
use std::path::PathBuf;
use tote_image::Digest;

/// A layer whose content is not what its digest says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layer {expected} has the content of {found}: it was damaged or forged on the way")]
pub struct WrongLayer {
    /// What was announced.
    pub expected: Digest,
    /// What came.
    pub found: Digest,
}

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file of the store.
    #[error("cannot {attempt} {path}")]
    Io {
        /// What was tried.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A file's owner that cannot be had here.
    #[error("cannot change the owner of {path} to {uid}:{gid}, as the image requires")]
    Owner {
        /// The file, in the image or in the store.
        path: PathBuf,
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// A layer that does not parse.
    #[error("cannot read {}", called(layer.as_ref()))]
    Layer {
        /// Its digest, where that is known before it is read.
        layer: Option<Digest>,
        /// Why not.
        #[source]
        source: Box<tote_archive::ReadError>,
    },
    /// A file in a layer that cannot be read to its end.
    #[error("cannot read {path} of {}", called(layer.as_ref()))]
    Content {
        /// The layer's digest, where that is known before it is read.
        layer: Option<Digest>,
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A layer whose content is not what its digest says.
    #[error(transparent)]
    WrongLayer(Box<WrongLayer>),
    /// Changes of a layer that cannot be made one after the other.
    #[error("cannot apply layer {layer}: {path}: {reason}")]
    Apply {
        /// The layer's digest.
        layer: Digest,
        /// Where.
        path: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A digest of another kind than the store names things by.
    #[error("{0}: the store names layers and images by sha256 only")]
    Algorithm(Digest),
    /// A layer that the store does not have.
    #[error("layer {0} is not in the store")]
    NoLayer(Digest),
    /// A configuration that does not parse.
    #[error("cannot read the configuration of an image")]
    Config(#[source] tote_image::DocumentError),
    /// A manifest that does not parse.
    #[error("cannot read the manifest of an image")]
    Manifest(#[source] tote_image::DocumentError),
    /// A name or id of no image; docker's wording.
    #[error("no such image: {0}")]
    NoImage(String),
    /// An index without an image, where one is needed.
    #[error("index {0} has no image")]
    EmptyIndex(String),
    /// The beginning of several ids.
    #[error("{0} is ambiguous: the ids of several images begin with it")]
    Ambiguous(String),
    /// A record of the store's own that cannot be read.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Layers that a crash of the machine has taken, as a whole or in part.
    #[error("{count} layers of the image are lost or damaged, the first is {first}")]
    LostLayers {
        /// How many.
        count: usize,
        /// A layer.
        first: Digest,
    },
    /// Files that a crash of the machine has taken.
    #[error("{count} files of image {image} are lost or damaged, the first is {first}")]
    Lost {
        /// The image.
        image: Digest,
        /// How many.
        count: usize,
        /// An object.
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

    /// The error number, where the file system said no.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Io { source, .. } => Errno::from_io_error(source),
            Self::Owner { source, .. } => Some(*source),
            _ => None,
        }
    }

    /// Whether there is something in the place of a directory that is none.
    pub(crate) fn is_no_directory(&self) -> bool {
        self.errno()
            .is_some_and(|errno| errno != Errno::NOENT && crate::dir::is_gone(errno))
    }
}

/// What a layer is called in messages.
fn called(layer: Option<&Digest>) -> String {
    layer.map_or_else(|| "the layer".to_owned(), |layer| format!("layer {layer}"))
}
