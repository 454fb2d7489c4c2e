//! Attestations in indexes: remarks on images, which refer to their image by a digest.
//!
//! At a registry and in an archive that is the digest of the image's manifest, which depends on the compression of
//! the layers there. The store uses the image's id instead. So the digest is exchanged whenever an index passes
//! between the two: in the annotation of the entry, in the subjects of the statements, and wherever a document refers
//! to one of these by its digest. All digests are equally long, so nothing else of a document changes, and a remark
//! goes out byte for byte as it came.

use crate::ImagesError;
use std::collections::HashMap;
use tote_image::media_type::{DOCKER_LIST, OCI_INDEX};
use tote_image::{ATTESTATION, Descriptor, Digest, Manifest, REFERENCE_DIGEST, REFERENCE_TYPE, Raw};
use tote_store::{Store, sha256};

/// Manifest in an index that is not an image's, with all its blobs.
#[derive(Clone, Debug)]
pub struct Remark {
    /// Entry of the index.
    pub entry: Descriptor,
    /// Document of the entry.
    pub manifest: Vec<u8>,
    /// Blobs of the manifest, its configuration first.
    pub blobs: Vec<Blob>,
}

/// Complete blob of a remark.
#[derive(Clone, Debug)]
pub struct Blob {
    pub descriptor: Descriptor,
    pub bytes: Vec<u8>,
}

/// True for an entry of an index that is an attestation of docker's builder, or for no platform, and so not an image.
pub fn is_remark(entry: &Descriptor) -> bool {
    let says = |key: &str, value: &str| entry.annotations.get(key).is_some_and(|said| said == value);
    let is_index = matches!(entry.media_type.as_str(), OCI_INDEX | DOCKER_LIST);
    let is_for_none = (entry.platform.as_ref()).is_some_and(|platform| platform.os == "unknown");
    !is_index && (is_for_none || says(REFERENCE_TYPE, ATTESTATION))
}

impl Remark {
    /// Builds a remark from its documents; `blob` reads each blob of its manifest.
    ///
    /// # Errors
    /// [`ImagesError::ImageDocument`] for an invalid manifest, and errors of `blob`.
    pub fn read(
        entry: &Descriptor,
        manifest: Vec<u8>,
        mut blob: impl FnMut(&Descriptor) -> Result<Vec<u8>, ImagesError>,
    ) -> Result<Self, ImagesError> {
        let manifest = Raw::<Manifest>::read(manifest).map_err(ImagesError::ImageDocument)?;
        let value = manifest.value();
        let mut blobs = Vec::new();
        for descriptor in [&value.config].into_iter().chain(&value.layers) {
            blobs.push(Blob {
                bytes: blob(descriptor)?,
                descriptor: descriptor.clone(),
            });
        }
        Ok(Self {
            entry: entry.clone(),
            manifest: manifest.into_parts().0,
            blobs,
        })
    }

    /// Reads a remark of an index of the store.
    pub fn of_store(store: &Store, index: &Digest, entry: &Descriptor) -> Result<Self, ImagesError> {
        let manifest = store.document(index, &entry.digest)?;
        Self::read(entry, manifest, |blob| Ok(store.document(index, &blob.digest)?))
    }

    /// Lists the remark's documents, for the store.
    pub fn documents(&self) -> impl Iterator<Item = Vec<u8>> {
        let blobs = self.blobs.iter().map(|blob| blob.bytes.clone());
        [self.manifest.clone()].into_iter().chain(blobs)
    }

    /// Replaces the digest of the remark's image by the one in `names`. A remark on an image that
    /// `names` lacks stays as it is.
    pub fn renamed(mut self, names: &HashMap<Digest, Digest>) -> Self {
        let about = self.entry.annotations.get(REFERENCE_DIGEST);
        let about = about.and_then(|digest| digest.parse::<Digest>().ok());
        let Some((from, to)) = about.and_then(|from| Some((from, *names.get(&from)?))) else {
            return self;
        };
        self.entry
            .annotations
            .insert(REFERENCE_DIGEST.to_owned(), to.to_string());
        let subject = |digest: &Digest, space: &str| format!("\"sha256\":{space}\"{}\"", digest.hex());
        for blob in &mut self.blobs {
            let Ok(mut text) = String::from_utf8(std::mem::take(&mut blob.bytes)).map_err(|error| {
                blob.bytes = error.into_bytes();
            }) else {
                continue;
            };
            for space in ["", " "] {
                text = text.replace(&subject(&from, space), &subject(&to, space));
            }
            blob.bytes = text.into_bytes();
            let digest = sha256(&blob.bytes);
            exchange(&mut self.manifest, &blob.descriptor.digest, &digest);
            blob.descriptor.digest = digest;
        }
        exchange(&mut self.manifest, &from, &to);
        self.entry.digest = sha256(&self.manifest);
        self
    }

    /// Puts the type and size of the image's manifest into the remark's `subject`, by which registries list the
    /// remarks on an image. A remark without a subject, or with a right one, stays byte for byte.
    ///
    /// # Errors
    /// [`ImagesError::ImageDocument`] if the remark's manifest is invalid.
    pub fn about(mut self, image: &Descriptor) -> Result<Self, ImagesError> {
        let manifest = Raw::<Manifest>::read(self.manifest).map_err(ImagesError::ImageDocument)?;
        let subject = manifest.value().subject.as_ref();
        let is_outdated = subject.is_some_and(|subject| {
            subject.digest == image.digest
                && (subject.size != image.size || subject.media_type != image.media_type)
        });
        let (bytes, mut manifest) = manifest.into_parts();
        self.manifest = bytes;
        if is_outdated {
            manifest.subject = Some(Descriptor::new(&image.media_type, image.digest, image.size));
            self.manifest = manifest.to_json();
            self.entry.digest = sha256(&self.manifest);
            self.entry.size = self.manifest.len() as u64;
        }
        Ok(self)
    }
}

/// Replaces one digest by another.
fn exchange(document: &mut Vec<u8>, from: &Digest, to: &Digest) {
    if from != to
        && let Ok(text) = std::str::from_utf8(document)
    {
        *document = text.replace(&from.to_string(), &to.to_string()).into_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tote_image::Read as _;
    use tote_image::media_type::OCI_MANIFEST;

    #[test]
    fn a_remark_goes_out_as_it_came() {
        let (theirs, ours) = (Digest::sha256([1; 32]), Digest::sha256([2; 32]));
        let statement = format!(
            r#"{{"subject":[{{"name":"a","digest":{{"sha256":"{}"}}}}],"predicate":{{"other":"{}"}}}}"#,
            theirs.hex(),
            Digest::sha256([3; 32])
        );
        let statement = statement.into_bytes();
        let describe = |bytes: &[u8]| Descriptor::new("application/json", sha256(bytes), bytes.len() as u64);
        let mut manifest = Manifest::oci(describe(b"{}"), vec![describe(&statement)]);
        manifest.subject = Some(Descriptor::new(OCI_MANIFEST, theirs, 7));
        let manifest = manifest.to_json();
        let mut entry = Descriptor::new(OCI_MANIFEST, sha256(&manifest), manifest.len() as u64);
        entry
            .annotations
            .insert(REFERENCE_TYPE.to_owned(), ATTESTATION.to_owned());
        entry
            .annotations
            .insert(REFERENCE_DIGEST.to_owned(), theirs.to_string());
        assert!(is_remark(&entry));
        let blobs = HashMap::from([(sha256(b"{}"), b"{}".to_vec()), (sha256(&statement), statement)]);
        let came = Remark::read(&entry, manifest, |blob| Ok(blobs[&blob.digest].clone())).unwrap();

        let kept = came.clone().renamed(&HashMap::from([(theirs, ours)]));
        assert_eq!(kept.entry.annotations[REFERENCE_DIGEST], ours.to_string());
        let text = String::from_utf8(kept.blobs[1].bytes.clone()).unwrap();
        assert!(
            text.contains(&ours.hex()) && !text.contains(&theirs.hex()),
            "{text}"
        );
        // The kept remark can be read again: the digest of each document matches.
        let again = Remark::read(&kept.entry, kept.manifest.clone(), |blob| {
            let found = kept.documents().find(|document| sha256(document) == blob.digest);
            Ok(found.unwrap())
        });
        let gone = again.unwrap().renamed(&HashMap::from([(ours, theirs)]));
        assert_eq!(gone.entry, entry);
        assert_eq!(gone.manifest, came.manifest);
        assert_eq!(gone.blobs[1].bytes, came.blobs[1].bytes);
        let as_it_came = Descriptor::new(OCI_MANIFEST, theirs, 7);
        assert_eq!(gone.clone().about(&as_it_came).unwrap().manifest, came.manifest);
        // The image was sent with a manifest of another size.
        let grown = Descriptor::new(OCI_MANIFEST, theirs, 70);
        let gone = gone.about(&grown).unwrap();
        let manifest = Manifest::read(&gone.manifest).unwrap();
        assert_eq!(manifest.subject, Some(grown));
        assert_eq!(
            (gone.entry.digest, gone.entry.size),
            (sha256(&gone.manifest), gone.manifest.len() as u64)
        );
        // The image is unknown.
        assert_eq!(came.clone().renamed(&HashMap::new()).entry, entry);
    }
}
