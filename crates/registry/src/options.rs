use crate::credential::Credentials;
use crate::registries::Registries;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tote_image::Digest;

/// Callback for transferred content: its digest, and the number of its bytes transferred so far.
///
/// A transfer that must start again may report a smaller number than before.
pub type Progress = Arc<dyn Fn(&Digest, u64) + Send + Sync>;

/// Settings of a [`crate::Client`].
#[derive(Clone)]
pub struct ClientOptions {
    /// Mirrors, and hosts that are allowed plain HTTP.
    pub registries: Registries,
    /// Places of names and passwords.
    pub credentials: Credentials,
    /// `Some(true)`: TLS with a valid certificate is required. `Some(false)`: certificates are not checked and
    /// plain HTTP is allowed. `None`: as configured; this machine itself is allowed plain HTTP.
    pub tls_verify: Option<bool>,
    /// Files with the certificates of authorities; the first one that exists is read.
    pub roots: Vec<PathBuf>,
    /// Directories with a subdirectory `HOST:PORT` of further certificates for each host that needs them.
    pub certificates: Vec<PathBuf>,
    /// Directory of further certificates for every host, in place of `certificates`.
    pub cert_dir: Option<PathBuf>,
    /// Maximum time for making a connection.
    pub connect_timeout: Duration,
    /// Maximum time without any byte from the host.
    pub silence_timeout: Duration,
    /// Minimum number of bytes within `pace_window` of waiting for an answer; the connection to a slower host is
    /// aborted.
    pub least_pace: u64,
    /// Total waiting time after which `least_pace` is checked.
    pub pace_window: Duration,
    /// Number of attempts for each request.
    pub attempts: u32,
    /// Wait before the second attempt; it doubles for each further one.
    pub backoff: Duration,
    /// Longest wait that a registry may ask for.
    pub longest_wait: Duration,
    /// Callback for each transferred piece of content.
    pub progress: Option<Progress>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            registries: Registries::default(),
            credentials: Credentials::default(),
            tls_verify: None,
            roots: crate::tls::ROOT_FILES.iter().map(PathBuf::from).collect(),
            certificates: ["/etc/containers/certs.d", "/etc/docker/certs.d"]
                .iter()
                .map(PathBuf::from)
                .collect(),
            cert_dir: None,
            connect_timeout: Duration::from_secs(20),
            silence_timeout: Duration::from_secs(60),
            least_pace: 120 << 10,
            pace_window: Duration::from_secs(120),
            attempts: 5,
            backoff: Duration::from_millis(500),
            longest_wait: Duration::from_secs(60),
            progress: None,
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("registries", &self.registries)
            .field("credentials", &self.credentials)
            .field("tls_verify", &self.tls_verify)
            .finish_non_exhaustive()
    }
}
