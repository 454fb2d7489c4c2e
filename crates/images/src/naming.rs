//! Names of images: adding, removing, looking up.

use crate::delete::RemovedImage;
use crate::open::open_store;
use crate::{Home, ImagesError, events};
use tote_image::Reference;
use tote_store::StoreError;

/// Adds a name to an image.
///
/// # Errors
/// [`ImagesError`].
pub fn tag(home: &Home, image: &str, name: &str) -> Result<(), ImagesError> {
    let store = open_store(home)?;
    let name = Reference::parse(name)?;
    if name.digest().is_some() {
        return Err(ImagesError::TagIsDigest(name.familiar()));
    }
    // What is not there costs no wait for a sweep.
    store.find(image)?;
    // A sweep finds the mark of a process that was killed here.
    let ingest = store.ingest_at_once()?;
    let decision = store.decide()?;
    let id = store.find(image)?;
    ingest.tag(&name, &id)?;
    drop((decision, ingest));
    events::tagged(home, &store, &id, &name);
    Ok(())
}

/// Removes names from an image, by default all of them. The image stays.
///
/// # Errors
/// [`ImagesError::UnknownTag`] and [`ImagesError::UntagDigest`], before any name is removed; and errors of the store.
pub fn untag(home: &Home, image: &str, names: &[String]) -> Result<(), ImagesError> {
    let store = open_store(home)?;
    // A name that is to be taken from this image may be given to another one.
    let decision = store.decide()?;
    let id = store.find(image)?;
    let all = store.names()?.into_iter();
    let mut own: Vec<Reference> = all.filter(|(_, of)| *of == id).map(|(name, _)| name).collect();
    let mut wanted = Vec::new();
    for text in names {
        let name = Reference::parse(text)?.canonical();
        if name.digest().is_some() {
            return Err(ImagesError::UntagDigest(name.familiar()));
        }
        if !own.contains(&name) {
            return Err(ImagesError::UnknownTag(name.familiar()));
        }
        wanted.push(name);
    }
    if names.is_empty() {
        wanted.clone_from(&own);
    }
    let mut removed = Vec::new();
    for name in wanted
        .iter()
        .filter(|name| own.contains(name))
        .collect::<Vec<_>>()
    {
        for gone in with_digests(name, &own) {
            if store.untag(gone)? {
                removed.push(RemovedImage::Untagged(gone.clone()));
            }
        }
        own.retain(|name| !removed.contains(&RemovedImage::Untagged(name.clone())));
    }
    drop(decision);
    events::removed(home, &id, &removed);
    Ok(())
}

/// Asks whether an image of that name or id is here.
///
/// # Errors
/// [`ImagesError::Store`], for example for an ambiguous id.
pub fn has_image(home: &Home, text: &str) -> Result<bool, ImagesError> {
    match open_store(home)?.find(text) {
        Ok(_) => Ok(true),
        Err(StoreError::NoImage(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Lists the names to remove with a name: with the last tag of a repository its digests go too, because no user gave
/// the image these.
pub fn with_digests<'a>(name: &'a Reference, names: &'a [Reference]) -> Vec<&'a Reference> {
    let of_repository = |other: &&Reference| *other != name && other.name() == name.name();
    let rest: Vec<&Reference> = names.iter().filter(of_repository).collect();
    let is_last = rest.iter().all(|other| other.digest().is_some());
    let rest = rest.into_iter().filter(|_| is_last);
    [name].into_iter().chain(rest).collect()
}
