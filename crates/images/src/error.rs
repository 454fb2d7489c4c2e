//! Why something cannot be done with images.

use crate::archive_error::ArchiveError;
use crate::change::ChangeError;
use crate::manifest::ManifestError;
use crate::remote::RemoteError;
use std::path::PathBuf;
use tote_state::StateError;
use tote_sys::Errno;

/// Why something cannot be done with images.
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// The state root or a file in it.
    #[error(transparent)]
    State(#[from] StateError),
    /// The store.
    #[error(transparent)]
    Store(#[from] tote_store::StoreError),
    /// A registry.
    #[error(transparent)]
    Registry(#[from] tote_registry::Error),
    /// An archive or a layout.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A transfer, or what is asked of a registry.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A list of images for several platforms.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A name that no image can have.
    #[error(transparent)]
    Reference(#[from] tote_image::ReferenceError),
    /// An image's name with a digest, where only a tag will do.
    #[error("refusing to create a tag with a digest reference: {0}")]
    TagIsDigest(String),
    /// The same of a name that is to be taken away; podman's wording.
    #[error("{0}: untag by digest not supported")]
    UntagDigest(String),
    /// A name that an image does not have; podman's wording.
    #[error("{0}: tag not known")]
    UnknownTag(String),
    /// A document of an image.
    #[error(transparent)]
    ImageDocument(tote_image::DocumentError),
    /// An image for other machines.
    #[error(transparent)]
    NoPlatform(tote_image::NoPlatform),
    /// An image that is here, but for other machines than those that were asked for; docker's wording.
    #[error("image with reference {image} was found but does not provide the specified platform ({wanted})")]
    OtherPlatform {
        /// The image, as docker names it.
        image: String,
        /// What was asked for.
        wanted: Box<tote_image::Platform>,
    },
    /// A platform that is none.
    #[error(transparent)]
    Platform(#[from] tote_image::PlatformError),
    /// A line of `--change`.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A file that an option names.
    #[error("--{option}: {attempt} {path}")]
    File {
        /// The option.
        option: &'static str,
        /// What was tried.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The namespace of the owners of an image's files.
    #[error(transparent)]
    Owners(#[from] tote_runtime::RuntimeError),
    /// Something of the kernel's.
    #[error("cannot {attempt}")]
    Kernel {
        /// What was tried.
        attempt: &'static str,
        /// Why not.
        #[source]
        source: Errno,
    },
}

impl ImagesError {
    /// What to do about it, where something helps, and where the crates below this one do not say it themselves.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Archive(error) => error.hint(),
            Self::Remote(error) => error.hint(),
            _ => None,
        }
    }
}
