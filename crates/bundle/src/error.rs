//! Why an option is refused, whichever it is.

mod daemon;
mod life;
mod mounting;
mod networking;
mod scalar;

use crate::capability::CapabilityError;
use crate::device::DeviceError;
use crate::disk::DiskError;
use crate::egress::EgressError;
use crate::egress_keep::EgressKeepError;
use crate::environment::EnvError;
use crate::health::HealthError;
use crate::host::HostError;
use crate::lifetime::{LogError, RestartError, SdNotifyError};
use crate::limit::LimitError;
use crate::mount::{MountOptionError, TmpfsError, VolumeError, VolumesFromError};
use crate::name::NameError;
use crate::namespace::ModeError;
use crate::network::NetworkModeError;
use crate::port::PortError;
use crate::publish::PublishError;
use crate::rate::RateError;
use crate::refused::RefusedError;
use crate::security::SecurityError;
use crate::value::{
    BooleanError, CpusError, CpusetError, DurationError, EmptyError, IntegerError, PairError, SignalError,
    SizeError, StreamError, TimezoneError, UlimitError, UmaskError,
};
pub use life::LifeError;
pub use mounting::MountingError;
pub use networking::NetworkingError;
pub use scalar::ScalarError;

/// Why an option is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No option of `run` has this name.
    #[error("unknown flag: --{0}")]
    Unknown(String),
    /// The value is not one that the option takes.
    #[error("invalid argument {value:?} for \"--{option}\" flag")]
    Value {
        /// The option's long name.
        option: String,
        /// The value as given.
        value: String,
        /// The reason, which describes a right value.
        #[source]
        source: ValueError,
    },
    /// A file given with `--env-file`.
    #[error("--env-file: invalid env file")]
    EnvFile(#[source] EnvError),
    /// A file given with `--egress`.
    #[error("--egress: invalid list in a file")]
    EgressFile(#[source] EgressError),
    /// A file given with `--label-file`.
    #[error("--label-file: invalid label file")]
    LabelFile(#[source] PairError),
}

/// The reason why an option's value is refused.
#[expect(missing_docs, reason = "each variant is the error of the value's own module")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("a NUL byte cannot be passed to the kernel")]
    Nul,
    #[error("the working directory '{0}' is invalid, it needs to be an absolute path")]
    Workdir(String),
    #[error("'{0}' is not an absolute path")]
    Writable(String),
    #[error("minimum memory limit allowed is 6MB: give at least 6m, or 0 for no limit")]
    LittleMemory,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Env(#[from] EnvError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error(transparent)]
    Mode(#[from] ModeError),
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error(transparent)]
    Rate(#[from] RateError),
    #[error(transparent)]
    Refused(#[from] RefusedError),
    /// A number, a name or another simple value.
    #[error(transparent)]
    Scalar(#[from] ScalarError),
    /// A volume, a mount or a disk.
    #[error(transparent)]
    Mounting(#[from] MountingError),
    /// A network, a port, a host or a policy.
    #[error(transparent)]
    Networking(#[from] NetworkingError),
    /// A restart policy, a health check, a log or a notification.
    #[error(transparent)]
    Life(#[from] LifeError),
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

parts! {
    ValueError {
        crate::isolation::IsolationError => Refused,
        EmptyError => Scalar,
        BooleanError => Scalar,
        IntegerError => Scalar,
        SizeError => Scalar,
        CpusError => Scalar,
        CpusetError => Scalar,
        DurationError => Scalar,
        SignalError => Scalar,
        UlimitError => Scalar,
        PairError => Scalar,
        StreamError => Scalar,
        TimezoneError => Scalar,
        UmaskError => Scalar,
        crate::id_map::IdMapError => Scalar,
        VolumeError => Mounting,
        MountOptionError => Mounting,
        TmpfsError => Mounting,
        DiskError => Mounting,
        VolumesFromError => Mounting,
        crate::secret::SecretError => Mounting,
        NetworkModeError => Networking,
        HostError => Networking,
        PortError => Networking,
        PublishError => Networking,
        EgressError => Networking,
        EgressKeepError => Networking,
        HealthError => Life,
        RestartError => Life,
        SdNotifyError => Life,
        LogError => Life,
    }
}

/// Gives a single option to `apply`, which returns whether it knows the name.
pub(crate) fn set_option(
    name: &str,
    value: &str,
    apply: impl FnOnce(&str, &str) -> Result<bool, ValueError>,
) -> Result<(), OptionError> {
    let outcome = if value.contains('\0') {
        Err(ValueError::Nul)
    } else {
        apply(name, value)
    };
    match outcome {
        Ok(true) => Ok(()),
        Ok(false) => Err(OptionError::Unknown(name.to_owned())),
        Err(source) => Err(OptionError::Value {
            option: name.to_owned(),
            value: value.to_owned(),
            source,
        }),
    }
}
