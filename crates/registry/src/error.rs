use crate::credential::CredentialError;
use tote_image::{Digest, DocumentError, NoPlatform};

/// Why something could not be had from a registry, or given to it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 404. Registries say the same of what one may not see.
    #[error("{what}: not found, or no access to it{detail}")]
    NotFound {
        /// What was asked for.
        what: String,
        /// The registry's words, with a separator before them; empty if it said nothing.
        detail: String,
    },
    /// 401 after all that could be done, or 403.
    #[error("{what}: access denied{detail}")]
    Denied {
        /// What was asked for.
        what: String,
        /// The registry's words.
        detail: String,
        /// Whether credentials were sent.
        logged_in: bool,
    },
    /// 429, again and again.
    #[error("{what}: the rate limit of the registry is reached (429){detail}")]
    TooMany {
        /// What was asked for.
        what: String,
        /// The registry's words.
        detail: String,
    },
    /// Any other answer that was not hoped for.
    #[error("{what}: the registry answers {status}{detail}")]
    Status {
        /// What was asked for.
        what: String,
        /// The HTTP status.
        status: u16,
        /// The registry's words.
        detail: String,
    },
    /// An answer that breaks the protocol.
    #[error("{what}: {why}")]
    Protocol {
        /// What was asked for.
        what: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The name does not resolve.
    #[error("cannot find the host {host}: no such host")]
    NoHost {
        /// Its name.
        host: String,
    },
    /// No connection, or one that broke.
    #[error("cannot talk to {host}")]
    Connection {
        /// `HOST` or `HOST:PORT`.
        host: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Nothing came for too long.
    #[error("cannot talk to {host}: no answer in time")]
    Timeout {
        /// `HOST` or `HOST:PORT`.
        host: String,
    },
    /// Something came, but hardly anything for too long.
    #[error("cannot talk to {host}: it answers too slowly")]
    Slow {
        /// `HOST` or `HOST:PORT`.
        host: String,
        /// How much came, and in which time.
        #[source]
        source: std::io::Error,
    },
    /// The host is not who it should be.
    #[error("cannot load the certificates for {host}")]
    Certificate {
        /// `HOST` or `HOST:PORT`.
        host: String,
        /// What is wrong with its certificate.
        #[source]
        source: Box<rustls::Error>,
    },
    /// The other side does not speak TLS.
    #[error("cannot talk to {host}: it does not speak TLS")]
    PlainHttp {
        /// `HOST` or `HOST:PORT`.
        host: String,
    },
    /// The machine has no certificates of authorities.
    #[error("cannot verify {host}: this machine has no file of trusted certificates")]
    NoRoots {
        /// `HOST` or `HOST:PORT`.
        host: String,
    },
    /// A file of certificates that cannot be used.
    #[error("cannot read the certificates in {path}: {why}")]
    CertificateFile {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What the client library says of a request or its answer.
    #[error("cannot talk to {host}: {why}")]
    Http {
        /// `HOST` or `HOST:PORT`.
        host: String,
        /// Its words.
        why: String,
    },
    /// Content that is not what it was named.
    #[error("{what}: the content hashes to {actual}, not to {expected}")]
    Digest {
        /// What was asked for.
        what: String,
        /// Its name.
        expected: Box<Digest>,
        /// What came.
        actual: Box<Digest>,
    },
    /// More or less than there should be.
    #[error("{what}: the content has {actual} bytes instead of {expected}")]
    Size {
        /// What was asked for.
        what: String,
        /// In bytes, as the descriptor says.
        expected: u64,
        /// In bytes; a lower bound where more came.
        actual: u64,
    },
    /// More than is read.
    #[error("{what}: the answer is longer than {most} bytes")]
    TooLong {
        /// What was asked for.
        what: String,
        /// The limit in bytes.
        most: u64,
    },
    /// A document that makes no sense.
    #[error("{what}")]
    Document {
        /// What was asked for.
        what: String,
        /// What is wrong with it.
        #[source]
        source: DocumentError,
    },
    /// Nothing for this platform.
    #[error("{what}")]
    Platform {
        /// What was asked for.
        what: String,
        /// What there is.
        #[source]
        source: NoPlatform,
    },
    /// The credentials of a registry.
    #[error("cannot find the credentials for {registry}")]
    Credentials {
        /// The registry.
        registry: String,
        /// Why not.
        #[source]
        source: CredentialError,
    },
    /// What is to be pushed cannot be read.
    #[error("{what}: cannot read the content to send")]
    Source {
        /// What was to be sent.
        what: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

/// The kinds of failure that a caller may want to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is not there, or not for us.
    NotFound,
    /// Credentials are missing, or are not enough.
    Denied,
    /// The other side is not who it should be, or speaks in plain.
    Insecure,
    /// The network.
    Unreachable,
    /// What came is not what was promised.
    Corrupt,
    /// Everything else.
    Other,
}

impl Error {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotFound { .. } | Self::Platform { .. } => Kind::NotFound,
            Self::Denied { .. } => Kind::Denied,
            Self::Certificate { .. } | Self::PlainHttp { .. } | Self::NoRoots { .. } => Kind::Insecure,
            Self::NoHost { .. } | Self::Connection { .. } | Self::Timeout { .. } | Self::Slow { .. } => {
                Kind::Unreachable
            }
            Self::Digest { .. } | Self::Size { .. } | Self::TooLong { .. } | Self::Document { .. } => {
                Kind::Corrupt
            }
            _ => Kind::Other,
        }
    }

    /// What to do about it, where something helps.
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
            Self::Certificate { .. } => Some(
                "put the registry's CA into /etc/containers/certs.d/HOST:PORT/ca.crt, or, if you trust the network, use --tls-verify=false",
            ),
            Self::PlainHttp { .. } => Some("if you trust the network, use --tls-verify=false"),
            Self::NoRoots { .. } => Some("install the package ca-certificates, or set SSL_CERT_FILE"),
            Self::TooMany { .. } => Some("wait, or log in: registries allow known users more"),
            Self::Slow { .. } => Some("try again later, or name a mirror in registries.json"),
            Self::NoHost { .. } => Some("check the name and /etc/resolv.conf"),
            _ => None,
        }
    }

    /// Whether trying the same again may help.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Slow { .. } => true,
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
