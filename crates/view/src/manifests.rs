//! Manifests and indexes, as `docker manifest inspect` and `docker buildx imagetools inspect` show them.

use serde_json::{Value, json};
use tote_engine::{InspectedManifest, VerboseManifest, VerboseManifests};

/// The document, or docker's `--verbose` form of it; `None` for an invalid document.
#[must_use]
pub fn manifest_details(found: &InspectedManifest) -> Option<Value> {
    match &found.verbose {
        Some(VerboseManifests::One(manifest)) => Some(at_length(manifest)),
        Some(VerboseManifests::Index(manifests)) => Some(manifests.iter().map(at_length).collect()),
        None => serde_json::from_slice(&found.json).ok(),
    }
}

/// Describes a manifest in docker's `--verbose` form.
fn at_length(of: &VerboseManifest) -> Value {
    let key = if of.is_dockers() {
        "SchemaV2Manifest"
    } else {
        "OCIManifest"
    };
    let json: Value = serde_json::from_slice(&of.json).unwrap_or_default();
    json!({ "Ref": of.name, "Descriptor": of.descriptor, key: json })
}

/// Returns the fields for a template: docker's `.Name` and `.Manifest`.
#[must_use]
pub fn manifest_fields(found: &InspectedManifest) -> Value {
    let document: Value = serde_json::from_slice(&found.json).unwrap_or_default();
    let mut manifest = json!({
        "mediaType": found.media_type,
        "digest": found.digest,
        "size": found.json.len(),
    });
    if let Some(manifests) = document.get("manifests") {
        manifest["manifests"] = manifests.clone();
    }
    json!({ "Name": found.name.to_string(), "Manifest": manifest })
}

/// Describes a manifest in docker's lines.
#[must_use]
pub fn manifest_text(found: &InspectedManifest) -> String {
    let document: Value = serde_json::from_slice(&found.json).unwrap_or_default();
    let mut text = format!(
        "Name:      {}\nMediaType: {}\nDigest:    {}\n",
        found.name, found.media_type, found.digest
    );
    let entries = document.get("manifests").and_then(Value::as_array);
    if entries.is_some() {
        text += "\nManifests:\n";
    }
    for entry in entries.into_iter().flatten() {
        let word = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let platform = |key| word(entry.get("platform").and_then(|platform| platform.get(key)));
        let parts = ["os", "architecture", "variant"].map(platform);
        let parts: Vec<&str> = parts
            .iter()
            .map(String::as_str)
            .filter(|part| !part.is_empty())
            .collect();
        text += &format!(
            "  Name:      {}@{}\n  MediaType: {}\n  Platform:  {}\n\n",
            found.name,
            word(entry.get("digest")),
            word(entry.get("mediaType")),
            parts.join("/")
        );
    }
    text
}
