//! Errors of archives of images and of layouts.

use std::path::PathBuf;

/// Error of reading images from an archive or a layout, or of writing them there.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Failed read of an archive of images.
    #[error("cannot read the archive of images")]
    ImageInput(#[source] std::io::Error),
    /// File that is not a valid archive of images.
    #[error("cannot read the archive of images")]
    ImageArchive(#[source] tote_archive::ReadError),
    /// Archive without the files that would describe its content.
    #[error("not an archive of images: it has neither manifest.json (docker) nor index.json (OCI)")]
    NoImageArchive,
    /// Incomplete archive.
    #[error("the archive of images lacks {0}")]
    ArchiveLacks(String),
    /// Configuration with another number of layers than the archive.
    #[error("the image's configuration names {config} layers, the archive has {archive}")]
    LayerCount {
        /// Number in the configuration.
        config: usize,
        /// Number in the archive.
        archive: usize,
    },
    /// File of an archive that should be a layer, but cannot be read as one.
    #[error("{file} of the archive")]
    LayerFile {
        /// Name of the file.
        file: String,
        /// Reason of the failure.
        #[source]
        source: Box<tote_store::StoreError>,
    },
    /// Unreadable file of a layout.
    #[error("cannot read {path}")]
    LayoutFile {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        #[source]
        source: std::io::Error,
    },
    /// Layout that another process is changing, or that cannot be opened for a change.
    #[error("cannot lock the layout {path}")]
    LayoutLock {
        /// Path of the directory.
        path: PathBuf,
        /// Reason of the failure, which names the process.
        #[source]
        source: std::io::Error,
    },
    /// File of a layout whose content does not match the digest in its name.
    #[error("{0} is not what its digest says: it was damaged or forged")]
    WrongBlob(String),
    /// Failed write of an archive.
    #[error("cannot write the archive of images")]
    SaveArchive(#[source] tote_archive::WriteError),
    /// Failed serialisation of a document.
    #[error("cannot write a document of the archive of images")]
    SaveDocument(#[source] serde_json::Error),
    /// Name that no archive can hold.
    #[error("cannot write the archive of images")]
    SavePath(#[source] tote_archive::PathError),
    /// Failed write of a file of an archive or a layout.
    #[error("cannot save {name}")]
    Save {
        /// Name in the archive, or path.
        name: String,
        /// Reason of the failure.
        #[source]
        source: std::io::Error,
    },
}

impl ArchiveError {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::ImageArchive(_) | Self::NoImageArchive => Some(
                "give what 'tote save' or 'docker save' has written, or a directory with an OCI layout; 'tote import' takes a root file system",
            ),
            Self::LayoutFile { path, source }
                if path.ends_with(tote_image::layout::INDEX)
                    && source.kind() == std::io::ErrorKind::NotFound =>
            {
                Some(
                    "this directory is no OCI layout; give one, or the archive that 'tote save' or 'docker save' has written",
                )
            }
            _ => None,
        }
    }
}
