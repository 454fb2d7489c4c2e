//! Statements of in-toto, and the manifest that holds them.

use serde_json::{Value, json};
use tote_image::media_type::{OCI_EMPTY, OCI_MANIFEST};
use tote_image::{Descriptor, Digest, Manifest, Platform, Reference};
use tote_store::sha256;

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const LAYER: &str = "application/vnd.in-toto+json";
const PREDICATE: &str = "in-toto.io/predicate-type";
/// BuildKit's type for a manifest of such statements.
const ARTIFACT: &str = "application/vnd.docker.attestation.manifest.v1+json";
const EMPTY: &[u8] = b"{}";

/// Predicate of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Predicate {
    /// Name of the file with the statement.
    pub file: &'static str,
    /// Address of the predicate's definition.
    pub kind: &'static str,
    pub content: Value,
}

impl Predicate {
    /// Makes the statement about these subjects, each a name and a SHA-256.
    pub(crate) fn statement(&self, subjects: &[(String, Digest)]) -> Value {
        let subjects = subjects.iter().map(|(name, digest)| {
            let digest = json!({ "sha256": digest.hex() });
            json!({ "name": name, "digest": digest })
        });
        json!({
            "_type": STATEMENT,
            "predicateType": self.kind,
            "subject": subjects.collect::<Vec<_>>(),
            "predicate": self.content,
        })
    }
}

/// Makes a manifest of statements about an image. Returns its descriptor, and all documents, the manifest first.
pub(super) fn manifest(statements: &[(&Predicate, Value)], image: Descriptor) -> (Descriptor, Vec<Vec<u8>>) {
    let mut documents = Vec::new();
    let mut layers = Vec::new();
    for (predicate, statement) in statements {
        let bytes = statement.to_string().into_bytes();
        let mut layer = described(LAYER, &bytes);
        layer
            .annotations
            .insert(PREDICATE.to_owned(), predicate.kind.to_owned());
        layers.push(layer);
        documents.push(bytes);
    }
    let mut manifest = Manifest::oci(described(OCI_EMPTY, EMPTY), layers);
    manifest.artifact_type = Some(ARTIFACT.to_owned());
    manifest.subject = Some(image);
    let json = manifest.to_json();
    let descriptor = described(OCI_MANIFEST, &json);
    documents.insert(0, EMPTY.to_vec());
    documents.insert(0, json);
    (descriptor, documents)
}

fn described(media_type: &str, bytes: &[u8]) -> Descriptor {
    Descriptor::new(media_type, sha256(bytes), bytes.len() as u64)
}

/// Builds the address of an image as a package: `pkg:docker/NAME@TAG?digest=…&platform=…`.
pub(crate) fn package_of(name: &Reference, digest: Option<&Digest>, platform: &Platform) -> String {
    let familiar = name.familiar();
    let (path, tag) = match name.digest() {
        Some(_) => (familiar.split('@').next().unwrap_or_default(), None),
        None => match familiar.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (&*familiar, Some("latest")),
        },
    };
    let mut text = format!("pkg:docker/{}", escaped(path, "/"));
    text.extend(tag.map(|tag| format!("@{}", escaped(tag, ""))));
    let digest = name.digest().or(digest).filter(|_| tag.is_none());
    let digest = digest.map(|digest| format!("digest={digest}&"));
    text + &format!(
        "?{}platform={}",
        digest.unwrap_or_default(),
        escaped(&platform.to_string(), "")
    )
}

/// Percent-encodes a part of a package's address, except the letters in `plain`.
pub(crate) fn escaped(text: &str, plain: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        let letter = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-._~:".contains(letter) || plain.contains(letter) {
            escaped.push(letter);
        } else {
            escaped += &format!("%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use tote_image::Read as _;
    use tote_image::media_type::OCI_CONFIG;

    #[test]
    fn packages() {
        let platform: Platform = "linux/amd64".parse().unwrap();
        let digest = Digest::sha256([1; 32]);
        for (name, package) in [
            ("alpine:3.21", "pkg:docker/alpine@3.21?platform=linux%2Famd64"),
            ("alpine", "pkg:docker/alpine@latest?platform=linux%2Famd64"),
            (
                "x.example:5000/a/b:1",
                "pkg:docker/x.example:5000/a/b@1?platform=linux%2Famd64",
            ),
        ] {
            assert_eq!(
                package_of(&Reference::parse(name).unwrap(), Some(&digest), &platform),
                package
            );
        }
        let pinned = Reference::parse(&format!("alpine@{digest}")).unwrap();
        let package = package_of(&pinned, None, &platform);
        assert_eq!(
            package,
            format!("pkg:docker/alpine?digest={digest}&platform=linux%2Famd64")
        );
        assert_eq!(escaped("a b/+ü", ""), "a%20b%2F%2B%C3%BC");
    }

    #[test]
    fn a_manifest_names_its_documents() {
        let predicate = Predicate {
            file: "x.json",
            kind: "https://x.example/predicate",
            content: json!({ "a": 1 }),
        };
        let image = Digest::sha256([2; 32]);
        let statement = predicate.statement(&[("pkg:docker/a@b".to_owned(), image)]);
        assert_eq!(statement["subject"][0]["digest"]["sha256"], image.hex());
        assert_eq!(statement["predicate"]["a"], 1);
        let subject = Descriptor::new(OCI_CONFIG, image, 7);
        let (descriptor, documents) = manifest(&[(&predicate, statement)], subject.clone());
        assert_eq!(descriptor.digest, sha256(&documents[0]));
        let manifest = Manifest::read(&documents[0]).unwrap();
        assert_eq!(manifest.subject, Some(subject));
        assert_eq!(manifest.layers[0].media_type, LAYER);
        assert_eq!(manifest.layers[0].annotations[PREDICATE], predicate.kind);
        for named in [&manifest.config].into_iter().chain(&manifest.layers) {
            assert!(documents.iter().any(|document| sha256(document) == named.digest));
        }
    }
}
