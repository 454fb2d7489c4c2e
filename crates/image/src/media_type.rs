//! Media types of documents and layers, and the compression of layers.

use std::fmt;

/// OCI: an image for one platform.
pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// OCI: images for several platforms.
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// OCI: an image's configuration.
pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// OCI: a layer, not compressed.
pub const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// OCI: a layer in gzip.
pub const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// OCI: a layer in zstd.
pub const OCI_LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
/// OCI: `{}`, for a mandatory descriptor that has no use.
pub const OCI_EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// Docker: an image for one platform, schema 2.
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// Docker: images for several platforms.
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// Docker: an image's configuration.
pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
/// Docker: a layer, not compressed.
pub const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
/// Docker: a layer in gzip.
pub const DOCKER_LAYER_GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
/// Docker: a layer in zstd, which some writers produce.
pub const DOCKER_LAYER_ZSTD: &str = "application/vnd.docker.image.rootfs.diff.tar.zstd";

/// Docker: a manifest in the format of before 2016, with signatures.
pub const SCHEMA1_SIGNED: &str = "application/vnd.docker.distribution.manifest.v1+prettyjws";
/// Docker: a manifest in the format of before 2016.
pub const SCHEMA1: &str = "application/vnd.docker.distribution.manifest.v1+json";

/// Types that a client accepts for a manifest or an index, for the `Accept` header.
pub const ACCEPT_MANIFESTS: &[&str] = &[OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST];

/// Compression of a layer's archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// A plain tar archive.
    None,
    /// gzip, RFC 1952.
    Gzip,
    /// Zstandard, RFC 8878.
    Zstd,
}

impl Compression {
    /// Returns the compression that a layer's media type names; `None` if the type is not that of a layer.
    ///
    /// Layers that were not to be distributed (`nondistributable`, `foreign`) count as layers, as the specification
    /// says now. Types are often wrong about gzip, so a reader should use [`Self::sniff`] too.
    #[must_use]
    pub fn of_layer(media_type: &str) -> Option<Self> {
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        let (archive, wrapping) = match media_type {
            DOCKER_LAYER_GZIP | "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip" => {
                return Some(Self::Gzip);
            }
            DOCKER_LAYER_ZSTD => return Some(Self::Zstd),
            _ => media_type.split_once('+').unwrap_or((media_type, "")),
        };
        let is_layer = matches!(
            archive,
            OCI_LAYER
                | DOCKER_LAYER
                | "application/vnd.oci.image.layer.nondistributable.v1.tar"
                | "application/vnd.docker.image.rootfs.foreign.diff.tar"
        );
        match (is_layer, wrapping) {
            (true, "") => Some(Self::None),
            (true, "gzip") => Some(Self::Gzip),
            (true, "zstd") => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Recognises the compression by the first bytes of a layer; four suffice.
    #[must_use]
    pub fn sniff(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A skippable frame, with which zstd's seekable and chunked variants may begin.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_and_what_they_are_wrapped_in() {
        for (media_type, compression) in [
            (OCI_LAYER, Some(Compression::None)),
            (OCI_LAYER_GZIP, Some(Compression::Gzip)),
            (OCI_LAYER_ZSTD, Some(Compression::Zstd)),
            (DOCKER_LAYER, Some(Compression::None)),
            (DOCKER_LAYER_GZIP, Some(Compression::Gzip)),
            (DOCKER_LAYER_ZSTD, Some(Compression::Zstd)),
            (
                "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
                Some(Compression::Zstd),
            ),
            (
                "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
                Some(Compression::Gzip),
            ),
            (
                "application/vnd.oci.image.layer.v1.tar+gzip; x=y",
                Some(Compression::Gzip),
            ),
            ("application/vnd.oci.image.layer.v1.tar+xz", None),
            (OCI_MANIFEST, None),
            ("", None),
        ] {
            assert_eq!(Compression::of_layer(media_type), compression, "{media_type}");
        }
    }

    #[test]
    fn first_bytes() {
        assert_eq!(Compression::sniff(&[0x1f, 0x8b, 8, 0]), Compression::Gzip);
        assert_eq!(Compression::sniff(&[0x28, 0xb5, 0x2f, 0xfd]), Compression::Zstd);
        assert_eq!(Compression::sniff(&[0x5a, 0x2a, 0x4d, 0x18]), Compression::Zstd);
        assert_eq!(Compression::sniff(b"etc/"), Compression::None);
        assert_eq!(Compression::sniff(b""), Compression::None);
    }
}
