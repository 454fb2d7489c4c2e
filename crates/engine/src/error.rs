//! Errors of the engine: the attempt, its object, and the remedy.

use std::path::PathBuf;
use tote_images::{ArchiveError, ImagesError};
use tote_state::StateError;
use tote_sys::Errno;

/// Why a use case failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// An option's value.
    #[error(transparent)]
    Option(#[from] tote_bundle::OptionError),
    /// A label of an image that says how much its containers may write.
    #[error("label {} of the image", tote_bundle::DISK_SIZE_LABEL)]
    ImageDisk(#[source] Box<tote_bundle::OptionError>),
    /// An invalid name of an image.
    #[error(transparent)]
    Image(#[from] tote_bundle::ImageError),
    /// Options that contradict each other.
    #[error(transparent)]
    Spec(#[from] tote_bundle::SpecError),
    /// The state root or a file in it.
    #[error(transparent)]
    State(StateError),
    /// A name that is in use; docker's wording.
    #[error("the container name {name:?} is already in use by container {id}")]
    NameTaken {
        /// The name.
        name: String,
        /// By whom.
        id: String,
    },
    /// A container that is not running.
    #[error("container {0:?} is not running")]
    NoContainer(String),
    /// Something that cannot be done with a container.
    #[error(transparent)]
    Life(#[from] crate::container::LifeError),
    /// Limits without a cgroup.
    #[error("resource limits need a cgroup: remove the limits or --cgroups=disabled")]
    CgroupsDisabled,
    /// Device rules without a cgroup.
    #[error(
        "--cgroups=disabled leaves nothing that could hold the container to its device rules: leave that out, or what \
         needs them (a --device of fewer than rwm, a mount with :rslave or :rshared, --device-cgroup-rule, the right to mount)"
    )]
    DeviceRulesDisabled,
    /// `--cgroup-parent`
    #[error("cannot use --cgroup-parent")]
    CgroupPath(#[source] tote_cgroup::PathError),
    /// `--cgroups=split`
    #[error("cannot use --cgroups=split")]
    CgroupRoom(#[source] tote_cgroup::Error),
    /// A unit of systemd's.
    #[error(transparent)]
    Unit(#[from] crate::unit::UnitError),
    /// A record cannot be read.
    #[error(transparent)]
    Record(#[from] tote_state::record::RecordError),
    /// Something that cannot be done with a pod.
    #[error(transparent)]
    Pod(#[from] crate::pod::PodError),
    /// A container's streams or its log.
    #[error(transparent)]
    Stream(#[from] crate::container::StreamError),
    /// A container whose namespaces are to be joined, and that cannot be found: without it there is nothing to run.
    #[error("{0}")]
    NoPeer(String),
    /// An invalid value of an option; the text is whole.
    #[error("{0}")]
    Usage(String),
    /// The host's skeleton.
    #[error("cannot prepare the host image")]
    HostImage(#[source] tote_rootfs::HostImageError),
    /// The directory of `rootfs:DIR`.
    #[error("cannot use image rootfs:{given}")]
    Directory {
        /// The given text.
        given: String,
        /// Why not.
        #[source]
        source: tote_rootfs::DirectoryError,
    },
    /// Images: archives of them, registries, lists.
    #[error(transparent)]
    Images(ImagesError),
    /// The store.
    #[error(transparent)]
    Store(#[from] tote_store::StoreError),
    /// A name that no image can have.
    #[error(transparent)]
    Reference(#[from] tote_image::ReferenceError),
    /// A document of an image.
    #[error(transparent)]
    ImageDocument(tote_image::DocumentError),
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
    /// The processes of a container cannot be shown.
    #[error(transparent)]
    Top(#[from] crate::top::TopError),
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
    /// A base image from a distribution's packages.
    #[error(transparent)]
    Bootstrap(#[from] crate::changes::BootstrapError),
    /// An invalid filter.
    #[error(
        "invalid filter {0:?}: dangling=true|false, label=KEY[=VALUE], reference=PATTERN, before=IMAGE, since=IMAGE, until=TIMESTAMP"
    )]
    Filter(String),
    /// A filter of a pruning.
    #[error(
        "invalid filter {0:?}: until=TIMESTAMP, label=KEY[=VALUE], label!=KEY[=VALUE]; for images also dangling=true|false"
    )]
    PruneFilter(String),
    /// Two options of a pruning; docker's wording.
    #[error("the \"until\" filter is not supported with \"--volumes\"")]
    PruneVolumes,
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
        if *.runs { "cannot be forced" } else { "must force" },
        if *.runs { "is running with this" } else { "is using this" }
    )]
    ImageInUse {
        /// The given text.
        image: String,
        /// `container` and its name or short id; or a pool.
        user: String,
        /// Whether it runs.
        runs: bool,
    },
    /// `--driver` with an unknown name.
    #[error("cannot use --driver")]
    Driver(#[from] tote_driver::DriverError),
    /// The container's storage.
    #[error(transparent)]
    Storage(#[from] tote_driver::PrepareError),
    /// A container's directory that does not go.
    #[error(transparent)]
    Remove(#[from] tote_driver::RemoveError),
    /// A registry.
    #[error(transparent)]
    Registry(#[from] tote_registry::Error),
    /// An invalid platform.
    #[error(transparent)]
    Platform(#[from] tote_image::PlatformError),
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
    /// The user.
    #[error(transparent)]
    User(#[from] tote_bundle::UserError),
    /// `/etc/passwd` or `/etc/group` of the image.
    #[error("cannot look up the user in the image")]
    UserFile(#[source] tote_rootfs::ReadError),
    /// A file that an option names.
    #[error("--{option}: {attempt} {path}")]
    File {
        /// The option.
        option: &'static str,
        /// The attempt, a verb phrase.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A profile that does not parse.
    #[error("--security-opt seccomp={path}")]
    Profile {
        /// Its file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// A bind mount's source; docker's wording.
    #[error("invalid mount config for type \"bind\": bind source path does not exist: {0}")]
    NoSource(String),
    /// A path that is not a device.
    #[error("--device {0}: not a device node")]
    Device(String),
    /// A limit for a path that is not a block device.
    #[error("--{option} {path}: not a block device: give a disk, such as /dev/sda")]
    BlockDevice {
        /// The option's long name.
        option: &'static str,
        /// The named path.
        path: String,
    },
    /// `-it` without a terminal; docker's wording.
    #[error("the input device is not a TTY")]
    NotATerminal,
    /// The layout of cgroups.
    #[error("cannot find the cgroups of this machine")]
    CgroupLayout(#[source] tote_cgroup::LayoutError),
    /// Limits that mean nothing.
    #[error(transparent)]
    CgroupPlan(#[from] tote_cgroup::PlanError),
    /// Ids that cannot be had.
    #[error("user {0} needs more than one id in the container, and this user has no ranges")]
    NoRanges(String),
    /// Root's containers in user namespaces of their own.
    #[error(
        "--userns: root's containers cannot be remapped yet, because the image's files would have no owner"
    )]
    NoRemap,
    /// `--cidfile` that is there; docker's wording.
    #[error("container ID file found, make sure the other container isn't running or delete {0}")]
    CidFile(String),
    /// A spec that cannot be planned.
    #[error(transparent)]
    Plan(#[from] tote_sandbox::PlanError),
    /// The start or the watch over it.
    #[error(transparent)]
    Run(#[from] tote_runtime::RuntimeError),
    /// A build.
    #[error(transparent)]
    Build(Box<tote_build::BuildError<EngineError>>),
    /// A step of a build.
    #[error(transparent)]
    BuildFault(#[from] crate::BuildFault),
    /// A tree that is to become a layer.
    #[error("cannot read the changes of a step of the build")]
    LayerTree(#[from] tote_archive::WalkError),
    /// A tree becomes an archive.
    #[error("cannot write a layer")]
    LayerArchive(#[from] tote_archive::WriteError),
    /// The output of a layer cannot be written.
    #[error("cannot write a layer")]
    LayerOutput(#[source] std::io::Error),
    /// Something of the kernel's.
    #[error("cannot {attempt}")]
    Kernel {
        /// The attempt, a verb phrase.
        attempt: &'static str,
        /// Why not.
        #[source]
        source: Errno,
    },
}

impl From<StateError> for EngineError {
    /// A record that says nothing keeps its own variant: several use cases go on without it.
    fn from(error: StateError) -> Self {
        match error {
            StateError::Record(error) => Self::Record(error),
            error => Self::State(error),
        }
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
            ImagesError::Registry(error) => Self::Registry(error),
            ImagesError::Reference(error) => Self::Reference(error),
            ImagesError::Platform(error) => Self::Platform(error),
            ImagesError::ImageDocument(error) => Self::ImageDocument(error),
            ImagesError::Owners(error) => Self::Run(error),
            ImagesError::Kernel { attempt, source } => Self::Kernel { attempt, source },
            ImagesError::File {
                option,
                attempt,
                path,
                source,
            } => Self::File {
                option,
                attempt,
                path,
                source,
            },
            error => Self::Images(error),
        }
    }
}

impl From<ArchiveError> for EngineError {
    fn from(error: ArchiveError) -> Self {
        Self::Images(error.into())
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
