//! Errors of the encryption between this machine and a registry.

/// Reason why a host cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The host's certificate is not valid.
    #[error("cannot load the certificates for {host}")]
    Certificate {
        /// `HOST` or `HOST:PORT`.
        host: String,
        /// The reason why the certificate is refused.
        #[source]
        source: Box<rustls::Error>,
    },
    /// The host does not speak TLS.
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
    /// A file of certificates is not usable.
    #[error("cannot read the certificates in {path}: {why}")]
    CertificateFile {
        /// The file.
        path: std::path::PathBuf,
        /// The reason why the file is refused.
        why: String,
    },
}

impl TrustError {
    /// True if the connection would be insecure; false if a file is not usable.
    pub(super) fn is_insecure(&self) -> bool {
        !matches!(self, Self::CertificateFile { .. })
    }

    /// Returns advice to the user, if there is any.
    pub(super) fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Certificate { .. } => {
                "put the registry's CA into /etc/containers/certs.d/HOST:PORT/ca.crt, or, if you trust the network, use --tls-verify=false"
            }
            Self::PlainHttp { .. } => "if you trust the network, use --tls-verify=false",
            Self::NoRoots { .. } => "install the package ca-certificates, or set SSL_CERT_FILE",
            Self::CertificateFile { .. } => return None,
        })
    }
}
