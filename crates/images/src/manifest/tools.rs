//! `imagetools create` of docker: combines images at registries to an index at a registry.

use super::{ListRequest, Report, members};
use crate::{Access, Home, ImagesError, PushReport, PushRequest, PushedImage};
use crate::{delete, known_manifest, open_store, or_nothing, sweep_a_little, written};
use tote_image::{Descriptor, Index};

/// Request to make an index of images at registries.
#[derive(Clone, Debug, Default)]
pub struct ToolsRequest {
    /// References at registries; a reference to an index stands for all its images.
    pub sources: Vec<String>,
    /// Names to which the index is pushed.
    pub names: Vec<String>,
    /// True if the images stay that the names refer to already.
    pub append: bool,
    /// True if nothing is pushed.
    pub dry_run: bool,
    /// Options for the access to registries.
    pub access: Access,
}

/// Result of such a request.
#[derive(Clone, Debug)]
pub enum MadeIndex {
    /// Document that would be pushed.
    Document(Vec<u8>),
    /// Images at the registry, one for each name.
    Pushed(Vec<PushedImage>),
}

/// Makes an index of images at registries, and pushes it. The images are fetched for that and removed afterwards,
/// unless they were here before. The process must be in the namespace of [`crate::enter_ids`].
///
/// # Errors
/// [`ImagesError`].
pub fn create_at_registry(
    home: &Home,
    request: &ToolsRequest,
    report: Report<'_>,
    push: &PushReport,
) -> Result<MadeIndex, ImagesError> {
    let store = open_store(home)?;
    let former = request.names.iter().filter(|_| request.append);
    let sources = former.chain(&request.sources);
    let list = ListRequest {
        members: sources
            .map(|source| format!("docker://{}", source.trim_start_matches("docker://")))
            .collect(),
        all: true,
        access: request.access.clone(),
        ..ListRequest::default()
    };
    let ingest = store.ingest_at_once()?;
    let mut entries: Vec<Descriptor> = Vec::new();
    for entry in or_nothing(&store, members(&store, &list, report))? {
        if !entries.iter().any(|known| known.digest == entry.digest) {
            entries.push(entry);
        }
    }
    let index = ingest.index(&Index::oci(entries), &[])?;
    let is_new = !store.names()?.iter().any(|(_, id)| *id == index.id);
    drop(ingest);
    let made = if request.dry_run {
        let known = |image: &_| known_manifest(&store, image).map(|(descriptor, _)| descriptor);
        written(&store, &index, known).map(|written| MadeIndex::Document(written.json))
    } else {
        let pushed = request.names.iter().map(|name| {
            let request = PushRequest {
                image: index.id.to_string(),
                destination: Some(name.clone()),
                platforms: Vec::new(),
                access: request.access.clone(),
            };
            crate::push(home, &request, push)
        });
        pushed.collect::<Result<_, _>>().map(MadeIndex::Pushed)
    };
    if is_new {
        delete(&store, &index.id)?;
    }
    sweep_a_little(&store);
    made
}
