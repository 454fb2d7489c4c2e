//! Errors of requests: options, names, and files that they lead to.

use std::path::PathBuf;

/// Reason why a request is refused before anything is done.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
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
    /// More processors than there are; docker's wording.
    #[error("Range of CPUs is from 0.01 to {0}.00, as there are only {0} CPUs available")]
    Processors(u64),
    /// A name that is in use; docker's wording.
    #[error("the container name {name:?} is already in use by container {id}")]
    NameTaken {
        /// The name.
        name: String,
        /// By whom.
        id: String,
    },
    /// Limits without a cgroup.
    #[error("resource limits need a cgroup: remove the limits or --cgroups=disabled")]
    CgroupsDisabled,
    /// Device rules without a cgroup.
    #[error(
        "--cgroups=disabled leaves nothing that could hold the container to its device rules: leave that out, or what \
         needs them (a --device of fewer than rwm, a mount with :rslave or :rshared, --device-cgroup-rule, the right to mount)"
    )]
    DeviceRulesDisabled,
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
    /// Root's containers in user namespaces of their own.
    #[error(
        "--userns: root's containers cannot be remapped yet, because the image's files would have no owner"
    )]
    NoRemap,
    /// `--cidfile` that is there; docker's wording.
    #[error("container ID file found, make sure the other container isn't running or delete {0}")]
    CidFile(String),
    /// `--driver` with an unknown name.
    #[error("cannot use --driver")]
    Driver(#[from] tote_driver::DriverError),
    /// The user.
    #[error(transparent)]
    User(#[from] tote_bundle::UserError),
    /// A pruning.
    #[error(transparent)]
    Prune(#[from] crate::prune::PruneFault),
}

impl RequestError {
    pub(crate) fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NameTaken { name, .. } => {
                return Some(format!(
                    "remove that container with 'tote rm {name}' (with -f where it still runs; run --replace does both), or choose another name"
                ));
            }
            Self::NoRemap => {
                "run as an unprivileged user, whose containers have user namespaces of their own"
            }
            Self::ImageDisk(_) => "say it yourself: --disk-size SIZE, or --driver overlay for none",
            Self::NotATerminal => "leave out -t, or run in a terminal",
            _ => return None,
        };
        Some(text.to_owned())
    }
}
