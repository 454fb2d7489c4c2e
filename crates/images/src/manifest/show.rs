//! Content of a list of this machine, or of one at a registry.

use crate::remote::registry_client;
use crate::{Access, Home, ImagesError};
use crate::{Found, find, known_manifest, open_store, written};
use std::collections::HashMap;
use tote_image::{Descriptor, Digest, Document, Reference, media_type};
use tote_store::{ImageIndex, Store, StoreError};

/// Document of a manifest or an index.
#[derive(Clone, Debug)]
pub struct InspectedManifest {
    /// Name of the list.
    pub name: Reference,
    /// Digest of the list.
    pub digest: Digest,
    /// Media type that the list declares.
    pub media_type: String,
    /// Text of the document.
    pub json: Vec<u8>,
    /// Its manifests, if they were asked for.
    pub verbose: Option<VerboseManifests>,
}

/// A manifest, or those of an index.
#[derive(Clone, Debug)]
pub enum VerboseManifests {
    /// The document is a manifest.
    One(Box<VerboseManifest>),
    /// The document is an index of these.
    Index(Vec<VerboseManifest>),
}

/// Manifest with its text.
#[derive(Clone, Debug)]
pub struct VerboseManifest {
    /// Name of the manifest.
    pub name: String,
    /// Descriptor of the manifest.
    pub descriptor: Descriptor,
    /// Text of the manifest.
    pub json: Vec<u8>,
}

impl VerboseManifest {
    /// Asks whether the manifest has docker's media type, and not OCI's.
    #[must_use]
    pub fn is_dockers(&self) -> bool {
        self.descriptor.media_type == media_type::DOCKER_MANIFEST
    }
}

/// Returns a list of this machine, in the form that `push` would send as far as that is known, or a manifest or an
/// index at a registry.
///
/// # Errors
/// [`ImagesError`]: the list does not exist, or the registry does not answer.
pub fn inspect_manifest(
    home: &Home,
    text: &str,
    access: &Access,
    verbose: bool,
) -> Result<InspectedManifest, ImagesError> {
    let remote = text.strip_prefix("docker://");
    if remote.is_none() {
        let store = open_store(home)?;
        match find(&store, text, &[]) {
            Ok(Found::Index(index)) => return inspect_here(&store, &index, text, verbose),
            Ok(Found::Image(_)) | Err(ImagesError::Store(StoreError::NoImage(_))) => {}
            Err(error) => return Err(error),
        }
    }
    let (client, name) = registry_client(remote.unwrap_or(text), access)?;
    let fetched = client.manifest(&name)?;
    let own = Descriptor::new(&fetched.media_type, fetched.digest, fetched.raw.len() as u64);
    let manifest = |entry: &Descriptor| {
        if entry.digest == own.digest {
            return Ok(fetched.raw.clone());
        }
        Ok(client.manifest(&name.with_digest(entry.digest))?.raw)
    };
    Ok(InspectedManifest {
        verbose: if verbose {
            Some(at_length(&name, &fetched.document, &own, manifest)?)
        } else {
            None
        },
        digest: fetched.digest,
        media_type: fetched.media_type.clone(),
        json: fetched.raw.clone(),
        name: name.clone(),
    })
}

fn inspect_here(
    store: &Store,
    index: &ImageIndex,
    text: &str,
    verbose: bool,
) -> Result<InspectedManifest, ImagesError> {
    let mut documents = HashMap::new();
    let written = written(store, index, |image| {
        let (descriptor, json) = known_manifest(store, image)?;
        documents.insert(descriptor.digest, json);
        Ok(descriptor)
    })?;
    documents.extend(
        written
            .remarks
            .into_iter()
            .map(|remark| (remark.entry.digest, remark.manifest)),
    );
    let name = Reference::parse(text)?;
    let document = Document::read(&written.json, None).map_err(ImagesError::ImageDocument)?;
    let manifest = |entry: &Descriptor| Ok(documents.get(&entry.digest).cloned().unwrap_or_default());
    let own = &written.descriptor;
    let verbose = verbose.then(|| at_length(&name, &document, own, manifest));
    Ok(InspectedManifest {
        verbose: verbose.transpose()?,
        digest: own.digest,
        media_type: own.media_type.clone(),
        json: written.json,
        name,
    })
}

/// Reads the manifest, or those that an index names.
fn at_length(
    name: &Reference,
    document: &Document,
    own: &Descriptor,
    mut manifest: impl FnMut(&Descriptor) -> Result<Vec<u8>, ImagesError>,
) -> Result<VerboseManifests, ImagesError> {
    let mut one = |name: String, entry: &Descriptor| -> Result<VerboseManifest, ImagesError> {
        Ok(VerboseManifest {
            name,
            json: manifest(entry)?,
            descriptor: entry.clone(),
        })
    };
    Ok(match document {
        Document::Manifest(_) => VerboseManifests::One(Box::new(one(name.to_string(), own)?)),
        Document::Index(index) => {
            let entries = index.manifests.iter();
            let manifests = entries.map(|entry| one(format!("{name}@{}", entry.digest), entry));
            VerboseManifests::Index(manifests.collect::<Result<_, _>>()?)
        }
    })
}
