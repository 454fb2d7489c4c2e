//! Errors of stages that are built at once, and of secrets.

/// Stage that was built in a process of its own, and has not said how it went.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StageFault {
    /// Signal of the user's.
    #[error("the build was ended by signal {signal}")]
    Interrupted {
        /// Number of the signal.
        signal: i32,
    },
    /// Process of the stage that is gone.
    #[error("cannot go on without the process of the stage, which {how}")]
    Gone {
        /// How it ended.
        how: String,
    },
}

/// Unusable secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretFault {
    /// Missing secret.
    #[error("secret {0}: not found: give --secret id={0},src=FILE")]
    Missing(String),
    /// Secret that is not text.
    #[error("cannot put secret {0} into a variable: it is not text")]
    NotText(String),
}
