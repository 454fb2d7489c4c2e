//! Why an archive of images, or a layout, cannot be read or written.

use std::path::PathBuf;

/// Why images cannot be read out of an archive or a layout, or written into one.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// An archive of images cannot be read.
    #[error("cannot read the archive of images")]
    ImageInput(#[source] std::io::Error),
    /// An archive of images is none.
    #[error("cannot read the archive of images")]
    ImageArchive(#[source] tote_archive::ReadError),
    /// An archive with neither of the files that would say what is in it.
    #[error("not an archive of images: it has neither manifest.json (docker) nor index.json (OCI)")]
    NoImageArchive,
    /// An archive that is not complete.
    #[error("the archive of images lacks {0}")]
    ArchiveLacks(String),
    /// A configuration of other layers than the archive has.
    #[error("the image's configuration names {config} layers, the archive has {archive}")]
    LayerCount {
        /// In the configuration.
        config: usize,
        /// In the archive.
        archive: usize,
    },
    /// A file of an archive that should be a layer.
    #[error("{file} of the archive")]
    LayerFile {
        /// Its name.
        file: String,
        /// What is wrong with it.
        #[source]
        source: Box<tote_store::StoreError>,
    },
    /// A file of a layout.
    #[error("cannot read {path}")]
    LayoutFile {
        /// Its path.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A file of a layout that is not what its name says.
    #[error("{0} is not what its digest says: it was damaged or forged")]
    WrongBlob(String),
    /// An archive cannot be written.
    #[error("cannot write the archive of images")]
    SaveArchive(#[source] tote_archive::WriteError),
    /// A document cannot be written.
    #[error("cannot write a document of the archive of images")]
    SaveDocument(#[source] serde_json::Error),
    /// A name that no archive can have.
    #[error("cannot write the archive of images")]
    SavePath(#[source] tote_archive::PathError),
    /// A file of an archive or a layout cannot be written.
    #[error("cannot save {name}")]
    Save {
        /// In the archive, or its path.
        name: String,
        /// Why not.
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
            _ => None,
        }
    }
}
