use crate::index::Index;
use crate::manifest::Manifest;
use crate::media_type;
use crate::text::shown;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// Maximum size of a manifest or an index in bytes; registries accept no larger ones either.
pub const MAX_MANIFEST_BYTES: usize = 4 << 20;

/// Maximum size of an image's configuration in bytes. Histories make them longer than manifests.
pub const MAX_CONFIG_BYTES: usize = 8 << 20;

/// Why bytes are not the expected document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The document exceeds the size limit.
    #[error("the {kind} has {size} bytes, more than the limit of {most}")]
    TooBig {
        /// The expected kind of document.
        kind: &'static str,
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// The document is not JSON, nested too deeply, or has a property of the wrong type.
    #[error("cannot parse the {kind}")]
    Json {
        /// The expected kind of document.
        kind: &'static str,
        /// The error of the parser, with its position.
        #[source]
        source: serde_json::Error,
    },
    /// A manifest in docker's format of before 2016.
    #[error(
        "the manifest is of docker's schema 1, which was given up in 2017 and is not read: \
         push the image again with a current tool"
    )]
    Schema1,
    /// A schema version that no specification defines.
    #[error("the {kind} has schema version {version}, not 2")]
    Version {
        /// The expected kind of document.
        kind: &'static str,
        /// The version in the document.
        version: u64,
    },
    /// A document that some programs read as a manifest and others as an index (CVE-2021-41190).
    #[error("the document is ambiguous: it has the fields of a manifest and those of an index")]
    Ambiguous,
    /// The media type in the document, or the one declared for it, contradicts the content.
    #[error("the document's media type is {media_type}, but it is {kind}")]
    MediaType {
        /// The media type.
        media_type: String,
        /// The kind of document that the content looks like.
        kind: &'static str,
    },
    /// The document is neither a manifest nor an index.
    #[error("the document is neither a manifest nor an index")]
    Neither,
    /// The image has more layers than [`crate::MAX_LAYERS`].
    #[error("the image has {0} layers, more than {most}", most = crate::MAX_LAYERS)]
    Layers(usize),
}

/// A document that can be read from bytes.
pub trait Read: Sized {
    /// Reads the document, within limits of size and depth.
    ///
    /// # Errors
    /// [`DocumentError`] names the kind of document and the reason.
    fn read(bytes: &[u8]) -> Result<Self, DocumentError>;
}

/// A document together with its original bytes: they determine its digest, and still contain unknown properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw<T> {
    bytes: Vec<u8>,
    value: T,
}

impl<T: Read> Raw<T> {
    /// Reads a document and keeps its bytes.
    ///
    /// # Errors
    /// Those of [`Read::read`].
    pub fn read(bytes: Vec<u8>) -> Result<Self, DocumentError> {
        let value = T::read(&bytes)?;
        Ok(Self { bytes, value })
    }
}

impl<T> Raw<T> {
    /// Returns the bytes as received.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the parsed document.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Returns the bytes and the parsed document.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, T) {
        (self.bytes, self.value)
    }
}

/// A registry's answer to a request for a manifest: a single image, or a list of images for several platforms.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and it is taken apart at once"
)]
pub enum Document {
    /// A single image.
    Manifest(Manifest),
    /// A list of images.
    Index(Index),
}

/// Properties by which the kinds of document are told apart.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Probe {
    #[serde(default)]
    schema_version: u64,
    media_type: Option<String>,
    config: Option<IgnoredAny>,
    layers: Option<IgnoredAny>,
    manifests: Option<IgnoredAny>,
    fs_layers: Option<IgnoredAny>,
}

impl Document {
    /// Reads a manifest or an index. `declared` is the media type that came with it (a `Content-Type`, a
    /// descriptor's); it must not contradict the content.
    ///
    /// # Errors
    /// [`DocumentError`]; in particular [`DocumentError::Schema1`] and [`DocumentError::Ambiguous`].
    pub fn read(bytes: &[u8], declared: Option<&str>) -> Result<Self, DocumentError> {
        const KIND: &str = "manifest";
        let probe: Probe = json(bytes, KIND, MAX_MANIFEST_BYTES)?;
        if probe.schema_version == 1 || probe.fs_layers.is_some() {
            return Err(DocumentError::Schema1);
        }
        if probe.schema_version != 2 {
            let version = probe.schema_version;
            return Err(DocumentError::Version { kind: KIND, version });
        }
        let is_manifest = probe.config.is_some() || probe.layers.is_some();
        let is_index = probe.manifests.is_some();
        let declared = declared.map(|text| text.split(';').next().unwrap_or_default().trim());
        for media_type in [declared, probe.media_type.as_deref()].into_iter().flatten() {
            let (kind, agrees) = match media_type {
                media_type::OCI_MANIFEST | media_type::DOCKER_MANIFEST => ("no manifest", is_manifest),
                media_type::OCI_INDEX | media_type::DOCKER_LIST => ("no index", is_index),
                media_type::SCHEMA1 | media_type::SCHEMA1_SIGNED => return Err(DocumentError::Schema1),
                _ => continue,
            };
            if !agrees {
                let media_type = shown(media_type);
                return Err(DocumentError::MediaType { media_type, kind });
            }
        }
        match (is_manifest, is_index) {
            (true, true) => Err(DocumentError::Ambiguous),
            (true, false) => Ok(Self::Manifest(Manifest::read(bytes)?)),
            (false, true) => Ok(Self::Index(Index::read(bytes)?)),
            (false, false) => Err(DocumentError::Neither),
        }
    }
}

impl Read for Document {
    fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        Self::read(bytes, None)
    }
}

/// Parses JSON of limited size; serde_json itself limits the depth.
pub(crate) fn json<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    kind: &'static str,
    most: usize,
) -> Result<T, DocumentError> {
    if bytes.len() > most {
        let size = bytes.len();
        return Err(DocumentError::TooBig { kind, size, most });
    }
    serde_json::from_slice(bytes).map_err(|source| DocumentError::Json { kind, source })
}

/// Writes a document of this crate as compact JSON.
#[expect(
    clippy::expect_used,
    reason = "the crate's documents have no maps with other keys than texts, and writing to memory does not fail"
)]
pub(crate) fn to_json<T: Serialize>(document: &T) -> Vec<u8> {
    serde_json::to_vec(document).expect("texts, numbers and maps with texts for keys can be said in JSON")
}

/// Checks the schema version, which both specifications define as 2.
pub(crate) fn check_version(version: u64, kind: &'static str) -> Result<(), DocumentError> {
    match version {
        2 => Ok(()),
        1 => Err(DocumentError::Schema1),
        version => Err(DocumentError::Version { kind, version }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn manifest(extra: &str) -> String {
        format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"c","digest":"{EMPTY}","size":2}},"layers":[]{extra}}}"#
        )
    }

    #[test]
    fn told_apart() {
        let index = r#"{"schemaVersion":2,"manifests":[]}"#;
        assert!(matches!(
            Document::read(index.as_bytes(), None),
            Ok(Document::Index(_))
        ));
        assert!(matches!(
            Document::read(manifest("").as_bytes(), Some(media_type::OCI_MANIFEST)),
            Ok(Document::Manifest(_))
        ));
    }

    #[test]
    fn refused_with_a_reason() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for (text, declared, why) in [
            (
                r#"{"schemaVersion":1,"fsLayers":[]}"#.to_owned(),
                None,
                "schema 1",
            ),
            (
                r#"{"schemaVersion":2,"fsLayers":[],"layers":[]}"#.to_owned(),
                None,
                "schema 1",
            ),
            (manifest(""), Some(media_type::SCHEMA1_SIGNED), "schema 1"),
            (manifest(r#","manifests":[]"#), None, "ambiguous"),
            (manifest(""), Some(media_type::OCI_INDEX), "no index"),
            (
                manifest(&format!(r#","mediaType":"{}""#, media_type::DOCKER_LIST)),
                None,
                "no index",
            ),
            (
                r#"{"schemaVersion":2,"manifests":[]}"#.to_owned(),
                Some("application/vnd.oci.image.manifest.v1+json; charset=utf-8"),
                "no manifest",
            ),
            (r#"{"schemaVersion":3,"layers":[]}"#.to_owned(), None, "version 3"),
            (r#"{"schemaVersion":2}"#.to_owned(), None, "neither"),
            ("{}".to_owned(), None, "version 0"),
            ("not json".to_owned(), None, "cannot parse"),
            (deep, None, "cannot parse"),
            (" ".repeat(MAX_MANIFEST_BYTES + 1), None, "more than"),
        ] {
            let error = Document::read(text.as_bytes(), declared)
                .expect_err(why)
                .to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _unused = Document::read(&bytes, None);
        }
    }
}
