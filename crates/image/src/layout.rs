//! The files of an OCI image layout except its blobs.
//!
//! <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>. `index.json` is a [`crate::Index`]; the
//! names of images are annotations of its entries.

use crate::descriptor::Descriptor;
use crate::digest::Digest;
use crate::document::{DocumentError, Read, json};
use serde::{Deserialize, Serialize};

/// Name of [`Layout`] in a layout.
pub const LAYOUT: &str = "oci-layout";

/// Name of the index in a layout.
pub const INDEX: &str = "index.json";

/// Annotation with an image's tag, or its whole name.
pub const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// Annotation in which containerd and docker keep the whole name.
pub const IMAGE_NAME: &str = "io.containerd.image.name";

/// Version of the layout.
pub const VERSION: &str = "1.0.0";

/// The file `oci-layout`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Layout {
    /// [`VERSION`].
    pub image_layout_version: String,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            image_layout_version: VERSION.to_owned(),
        }
    }
}

impl Read for Layout {
    fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        json(bytes, "layout's oci-layout", 64 << 10)
    }
}

/// Returns the path of a blob in a layout: `blobs/sha256/e3b0c442…`.
#[must_use]
pub fn blob(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm(), digest.hex())
}

/// Returns the name of an entry in a layout's index, as written there: a whole name if there is one, else a tag.
#[must_use]
pub fn name(entry: &Descriptor) -> Option<&str> {
    let annotation = |key| entry.annotations.get(key).map(String::as_str);
    annotation(IMAGE_NAME)
        .or_else(|| annotation(REF_NAME))
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_names() {
        assert_eq!(
            serde_json::to_string(&Layout::default()).unwrap(),
            r#"{"imageLayoutVersion":"1.0.0"}"#
        );
        assert!(Layout::read(b"{}").is_err());
        assert_eq!(
            blob(&Digest::sha256([0; 32])),
            format!("blobs/sha256/{}", "0".repeat(64))
        );
        let mut entry = Descriptor::new("", Digest::sha256([0; 32]), 0);
        assert_eq!(name(&entry), None);
        entry.annotations.insert(REF_NAME.to_owned(), "1".to_owned());
        assert_eq!(name(&entry), Some("1"));
        entry
            .annotations
            .insert(IMAGE_NAME.to_owned(), "docker.io/library/a:1".to_owned());
        assert_eq!(name(&entry), Some("docker.io/library/a:1"));
    }
}
