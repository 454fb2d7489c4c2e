//! Errors of a build, with their place in the file.

use crate::RepositoryError;
use tote_dockerfile::{ExpandError, ParseError, Reason};

/// Why a build failed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError<E: std::error::Error + 'static> {
    /// An instruction is wrong.
    #[error("line {line}: {text}")]
    Instruction {
        /// Line where it begins; 0 for options of the build.
        line: usize,
        /// The instruction.
        text: String,
        /// The reason.
        #[source]
        source: Fault,
    },
    /// The execution of an instruction failed.
    #[error("line {line}: {text}")]
    Step {
        /// Line where it begins; 0 for options of the build.
        line: usize,
        /// The instruction.
        text: String,
        /// The cause.
        #[source]
        source: E,
    },
    /// A stage that was built beside others failed.
    #[error("{stage}")]
    Stage {
        /// Place and name of the stage, as its output has them.
        stage: String,
        /// The reason.
        #[source]
        source: Box<Self>,
    },
    /// The target is not a stage.
    #[error("target stage {name:?} could not be found{}", suggestion.as_ref().map(|stage| format!(" (did you mean {stage}?)")).unwrap_or_default())]
    Target {
        /// Target as given.
        name: String,
        /// The stage whose name differs in one place.
        suggestion: Option<String>,
    },
    /// The result of the build cannot be written.
    #[error(transparent)]
    Result(E),
}

impl<E: std::error::Error + 'static> BuildError<E> {
    /// Returns the error of the stage itself, for a stage that was built beside others.
    #[must_use]
    pub fn of_stage(&self) -> &Self {
        match self {
            Self::Stage { source, .. } => source.of_stage(),
            other => other,
        }
    }
}

/// Why an instruction is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Variables cannot be expanded.
    #[error(transparent)]
    Expand(#[from] ExpandError),
    /// The name of a base is empty after variables are replaced.
    #[error("base name ({0}) should not be blank")]
    BlankBase(String),
    /// A number that is not that of an earlier stage.
    #[error("invalid from flag value {0}: there is no such stage before this one, and it is no image's name")]
    From(String),
    /// A stage that is built later than the one that copies from it.
    #[error(
        "invalid from flag value {name}: that stage begins on line {line}, and files come from earlier stages only"
    )]
    Later {
        /// The name as written.
        name: String,
        /// Line of the stage's `FROM`.
        line: usize,
    },
    /// A value of `--mount` is invalid after variables are replaced.
    #[error(transparent)]
    Mount(#[from] Reason),
    /// A mount would cover the whole root file system.
    #[error("invalid mount target \"/\": a command needs the files of the image below its mounts")]
    MountOnRoot,
    /// A value of `--chmod` is invalid.
    #[error(
        "invalid chmod parameter {0:?}: it should be an octal number between 0 and 07777, or symbols such as u=rwX,go=rX"
    )]
    Chmod(String),
    /// Several sources, but the destination is not a directory.
    #[error(
        "when using {0} with more than one source file, the destination must be a directory and end with a /"
    )]
    Destination(&'static str),
    /// A repository in `ADD` is invalid.
    #[error(transparent)]
    Repository(Box<RepositoryError>),
    /// `--checksum` for anything else than a single download or repository; docker's wording.
    #[error(
        "checksum can't be specified for multiple sources, nor for one that is neither HTTP(S) nor a repository"
    )]
    ChecksumOf,
    /// A feature that tote does not support.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// A trigger of the base image cannot be parsed.
    #[error("the base image's trigger {text:?}")]
    Trigger {
        /// The trigger.
        text: String,
        /// The error of the parser.
        #[source]
        source: ParseError,
    },
    /// An instruction such as `STOPSIGNAL` or `EXPOSE` has an invalid value.
    #[error("invalid {what}: {value:?}")]
    Value {
        /// Name of the value.
        what: &'static str,
        /// The value, after variables are replaced.
        value: String,
    },
}

impl From<RepositoryError> for Fault {
    fn from(error: RepositoryError) -> Self {
        Self::Repository(Box::new(error))
    }
}
