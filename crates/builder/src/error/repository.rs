//! Errors of contexts from git(1).

use std::io::Error;

/// Reason why a repository cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryFault {
    /// Missing program git(1).
    #[error("cannot fetch the repository {0}: there is no program git on this machine")]
    NoGit(String),
    /// Failed execution of git(1).
    #[error("cannot run git")]
    GitStart(#[source] Error),
    /// Error of git(1).
    #[error("cannot fetch the repository {url}: {why}")]
    Git {
        /// Address of the repository, without credentials.
        url: String,
        /// Message of git.
        why: String,
        /// Kind of the failure, as far as a remedy is known.
        kind: GitFailure,
    },
    /// Repository with another commit than expected.
    #[error("cannot use the repository {url}: its commit is {actual}, and {expected} was expected")]
    Commit {
        /// Address of the repository, without credentials.
        url: String,
        /// Expected checksum.
        expected: String,
        /// Commit of the reference.
        actual: String,
    },
    /// Missing directory of a repository.
    #[error("cannot use the repository {url}: it has no such directory, or the path has a symbolic link")]
    Subdirectory {
        /// Address of the repository, with the directory.
        url: String,
        /// Reason of the failure.
        #[source]
        source: Error,
    },
    /// Invalid address of a repository.
    #[error(transparent)]
    Repository(#[from] tote_build::RepositoryError),
}

/// Kind of a failure of git(1), which reports all of them by one exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitFailure {
    /// The server wants credentials.
    Login,
    /// The server's key is not known.
    HostKey,
    /// Any other failure.
    Other,
}

impl GitFailure {
    /// Reads the messages of git and ssh in the locale C.
    pub fn of(messages: &str) -> Self {
        if messages.contains("terminal prompts disabled") || messages.contains("Authentication") {
            Self::Login
        } else if messages.contains("Host key verification") {
            Self::HostKey
        } else {
            Self::Other
        }
    }
}

impl RepositoryFault {
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoGit(_) => Some("install git, or clone the repository elsewhere and give its directory"),
            Self::Git {
                kind: GitFailure::Login,
                ..
            } => Some("give a token: --secret id=GIT_AUTH_TOKEN,env=VARIABLE"),
            Self::Git {
                kind: GitFailure::HostKey,
                ..
            } => Some("add the host to ~/.ssh/known_hosts; keys are those of --ssh default"),
            _ => None,
        }
    }
}
