//! Errors of the engine: the attempt, its object, and the remedy.

mod image;
mod machine;
mod request;

pub use image::ImageFault;
pub use machine::MachineError;
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
    /// A copy into or out of a container.
    #[error(transparent)]
    Copy(#[from] crate::copy::CopyError),
    /// A process that is to join a container.
    #[error(transparent)]
    Exec(#[from] crate::exec::ExecError),
    /// A session with tools.
    #[error(transparent)]
    Debug(#[from] crate::debug::DebugError),
    /// Looking at what there is.
    #[error(transparent)]
    Look(#[from] crate::LookError),
    /// Volumes.
    #[error(transparent)]
    Volume(#[from] crate::VolumeFault),
    /// Networks.
    #[error(transparent)]
    Network(#[from] crate::NetworkFault),
    /// Pools.
    #[error(transparent)]
    Pool(#[from] crate::PoolError),
    /// The start or the watch over it.
    #[error(transparent)]
    Run(#[from] tote_runtime::RuntimeError),
    /// A build.
    #[error(transparent)]
    Build(Box<tote_build::BuildError<EngineError>>),
    /// A step of a build.
    #[error(transparent)]
    BuildFault(#[from] crate::BuildFault),
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
}

/// Makes errors of a part errors of the whole.
macro_rules! parts {
    ($whole:ty { $($source:ty => $part:ident),* $(,)? }) => {
        $(impl From<$source> for $whole {
            fn from(error: $source) -> Self {
                Self::$part(error.into())
            }
        })*
    };
}
pub(crate) use parts;

parts! {
    EngineError {
        tote_state::record::RecordError => State,
        crate::container::StreamError => Life,
        crate::container::StartError => Life,
        crate::copy::PlaceError => Copy,
        crate::copy::TransferFault => Copy,
        crate::RootlessFault => Network,
        crate::network::AddressFault => Network,
        crate::ConnectFault => Network,
        crate::network::DriverFault => Network,
        crate::network::PublishFault => Network,
        crate::network::TrafficFault => Network,
        crate::BuildOptionError => BuildFault,
        crate::ContextError => BuildFault,
        crate::RepositoryFault => BuildFault,
        crate::CacheFault => BuildFault,
        crate::changes::BootstrapError => Container,
        crate::top::TopError => Look,
        tote_bundle::OptionError => Request,
        tote_bundle::ImageError => Request,
        tote_bundle::SpecError => Request,
        tote_driver::DriverError => Request,
        tote_bundle::UserError => Request,
        crate::unit::UnitError => Request,
        tote_cgroup::PlanError => Machine,
        tote_driver::PrepareError => Machine,
        tote_driver::RemoveError => Machine,
        tote_sandbox::PlanError => Machine,
        crate::vm::VmFault => Machine,
        tote_image::ReferenceError => Image,
        tote_registry::Error => Image,
        tote_image::PlatformError => Image,
        tote_archive::WalkError => Image,
        tote_archive::WriteError => Image,
        crate::SlimError => Image,
        crate::GraphFault => Image,
        crate::debug::KeepError => Debug,
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
    pub(crate) fn file<E: Into<std::io::Error>>(
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

    /// Whether there is no room for a file of the state, on the disk or within a quota.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::State(error) if error.is_full())
    }
}
