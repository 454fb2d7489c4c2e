use serde_json::{Value, json};
use sha2::Digest;
use std::fmt::Write;

/// Returns the digest of some bytes, `sha256:…`.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in sha2::Sha256::digest(bytes) {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    text
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(bytes), "size": bytes.len() })
}

/// Makes an OCI manifest of a configuration and of layers with their media types.
#[must_use]
pub fn manifest(config: &[u8], layers: &[(&str, &[u8])]) -> Vec<u8> {
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let layers: Vec<Value> = layers
        .iter()
        .map(|(kind, bytes)| descriptor(kind, bytes))
        .collect();
    let config = descriptor("application/vnd.oci.image.config.v1+json", config);
    json!({ "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers })
        .to_string()
        .into_bytes()
}

/// Makes an OCI index of manifests for architectures of Linux.
#[must_use]
pub fn index(manifests: &[(&str, &[u8])]) -> Vec<u8> {
    let entry = |(architecture, bytes): &(&str, &[u8])| {
        let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", bytes);
        entry["platform"] = json!({ "os": "linux", "architecture": architecture });
        entry
    };
    let manifests: Vec<Value> = manifests.iter().map(entry).collect();
    let media_type = "application/vnd.oci.image.index.v1+json";
    json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": manifests })
        .to_string()
        .into_bytes()
}
