//! Errors of images, beside what uses them.

use tote_images::ImagesError;

/// Reason why something cannot be done with an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageFault {
    /// Images: archives of them, registries, lists.
    #[error(transparent)]
    Images(ImagesError),
    /// A name that no image can have.
    #[error(transparent)]
    Reference(#[from] tote_image::ReferenceError),
    /// A document of an image.
    #[error(transparent)]
    ImageDocument(tote_image::DocumentError),
    /// A registry.
    #[error(transparent)]
    Registry(#[from] tote_registry::Error),
    /// An invalid platform.
    #[error(transparent)]
    Platform(#[from] tote_image::PlatformError),
    /// An image with several names, asked for by its id; docker's wording.
    #[error("conflict: unable to delete {0} (must be forced) - image is referenced in multiple repositories")]
    ManyNames(String),
    /// An image of an index that is asked for by its own id.
    #[error(
        "cannot remove image {image}: index {index} has it; remove the index, or take the image out of it with 'tote manifest remove'"
    )]
    ImageOfIndex {
        /// Its short id.
        image: String,
        /// The name or the short id of the index.
        index: String,
    },
    /// An image that a container has; docker's wording.
    #[error(
        "conflict: unable to remove {image} ({}) - {user} {} image",
        if *.runs || *.mounted || *.forced { "cannot be forced" } else { "must force" },
        if *.runs { "is running with this" } else if *.mounted { "is mounted and uses this" } else { "is using this" }
    )]
    ImageInUse {
        /// The given text.
        image: String,
        /// `container` and its name or short id; or a pool.
        user: String,
        /// Whether it runs.
        runs: bool,
        /// Whether it is mounted for other programs.
        mounted: bool,
        /// Whether force was used: the image has no name that it could lose.
        forced: bool,
    },
    /// An image that was not here, and is not now; the process that pulled has said why.
    #[error("image {0} could not be pulled")]
    NotPulled(String),
    /// An image whose files must be put into one directory again, which takes the ids of its owners.
    #[error("the directory of image {0} is missing and could not be made again")]
    NoTree(String),
    /// The process that pulls an image.
    #[error("cannot {attempt} the process that pulls {image}")]
    PullProcess {
        /// The attempt, a verb phrase.
        attempt: &'static str,
        /// The image.
        image: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// An invalid filter.
    #[error(
        "invalid filter {0:?}: dangling=true|false, label=KEY[=VALUE], reference=PATTERN, before=IMAGE, since=IMAGE, until=TIMESTAMP"
    )]
    Filter(String),
    /// A tree that is to become a layer.
    #[error("cannot read the changes of a step of the build")]
    LayerTree(#[from] tote_archive::WalkError),
    /// A tree becomes an archive.
    #[error("cannot write a layer")]
    LayerArchive(#[from] tote_archive::WriteError),
    /// The output of a layer cannot be written.
    #[error("cannot write a layer")]
    LayerOutput(#[source] std::io::Error),
}

impl ImageFault {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoTree(_) => Some("load or pull the image once more"),
            Self::Images(error) => error.hint(),
            Self::Registry(error) => error.hint(),
            _ => None,
        }
    }
}
