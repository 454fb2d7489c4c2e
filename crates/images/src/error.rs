//! Errors of the work with images.

use crate::archive_error::ArchiveError;
use crate::change::ChangeError;
use crate::manifest::ManifestError;
use crate::remote::RemoteError;
use std::path::PathBuf;
use tote_state::StateError;
use tote_sys::Errno;

/// Error of the work with images.
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// Error of the state root or of a file in it.
    #[error(transparent)]
    State(#[from] StateError),
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] tote_store::StoreError),
    /// Error of a registry.
    #[error(transparent)]
    Registry(#[from] tote_registry::Error),
    /// Error of an archive or a layout.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Error of a transfer, or of a request to a registry.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// Error of a list of images for several platforms.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Invalid name of an image.
    #[error(transparent)]
    Reference(#[from] tote_image::ReferenceError),
    /// The name of no image in a `FROM`; docker's wording.
    #[error("'scratch' is a reserved name: it stands for no image at all in the FROM of a Dockerfile")]
    Scratch,
    /// Image name with a digest in the place of a tag.
    #[error("refusing to create a tag with a digest reference: {0}")]
    TagIsDigest(String),
    /// Image name with a digest where `untag` needs a tag; podman's wording.
    #[error("{0}: untag by digest not supported")]
    UntagDigest(String),
    /// Name that the image does not have; podman's wording.
    #[error("{0}: tag not known")]
    UnknownTag(String),
    /// Invalid document of an image.
    #[error(transparent)]
    ImageDocument(tote_image::DocumentError),
    /// Image for other platforms than the requested one.
    #[error(transparent)]
    NoPlatform(tote_image::NoPlatform),
    /// Image that is present, but for other platforms than those requested; docker's wording.
    #[error("image with reference {image} was found but does not provide the specified platform ({wanted})")]
    OtherPlatform {
        /// Image, as docker names it.
        image: String,
        /// Requested platform.
        wanted: Box<tote_image::Platform>,
    },
    /// Invalid platform.
    #[error(transparent)]
    Platform(#[from] tote_image::PlatformError),
    /// Refused line of `--change`.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// Failed access to a file that an option names.
    #[error("--{option}: {attempt} {path}")]
    File {
        /// Name of the option.
        option: &'static str,
        /// Attempted action.
        attempt: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        #[source]
        source: std::io::Error,
    },
    /// Error of the namespace for the owners of an image's files.
    #[error(transparent)]
    Owners(#[from] tote_runtime::RuntimeError),
    /// Failed system call.
    #[error("cannot {attempt}")]
    Kernel {
        /// Attempted action.
        attempt: &'static str,
        /// Reason of the failure.
        #[source]
        source: Errno,
    },
}

impl ImagesError {
    /// Suggests a remedy, for errors that have one and whose own crate does not suggest it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Archive(error) => error.hint(),
            Self::Remote(error) => error.hint(),
            _ => None,
        }
    }
}
