//! Names of images: given, taken away, looked for.

use crate::delete::RemovedImage;
use crate::open::open_store;
use crate::{Home, ImagesError, events};
use tote_image::Reference;
use tote_store::StoreError;

/// Gives an image one more name.
///
/// # Errors
/// [`ImagesError`].
pub fn tag(home: &Home, image: &str, name: &str) -> Result<(), ImagesError> {
    let store = open_store(home)?;
    let name = Reference::parse(name)?;
    if name.digest().is_some() {
        return Err(ImagesError::TagIsDigest(name.familiar()));
    }
    let id = store.find(image)?;
    // What is left of a killed one is found by its mark.
    store.ingest_at_once()?.tag(&name, &id)?;
    events::tagged(home, &store, &id, &name);
    Ok(())
}

/// Takes names away from an image, all of them where none is given. The image stays.
///
/// # Errors
/// [`ImagesError::UnknownTag`] and [`ImagesError::UntagDigest`], before anything is taken away; and those of the store.
pub fn untag(home: &Home, image: &str, names: &[String]) -> Result<(), ImagesError> {
    let store = open_store(home)?;
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
    events::removed(home, &id, &removed);
    Ok(())
}

/// Whether an image of that name or id is here.
///
/// # Errors
/// [`ImagesError::Store`], of a text that names more than one for example.
pub fn has_image(home: &Home, text: &str) -> Result<bool, ImagesError> {
    match open_store(home)?.find(text) {
        Ok(_) => Ok(true),
        Err(StoreError::NoImage(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A name that goes, and with the last tag of a repository the digests there, too: nobody gave the image these.
pub fn with_digests<'a>(name: &'a Reference, names: &'a [Reference]) -> Vec<&'a Reference> {
    let of_repository = |other: &&Reference| *other != name && other.name() == name.name();
    let rest: Vec<&Reference> = names.iter().filter(of_repository).collect();
    let is_last = rest.iter().all(|other| other.digest().is_some());
    let rest = rest.into_iter().filter(|_| is_last);
    [name].into_iter().chain(rest).collect()
}
