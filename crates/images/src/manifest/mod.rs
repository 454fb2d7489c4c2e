//! Lists of images for several platforms, made by hand: `manifest` of docker and podman. A list is an index of the
//! store under a name, and its members are images of the store: members at registries are fetched first.

mod error;
mod show;
mod tools;

pub use error::ManifestError;
pub use show::{InspectedManifest, VerboseManifest, VerboseManifests, inspect_manifest};
pub use tools::{MadeIndex, ToolsRequest, create_at_registry};

use crate::index::ASKED;
use crate::remote::pull_members;
use crate::{Access, Home, ImagesError, PullEvent, PullRequest};
use crate::{Found, delete, entry_of, find, open_store, or_nothing, replace, sweep_a_little, without};
use std::collections::BTreeMap;
use tote_image::{Descriptor, Digest, Index, Platform, Reference};
use tote_store::{Image, ImageIndex, Ingest, Store, StoreError};

/// Prefix of podman for images at a registry.
const DOCKER: &str = "docker://";

/// Description of a member of a list.
#[derive(Clone, Debug, Default)]
pub struct MemberOptions {
    /// Value of `--os`.
    pub os: Option<String>,
    /// Value of `--arch`.
    pub architecture: Option<String>,
    /// Value of `--variant`.
    pub variant: Option<String>,
    /// Value of `--os-version`.
    pub os_version: Option<String>,
    /// Values of `--os-features`.
    pub os_features: Vec<String>,
    /// Values of `--annotation`, each as `KEY=VALUE`.
    pub annotations: Vec<String>,
}

impl MemberOptions {
    fn apply(&self, entry: &mut Descriptor) -> Result<(), ImagesError> {
        let mut platform = entry.platform.clone().unwrap_or_default();
        let or = |given: &Option<String>, known: String| given.clone().unwrap_or(known);
        // A new architecture discards the known variant, which belongs to the old one.
        let variant = match (&self.architecture, &self.variant) {
            (Some(_), None) => String::new(),
            (_, given) => or(given, platform.variant),
        };
        let os_version = or(&self.os_version, platform.os_version);
        let (os, architecture) = (
            or(&self.os, platform.os),
            or(&self.architecture, platform.architecture),
        );
        let os_features = match self.os_features.as_slice() {
            [] => platform.os_features,
            given => given.to_vec(),
        };
        platform = Platform {
            os_version,
            os_features,
            ..Platform::of(&os, &architecture, &variant)
        };
        entry.platform = Some(platform);
        for text in &self.annotations {
            let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
            let (key, value) = pair.ok_or_else(|| ManifestError::Annotation(text.clone()))?;
            entry.annotations.insert(key.to_owned(), value.to_owned());
        }
        Ok(())
    }
}

/// Request to make a list or to add to one.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Name of the list.
    pub list: String,
    /// Images: of the store by name or id, or of registries as `docker://REFERENCE` or by names
    /// that are not in the store.
    pub members: Vec<String>,
    /// True if all images of an index are added, false for this machine's only.
    pub all: bool,
    /// Description of the members.
    pub options: MemberOptions,
    /// Options for the access to registries.
    pub access: Access,
}

/// Listener to the progress of a pull.
type Report<'a> = &'a (dyn Fn(PullEvent<'_>) + Sync);

/// Makes a list of images and returns its id. With `amend` an existing list gets the members in addition. The process
/// must be in the namespace of [`crate::enter_ids`].
///
/// # Errors
/// [`ManifestError`], and those of the store and of a pull.
pub fn create_manifest(
    home: &Home,
    request: &ListRequest,
    amend: bool,
    report: Report<'_>,
) -> Result<Digest, ImagesError> {
    let store = open_store(home)?;
    let name = list_name(&request.list)?;
    let former = match list(&store, &request.list) {
        Ok(index) if amend => Some(index),
        Ok(_) => return Err(ManifestError::Exists(request.list.clone()).into()),
        Err(ImagesError::Store(StoreError::NoImage(_))) => None,
        Err(error) => return Err(error),
    };
    let added = or_nothing(&store, members(&store, request, report))?;
    let ingest = store.ingest_at_once()?;
    let decision = store.decide()?;
    // The list is read again, because it may have changed during the pull.
    let former = former.map(|_| list(&store, &request.list)).transpose()?;
    let id = match former {
        Some(former) => with_members(&store, &ingest, &former, added)?,
        None => {
            let id = ingest.index(&Index::oci(added), &[])?.id;
            ingest.tag(&name, &id)?;
            id
        }
    };
    drop((decision, ingest));
    sweep_a_little(&store);
    Ok(id)
}

/// Adds images to an existing list. Returns the new id of the list.
///
/// # Errors
/// As [`create_manifest`].
pub fn add_to_manifest(
    home: &Home,
    request: &ListRequest,
    report: Report<'_>,
) -> Result<Digest, ImagesError> {
    let store = open_store(home)?;
    list(&store, &request.list)?;
    let added = or_nothing(&store, members(&store, request, report))?;
    let ingest = store.ingest_at_once()?;
    let _decision = store.decide()?;
    // The list is read again, because it may have changed during the pull.
    let former = list(&store, &request.list)?;
    with_members(&store, &ingest, &former, added)
}

/// Changes the description of a member. Returns the new id of the list.
///
/// # Errors
/// [`ManifestError`] and [`ImagesError::Store`].
pub fn annotate_manifest(
    home: &Home,
    list_name: &str,
    member: &str,
    options: &MemberOptions,
) -> Result<Digest, ImagesError> {
    let store = open_store(home)?;
    let ingest = store.ingest_at_once()?;
    let _decision = store.decide()?;
    let former = list(&store, list_name)?;
    let image = member_of(&store, &former, list_name, member)?;
    let mut index = former.index.clone();
    for entry in index.manifests.iter_mut().filter(|entry| entry.digest == image) {
        options.apply(entry)?;
    }
    Ok(replace(&store, &ingest, &former, index)?.id)
}

/// Removes a member from a list. Returns the new id of the list. The image stays, even without a name.
///
/// # Errors
/// [`ManifestError`] and [`ImagesError::Store`].
pub fn remove_from_manifest(home: &Home, list_name: &str, member: &str) -> Result<Digest, ImagesError> {
    let store = open_store(home)?;
    let ingest = store.ingest_at_once()?;
    let _decision = store.decide()?;
    let former = list(&store, list_name)?;
    let image = member_of(&store, &former, list_name, member)?;
    let left = without(&former, &[image]);
    Ok(replace(&store, &ingest, &former, left)?.id)
}

/// Removes a list with its name, and its images that are not used elsewhere.
///
/// # Errors
/// [`ManifestError::NoList`] and [`ImagesError::Store`].
pub fn remove_manifest(home: &Home, list_name: &str) -> Result<Vec<crate::RemovedImage>, ImagesError> {
    let store = open_store(home)?;
    let decision = store.decide()?;
    let index = list(&store, list_name)?;
    let removed = delete(&store, &index.id);
    drop(decision);
    sweep_a_little(&store);
    removed
}

/// Asks whether a list of that name exists.
///
/// # Errors
/// [`ImagesError::Store`].
pub fn has_manifest(home: &Home, list_name: &str) -> Result<bool, ImagesError> {
    match list(&open_store(home)?, list_name) {
        Ok(_) => Ok(true),
        Err(ImagesError::Manifest(_) | ImagesError::Store(StoreError::NoImage(_))) => Ok(false),
        Err(error) => Err(error),
    }
}

fn list_name(text: &str) -> Result<Reference, ImagesError> {
    let name = Reference::parse(text)?;
    match name.digest() {
        Some(_) => Err(ImagesError::TagIsDigest(name.familiar())),
        None => Ok(name),
    }
}

fn list(store: &Store, text: &str) -> Result<ImageIndex, ImagesError> {
    match find(store, text, &[])? {
        Found::Index(index) => Ok(*index),
        Found::Image(_) => Err(ManifestError::NoList(text.to_owned()).into()),
    }
}

/// Makes entries of the requested members.
fn members(store: &Store, request: &ListRequest, report: Report<'_>) -> Result<Vec<Descriptor>, ImagesError> {
    let mut entries = Vec::new();
    for member in &request.members {
        for image in images(store, request, member, report)? {
            let mut entry = entry_of(&image);
            let asked = member.strip_prefix(DOCKER).unwrap_or(member);
            if let Ok(asked) = Reference::parse(asked) {
                entry.annotations = BTreeMap::from([(ASKED.to_owned(), asked.to_string())]);
            }
            request.options.apply(&mut entry)?;
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// Finds the images of a member: those in the store if the name is known there, otherwise at a registry.
fn images(
    store: &Store,
    request: &ListRequest,
    member: &str,
    report: Report<'_>,
) -> Result<Vec<Image>, ImagesError> {
    let remote = member.strip_prefix(DOCKER);
    let here = match remote {
        Some(_) => None,
        None => match find(store, member, &[]) {
            Err(ImagesError::Store(StoreError::NoImage(_))) => None,
            found => Some(found?),
        },
    };
    let Some(found) = here else {
        let pull = PullRequest {
            image: remote.unwrap_or(member).to_owned(),
            platform: None,
            beside: true,
            access: request.access.clone(),
        };
        return pull_members(store, &pull, request.all, report);
    };
    let ids = match found {
        Found::Index(index) if !request.all => index.usual().into_iter().collect(),
        found => found.images(),
    };
    let images = ids.iter().map(|id| Ok(store.image(id)?));
    images.collect()
}

/// Adds members to a list; an entry of the same image is replaced.
fn with_members(
    store: &Store,
    ingest: &Ingest<'_>,
    former: &ImageIndex,
    added: Vec<Descriptor>,
) -> Result<Digest, ImagesError> {
    let mut index = former.index.clone();
    for entry in added {
        match index
            .manifests
            .iter_mut()
            .find(|known| known.digest == entry.digest)
        {
            Some(known) => *known = entry,
            None => index.manifests.push(entry),
        }
    }
    Ok(replace(store, ingest, former, index)?.id)
}

/// Finds the image of a list: by a name or an id of the store, by the reference with which it was requested, or by
/// the digest of its manifest.
fn member_of(store: &Store, index: &ImageIndex, list: &str, text: &str) -> Result<Digest, ImagesError> {
    let text = text.strip_prefix(DOCKER).unwrap_or(text);
    if let Ok(found) = store.resolve(text)
        && index.has(&found)
    {
        return Ok(found);
    }
    let asked = Reference::parse(text).ok().map(|name| name.to_string());
    let by_reference = index
        .entries()
        .find(|entry| asked.is_some() && entry.annotations.get(ASKED) == asked.as_ref());
    if let Some(entry) = by_reference {
        return Ok(entry.digest);
    }
    let digest = text.rsplit('@').next().unwrap_or_default().parse::<Digest>().ok();
    for image in index.images() {
        let (manifest, _) = crate::known_manifest(store, &store.image(&image)?)?;
        if Some(manifest.digest) == digest {
            return Ok(image);
        }
    }
    Err(ManifestError::NoMember {
        member: text.to_owned(),
        list: list.to_owned(),
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tote_image::media_type::OCI_CONFIG;

    #[test]
    fn what_is_said_of_a_member() {
        let mut entry = Descriptor::new(OCI_CONFIG, Digest::sha256([1; 32]), 1);
        entry.platform = Some("linux/arm/v7".parse().unwrap());
        let said = |text: &str| Some(text.to_owned());
        let options = MemberOptions {
            variant: said("v6"),
            annotations: vec!["a=b=c".to_owned()],
            ..MemberOptions::default()
        };
        options.apply(&mut entry).unwrap();
        assert_eq!(entry.platform.as_ref().unwrap().to_string(), "linux/arm/v6");
        assert_eq!(entry.annotations["a"], "b=c");
        let options = MemberOptions {
            architecture: said("arm64"),
            os_version: said("1"),
            ..MemberOptions::default()
        };
        options.apply(&mut entry).unwrap();
        let platform = entry.platform.clone().unwrap();
        assert_eq!(
            (platform.to_string().as_str(), platform.os_version.as_str()),
            ("linux/arm64", "1")
        );
        let wrong = MemberOptions {
            annotations: vec!["=b".to_owned()],
            ..MemberOptions::default()
        };
        assert!(wrong.apply(&mut entry).is_err());
    }
}
