mod trust;

use crate::credential::CredentialError;
use crate::resolve::Silent;
use tote_image::{Digest, DocumentError, NoPlatform};
pub use trust::TrustError;

/// Why an operation at a registry failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Status 404. Registries also send it for content that the user may not see.
    #[error("{what}: not found, or no access to it{detail}")]
    NotFound {
        /// The object of the request.
        what: String,
        /// The registry's message, with a separator before it; empty without a message.
        detail: String,
    },
    /// Status 401 although all credentials were tried, or 403.
    #[error("{what}: access denied{detail}")]
    Denied {
        /// The object of the request.
        what: String,
        /// The registry's message.
        detail: String,
        /// True if credentials were sent.
        logged_in: bool,
    },
    /// Credentials that `login` tried were refused.
    #[error("{what}: access denied{detail}")]
    Login {
        /// The object of the request.
        what: String,
        /// The registry's message.
        detail: String,
    },
    /// Status 429 for every attempt.
    #[error("{what}: the rate limit of the registry is reached (429){detail}")]
    TooMany {
        /// The object of the request.
        what: String,
        /// The registry's message.
        detail: String,
    },
    /// Any other unexpected status.
    #[error("{what}: the registry answers {status}{detail}")]
    Status {
        /// The object of the request.
        what: String,
        /// The HTTP status.
        status: u16,
        /// The registry's message.
        detail: String,
    },
    /// An answer that violates the protocol.
    #[error("{what}: {why}")]
    Protocol {
        /// The object of the request.
        what: String,
        /// The violation.
        why: String,
    },
    /// The name does not resolve.
    #[error("cannot find the host {host}: no such host")]
    NoHost {
        /// Name of the host.
        host: String,
    },
    /// The connection failed or broke.
    #[error("cannot talk to {host}")]
    Connection {
        /// `HOST` or `HOST:PORT`.
        host: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The host sent nothing for too long.
    #[error("cannot talk to {host}: no answer in time")]
    Timeout {
        /// `HOST` or `HOST:PORT`.
        host: String,
    },
    /// The host sent too few bytes for too long.
    #[error("cannot talk to {host}: it answers too slowly")]
    Slow {
        /// `HOST` or `HOST:PORT`.
        host: String,
        /// The number of bytes, and the time in which they came.
        #[source]
        source: std::io::Error,
    },
    /// Any other error of the HTTP library.
    #[error("cannot talk to {host}: {why}")]
    Http {
        /// `HOST` or `HOST:PORT`.
        host: String,
        /// The library's message.
        why: String,
    },
    /// The content does not hash to its digest.
    #[error("{what}: the content hashes to {actual}, not to {expected}")]
    Digest {
        /// The object of the request.
        what: String,
        /// The digest that was asked for.
        expected: Box<Digest>,
        /// The digest of the received content.
        actual: Box<Digest>,
    },
    /// The content has another length than it should have.
    #[error("{what}: the content has {actual} bytes instead of {expected}")]
    Size {
        /// The object of the request.
        what: String,
        /// Length in bytes, as the descriptor says.
        expected: u64,
        /// Length in bytes; a lower bound if the host sent too much.
        actual: u64,
    },
    /// An answer is longer than the limit.
    #[error("{what}: the answer is longer than {most} bytes")]
    TooLong {
        /// The object of the request.
        what: String,
        /// The limit in bytes.
        most: u64,
    },
    /// A document cannot be parsed.
    #[error("{what}")]
    Document {
        /// The object of the request.
        what: String,
        /// The error of the parser.
        #[source]
        source: DocumentError,
    },
    /// The index has no manifest for this platform.
    #[error("{what}")]
    Platform {
        /// The object of the request.
        what: String,
        /// The platforms that exist.
        #[source]
        source: NoPlatform,
    },
    /// The credentials of a registry cannot be read.
    #[error("cannot find the credentials for {registry}")]
    Credentials {
        /// The registry.
        registry: String,
        /// The cause.
        #[source]
        source: CredentialError,
    },
    /// The content to push cannot be read.
    #[error("{what}: cannot read the content to send")]
    Source {
        /// The object to push.
        what: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The host cannot be trusted.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Kinds of failures that a caller may want to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The object does not exist, or the user may not see it.
    NotFound,
    /// Credentials are missing or do not suffice.
    Denied,
    /// The host has no valid certificate, or speaks plain HTTP.
    Insecure,
    /// The network failed.
    Unreachable,
    /// The received content is not the announced one.
    Corrupt,
    /// Any other failure.
    Other,
}

impl Error {
    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotFound { .. } | Self::Platform { .. } => Kind::NotFound,
            Self::Denied { .. } | Self::Login { .. } => Kind::Denied,
            Self::Trust(error) if error.is_insecure() => Kind::Insecure,
            Self::NoHost { .. } | Self::Connection { .. } | Self::Timeout { .. } | Self::Slow { .. } => {
                Kind::Unreachable
            }
            Self::Digest { .. } | Self::Size { .. } | Self::TooLong { .. } | Self::Document { .. } => {
                Kind::Corrupt
            }
            _ => Kind::Other,
        }
    }

    /// Returns advice to the user, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotFound { .. } => {
                Some("check the name and the tag; a private image needs `tote login` first")
            }
            Self::Denied { logged_in: false, .. } => Some("log in with `tote login REGISTRY`"),
            Self::Denied { logged_in: true, .. } => {
                Some("the credentials are known but not sufficient: see `tote login REGISTRY`")
            }
            Self::Login { .. } => Some(
                "check the name and the password; where a second factor is wanted, an access token takes the password's place",
            ),
            Self::Trust(error) => error.hint(),
            Self::TooMany { .. } => Some("wait, or log in: registries allow known users more"),
            Self::Slow { .. } => Some("try again later, or name a mirror in registries.json"),
            Self::Digest { .. } => Some(
                "it was damaged at the registry or on the way: try again; if that does not help, it has to be pushed again",
            ),
            Self::Connection { source, .. } if Silent::is_reason_of(source) => {
                Some("check the network and /etc/resolv.conf")
            }
            Self::NoHost { .. } => Some("check the name and /etc/resolv.conf"),
            _ => None,
        }
    }

    /// True if another attempt may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Slow { .. } => true,
            Self::Connection { source, .. } if Silent::is_reason_of(source) => false,
            Self::Connection { source, .. } => !matches!(
                source.kind(),
                std::io::ErrorKind::ConnectionRefused
                    | std::io::ErrorKind::HostUnreachable
                    | std::io::ErrorKind::NetworkUnreachable
                    | std::io::ErrorKind::PermissionDenied
            ),
            _ => false,
        }
    }
}
