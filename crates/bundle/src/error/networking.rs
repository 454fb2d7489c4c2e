//! Errors of options that describe networks.

use crate::egress::EgressError;
use crate::egress_keep::EgressKeepError;
use crate::host::HostError;
use crate::network::NetworkModeError;
use crate::port::PortError;
use crate::publish::PublishError;

/// Why a description of a network is refused.
#[expect(missing_docs, reason = "each variant is the error of the value's own module")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkingError {
    /// `--network`.
    #[error(transparent)]
    Network(#[from] NetworkModeError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Port(#[from] PortError),
    /// `--publish`.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// `--egress`.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// `--egress-keep`.
    #[error(transparent)]
    EgressKeep(#[from] EgressKeepError),
}
