use crate::credential::Credentials;
use crate::registries::Registries;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tote_image::Digest;

/// Called as content passes: its digest, and how many of its bytes have passed so far.
///
/// A transfer that must begin again may report a smaller number than before.
pub type Progress = Arc<dyn Fn(&Digest, u64) + Send + Sync>;

/// What a [`crate::Client`] is made with.
#[derive(Clone)]
pub struct ClientOptions {
    /// Mirrors, and who may be spoken to in plain.
    pub registries: Registries,
    /// Where names and passwords are.
    pub credentials: Credentials,
    /// `Some(true)`: TLS and certificates always; `Some(false)`: neither certificates are checked nor is TLS demanded;
    /// `None`: as configured, and this machine itself may be spoken to in plain.
    pub tls_verify: Option<bool>,
    /// Files with the certificates of authorities, the first that exists is read.
    pub roots: Vec<PathBuf>,
    /// Directories with a directory `HOST:PORT` of further certificates for each host that needs them.
    pub certificates: Vec<PathBuf>,
    /// One directory of further certificates for every host, in place of those.
    pub cert_dir: Option<PathBuf>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long the other side may say nothing.
    pub silence_timeout: Duration,
    /// The fewest bytes that must come within `pace_window` of waiting for an answer: a host that sends less is given up.
    pub least_pace: u64,
    /// How long is waited, in all, before `least_pace` is looked at.
    pub pace_window: Duration,
    /// How often a thing is tried.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles with each.
    pub backoff: Duration,
    /// The longest wait that a registry may ask for.
    pub longest_wait: Duration,
    /// Told of each piece of content that passes.
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
