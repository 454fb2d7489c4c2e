//! Errors of contexts, and of the files that say what a build does.

use std::io::Error;
use std::path::PathBuf;

/// Reason why a context or its Dockerfile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// Unreadable context.
    #[error("cannot read the build context {path}")]
    Context {
        /// Directory, or `-`.
        path: PathBuf,
        /// Reason of the failure.
        #[source]
        source: Error,
    },
    /// Unreadable file of the context.
    #[error("cannot read the build context")]
    ContextFile(#[source] tote_rootfs::ReadError),
    /// Unreadable Dockerfile.
    #[error("failed to read dockerfile {path}")]
    Dockerfile {
        /// Path of the Dockerfile.
        path: PathBuf,
        /// Reason of the failure.
        #[source]
        source: Error,
    },
    /// Context without a Dockerfile.
    #[error("cannot find a Dockerfile in {0}: there is neither Dockerfile nor Containerfile")]
    NoDockerfile(PathBuf),
    /// Syntax error in the Dockerfile.
    #[error(transparent)]
    Parse(#[from] tote_dockerfile::ParseError),
    /// Invalid `.dockerignore`.
    #[error("error reading .dockerignore")]
    Ignore(#[source] tote_dockerfile::IgnoreError),
    /// Invalid pattern.
    #[error(transparent)]
    Glob(tote_build::GlobError),
    /// Named context from an address that is not an archive.
    #[error("cannot use {0} as a build context: it is not an archive")]
    NoArchive(PathBuf),
    /// Unknown named context.
    #[error("there is no build context {0:?}")]
    NoContext(String),
}

impl ContextError {
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoDockerfile(_) => Some("give the Dockerfile's path with -f, or another directory"),
            Self::Context { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Some("give a directory, an archive (rootfs.tar) or - for standard input; a name goes to -t")
            }
            _ => None,
        }
    }
}
