//! Errors of HEALTHCHECK.

/// Why a health check is refused.
#[expect(missing_docs, reason = "each variant's message is its documentation")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HealthcheckReason {
    #[error("HEALTHCHECK NONE takes no arguments")]
    HealthNone,
    #[error("Missing command after HEALTHCHECK CMD")]
    HealthCommand,
    #[error("Unknown type {0:?} in HEALTHCHECK (try CMD)")]
    HealthType(String),
    #[error("time: invalid duration {0:?}")]
    Duration(String),
    #[error("Interval {0:?} cannot be less than 1ms")]
    ShortInterval(&'static str),
    #[error("--retries must be a number that is not negative: {0:?}")]
    Retries(String),
}
