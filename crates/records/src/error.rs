//! Errors of the engine: the attempt, its object, and the remedy.

mod image;
mod machine;
mod part;
mod request;

pub use image::ImageFault;
pub use machine::MachineError;
pub use part::{Part, PartError};
pub use request::RequestError;
use std::path::PathBuf;
use tote_images::{ArchiveError, ImagesError};
use tote_state::StateError;
use tote_sys::Errno;

/// Why a use case failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The state root or a file in it.
    #[error(transparent)]
    State(#[from] StateError),
    /// Something that cannot be done with a container.
    #[error(transparent)]
    Life(#[from] crate::container::LifeError),
    /// Something that cannot be done with a pod.
    #[error(transparent)]
    Pod(#[from] crate::pod::PodError),
    /// An invalid value of an option; the text is whole.
    #[error("{0}")]
    Usage(String),
    /// The store.
    #[error(transparent)]
    Store(#[from] tote_store::StoreError),
    /// An error with the changes of a container.
    #[error(transparent)]
    Container(#[from] crate::changes::ContainerError),
    /// A process that is to join a container.
    #[error(transparent)]
    Exec(#[from] crate::exec::ExecError),
    /// Looking at what there is.
    #[error(transparent)]
    Look(#[from] crate::LookError),
    /// Pools.
    #[error(transparent)]
    Pool(#[from] crate::PoolError),
    /// The start or the watch over it.
    #[error(transparent)]
    Run(#[from] tote_runtime::RuntimeError),
    /// Something of the kernel's.
    #[error("cannot {attempt}")]
    Kernel {
        /// The attempt, a verb phrase.
        attempt: &'static str,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// A request that cannot be meant.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// This machine does not give what a container needs.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Something that cannot be done with an image.
    #[error(transparent)]
    Image(#[from] ImageFault),
    /// A part of the engine above this crate.
    #[error(transparent)]
    Part(Part),
}

/// Makes errors of a part errors of the whole.
#[macro_export]
macro_rules! parts {
    ($whole:ty { $($source:ty => $part:ident),* $(,)? }) => {
        $(impl From<$source> for $whole {
            fn from(error: $source) -> Self {
                Self::$part(error.into())
            }
        })*
    };
}

parts! {
    EngineError {
        tote_state::record::RecordError => State,
        crate::container::StreamError => Life,
        crate::container::StartError => Life,
        tote_bundle::OptionError => Request,
        tote_bundle::ImageError => Request,
        tote_bundle::SpecError => Request,
        tote_driver::DriverError => Request,
        tote_bundle::UserError => Request,
        tote_cgroup::PlanError => Machine,
        tote_driver::PrepareError => Machine,
        tote_driver::RemoveError => Machine,
        tote_sandbox::PlanError => Machine,
        tote_image::ReferenceError => Image,
        tote_registry::Error => Image,
        tote_image::PlatformError => Image,
        tote_archive::WalkError => Image,
        tote_archive::WriteError => Image,
    }
}

impl From<tote_runtime::ErrandError> for EngineError {
    fn from(error: tote_runtime::ErrandError) -> Self {
        Self::Run(error.into())
    }
}

impl From<ImagesError> for EngineError {
    /// Errors from below the images keep their own variants: other use cases fail with them, too.
    fn from(error: ImagesError) -> Self {
        match error {
            ImagesError::State(error) => error.into(),
            ImagesError::Store(error) => Self::Store(error),
            ImagesError::Registry(error) => Self::Image(ImageFault::Registry(error)),
            ImagesError::Reference(error) => Self::Image(ImageFault::Reference(error)),
            ImagesError::Platform(error) => Self::Image(ImageFault::Platform(error)),
            ImagesError::ImageDocument(error) => Self::Image(ImageFault::ImageDocument(error)),
            ImagesError::Owners(error) => Self::Run(error),
            ImagesError::Kernel { attempt, source } => Self::Kernel { attempt, source },
            ImagesError::File {
                option,
                attempt,
                path,
                source,
            } => Self::Request(RequestError::File {
                option,
                attempt,
                path,
                source,
            }),
            error => Self::Image(ImageFault::Images(error)),
        }
    }
}

impl From<ArchiveError> for EngineError {
    fn from(error: ArchiveError) -> Self {
        Self::Image(ImageFault::Images(error.into()))
    }
}

impl EngineError {
    /// The error of an attempt, in words such as `make`, on a file or directory of the state.
    pub fn file<E: Into<std::io::Error>>(
        attempt: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        move |source| {
            Self::State(StateError::File {
                attempt,
                path: path.into(),
                source: source.into(),
            })
        }
    }

    /// True if the cause is a lack of room, on the disk or within a quota.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let by_file = error.downcast_ref::<std::io::Error>();
            let by_call = error.downcast_ref::<Errno>();
            if by_file.is_some_and(tote_state::locked::is_full_disk)
                || by_call.is_some_and(|errno| tote_sys::is_full(*errno))
            {
                return true;
            }
            cause = error.source();
        }
        false
    }
}
