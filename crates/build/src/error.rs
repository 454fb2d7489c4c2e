//! Why a build fails, and where in the file.

use crate::RepositoryError;
use tote_dockerfile::{ExpandError, ParseError, Reason};

/// A build that failed at an instruction.
#[derive(Debug, thiserror::Error)]
pub enum BuildError<E: std::error::Error + 'static> {
    /// An instruction cannot be carried out as it is written.
    #[error("line {line}: {text}")]
    Instruction {
        /// Where it begins; 0 for options of the build.
        line: usize,
        /// The instruction.
        text: String,
        /// What is wrong with it.
        #[source]
        source: Fault,
    },
    /// Carrying it out failed.
    #[error("line {line}: {text}")]
    Step {
        /// Where it begins.
        line: usize,
        /// The instruction.
        text: String,
        /// Why.
        #[source]
        source: E,
    },
    /// The target is none.
    #[error("target stage {0:?} could not be found")]
    Target(String),
    /// What the build leaves behind could not be written.
    #[error(transparent)]
    Result(E),
}

/// What is wrong with an instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Variables.
    #[error(transparent)]
    Expand(#[from] ExpandError),
    /// A base that is empty once variables are replaced.
    #[error("base name ({0}) should not be blank")]
    BlankBase(String),
    /// A number of no stage.
    #[error("invalid from flag value {0}: there is no such stage before this one, and it is no image's name")]
    From(String),
    /// A stage that is not built before the one that copies from it.
    #[error(
        "invalid from flag value {name}: that stage begins on line {line}, and files come from earlier stages only"
    )]
    Later {
        /// As written.
        name: String,
        /// The line of its `FROM`.
        line: usize,
    },
    /// A value of `--mount`, once variables are replaced.
    #[error(transparent)]
    Mount(#[from] Reason),
    /// A mount in place of everything.
    #[error("invalid mount target \"/\": a command needs the files of the image below its mounts")]
    MountOnRoot,
    /// `--chmod`.
    #[error(
        "invalid chmod parameter {0:?}: it should be an octal number between 0 and 07777, or symbols such as u=rwX,go=rX"
    )]
    Chmod(String),
    /// Several sources, and no directory to put them into.
    #[error(
        "when using {0} with more than one source file, the destination must be a directory and end with a /"
    )]
    Destination(&'static str),
    /// `ADD` of a repository.
    #[error(transparent)]
    Repository(Box<RepositoryError>),
    /// `--checksum` of something else than one download or repository; docker's wording.
    #[error(
        "checksum can't be specified for multiple sources, nor for one that is neither HTTP(S) nor a repository"
    )]
    ChecksumOf,
    /// What is not done here.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// A trigger of the base image.
    #[error("the base image's trigger {text:?}")]
    Trigger {
        /// The trigger.
        text: String,
        /// What is wrong with it.
        #[source]
        source: ParseError,
    },
    /// `STOPSIGNAL`, `EXPOSE` and others with a value that is none.
    #[error("invalid {what}: {value:?}")]
    Value {
        /// Of what.
        what: &'static str,
        /// As it is once variables are replaced.
        value: String,
    },
}

impl From<RepositoryError> for Fault {
    fn from(error: RepositoryError) -> Self {
        Self::Repository(Box::new(error))
    }
}
