//! Errors about kernels.

use std::path::PathBuf;

/// Why a kernel cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A file cannot be read.
    #[error("cannot {attempt} {path}")]
    File {
        /// The attempt, as a verb.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The directory lacks a kernel with its modules.
    #[error("cannot find a kernel in {0}: it lacks a boot/vmlinuz-RELEASE with a lib/modules/RELEASE")]
    NoKernel(PathBuf),
    /// The file is not a package.
    #[error("cannot unpack {path}: {reason}")]
    Package {
        /// The package.
        path: PathBuf,
        /// Fault of the package.
        reason: String,
    },
    /// The archive in a package cannot be unpacked.
    #[error("cannot unpack the archive in {path}")]
    Extract {
        /// The package.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<tote_archive::ExtractError>,
    },
    /// The image of the kernel is not one.
    #[error("cannot take the kernel out of its image: {0}")]
    Image(&'static str),
    /// The image of the kernel cannot be decompressed.
    #[error("cannot decompress the kernel")]
    Decompress(#[source] std::io::Error),
    /// A module that a guest needs is neither in the kernel nor beside it.
    #[error("kernel {release} lacks {name}, which a guest needs")]
    NoModule {
        /// Release of the kernel.
        release: String,
        /// Name of the module.
        name: String,
    },
    /// The modules that were made ready are not an archive of modules.
    #[error("cannot read the modules of the kernel that was made ready: they are damaged")]
    Modules,
    /// A module is not an ELF file as the kernel has them.
    #[error("cannot read module {0}: it is not an ELF file of this machine")]
    Module(String),
}

impl KernelError {
    pub(crate) fn file(
        attempt: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            attempt,
            path,
            source,
        }
    }
}
