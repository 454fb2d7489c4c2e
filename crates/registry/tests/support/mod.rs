//! Clients for tests, which hardly wait between attempts.

use std::time::Duration;
use tote_image::Reference;
use tote_registry::{Client, ClientOptions, Credentials};
use tote_testkit::FakeRegistry;

/// A layer's media type.
#[allow(
    dead_code,
    reason = "each test file is a crate of its own, and not every one has layers"
)]
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Options without this machine's credentials and certificates, and with hardly any wait between attempts.
pub(crate) fn options() -> ClientOptions {
    ClientOptions {
        credentials: Credentials::default(),
        roots: Vec::new(),
        certificates: Vec::new(),
        silence_timeout: Duration::from_secs(20),
        connect_timeout: Duration::from_secs(5),
        backoff: Duration::from_millis(1),
        longest_wait: Duration::from_millis(2),
        ..ClientOptions::default()
    }
}

/// Builds a client that is allowed plain HTTP.
pub(crate) fn client() -> Client {
    Client::new(options())
}

/// Builds the name of an image at a registry.
pub(crate) fn reference(registry: &FakeRegistry, name: &str) -> Reference {
    format!("{}/{name}", registry.host()).parse().unwrap()
}
