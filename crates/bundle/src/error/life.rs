//! Errors of options about the life of a container.

use crate::health::HealthError;
use crate::lifetime::{LogError, RestartError, SdNotifyError};

/// Why a rule about the life of a container is refused.
#[expect(missing_docs, reason = "each variant is the error of the value's own module")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LifeError {
    #[error(transparent)]
    Health(#[from] HealthError),
    #[error(transparent)]
    Restart(#[from] RestartError),
    #[error(transparent)]
    SdNotify(#[from] SdNotifyError),
    #[error(transparent)]
    Log(#[from] LogError),
}
