//! Errors in a Dockerfile, in docker's words.

mod argument;
mod flag;
mod healthcheck;

pub use argument::ArgumentReason;
pub use flag::FlagReason;
pub use healthcheck::HealthcheckReason;
/// A Dockerfile that cannot be parsed, and the line on which the wrong instruction begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("dockerfile parse error on line {line}: {reason}")]
pub struct ParseError {
    /// Line number, counted from 1.
    pub line: usize,
    /// The reason.
    pub reason: Reason,
}

/// Why an instruction is refused. The texts are docker's, so that users find help about them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message is its documentation")]
pub enum Reason {
    #[error("file with no instructions")]
    Empty,
    #[error("invalid ESCAPE '{0}'. Must be ` or \\")]
    Escape(String),
    #[error("only one {0} parser directive can be used")]
    DuplicateDirective(String),
    #[error("unterminated heredoc")]
    Heredoc,
    #[error("unknown instruction: {name}{}", suggestion.map(|word| format!(" (did you mean {word}?)")).unwrap_or_default())]
    Unknown {
        name: String,
        suggestion: Option<&'static str>,
    },
    #[error("no build stage in current context")]
    NoStage,
    #[error("invalid name for build stage: {0:?}, name can't start with a number or contain symbols")]
    StageName(String),
    #[error("Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed")]
    OnbuildChain,
    #[error("{0} isn't allowed as an ONBUILD trigger")]
    OnbuildTrigger(String),
    /// An option of the instruction is refused.
    #[error(transparent)]
    Flag(#[from] FlagReason),
    /// The arguments are refused.
    #[error(transparent)]
    Argument(#[from] ArgumentReason),
    /// The health check is refused.
    #[error(transparent)]
    Healthcheck(#[from] HealthcheckReason),
}
