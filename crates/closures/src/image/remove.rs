//! Names of images, and the end of images.

use super::list::fits;
use crate::prune::filters::PruneFilters;
use crate::{EngineError, Home, ImageFault, container};
use std::collections::HashSet;
use tote_image::{Digest, Platform, Reference};
use tote_images::ImagesError;
use tote_images::{
    RemovedImage, delete, events, for_platforms, open_store, orphans, replace, sweep_a_little, with_digests,
    without,
};
use tote_state::events::Event;
use tote_state::events::append;
use tote_store::{ImageIndex, Ingest, Patience, Store, StoreError};

/// Removes names, and the images that lose their last one, where they are for all platforms that are asked for. `each` is
/// told what happened with each argument; the bytes are removed after that, as far as it does not take long.
///
/// # Errors
/// Those of the store as a whole; what concerns one argument, `each` is told.
pub fn remove_images(
    home: &Home,
    wanted: &[String],
    platforms: &[Platform],
    force: bool,
    each: &mut dyn FnMut(Result<Vec<RemovedImage>, EngineError>),
) -> Result<(), EngineError> {
    let store = open_store(home)?;
    for text in wanted {
        each(remove(home, &store, (text, platforms), force));
    }
    sweep_a_little(&store);
    forget_templates(home, &store);
    Ok(())
}

fn remove(
    home: &Home,
    store: &Store,
    (text, platforms): (&str, &[Platform]),
    force: bool,
) -> Result<Vec<RemovedImage>, EngineError> {
    // The new index of the images that are left is an addition, and additions begin before decisions.
    let ingest = (!platforms.is_empty()).then(|| store.ingest()).transpose()?;
    let _decision = store.decide()?;
    let whole = store.find(text)?;
    let found = for_platforms(store, &whole, text, platforms)?;
    let id = found.id();
    if let (Some(index), Some(ingest)) = (store.index(&whole)?, &ingest) {
        return remove_platforms(home, (store, ingest), &index, &found.images(), force);
    }
    let names: Vec<Reference> = store
        .names()?
        .into_iter()
        .filter(|(_, named)| *named == id)
        .map(|(name, _)| name)
        .collect();
    let given = Reference::parse(text).map(|name| name.canonical()).ok();
    let given = given.filter(|name| names.contains(name));
    let index = index_with(store, &id)?;
    if let Some(name) = &given {
        let gone = with_digests(name, &names);
        if gone.len() < names.len() || index.is_some() {
            let mut removed = Vec::new();
            for name in gone {
                store.untag(name)?;
                removed.push(RemovedImage::Untagged(name.clone()));
            }
            events::removed(home, &id, &removed);
            return Ok(removed);
        }
    }
    if let Some(index) = index {
        return Err(EngineError::Image(ImageFault::ImageOfIndex {
            image: id.short(),
            index,
        }));
    }
    let going = match store.index(&id)? {
        Some(index) => orphans(store, &index)?,
        None => vec![id],
    };
    let mut kept_for = None;
    for image in going {
        kept_for = check_use(home, &image, given.as_ref(), force)?.or(kept_for);
    }
    let repositories = names.iter().filter(|name| name.digest().is_none());
    if given.is_none() && repositories.count() > 1 && !force {
        return Err(EngineError::Image(ImageFault::ManyNames(id.short())));
    }
    let removed = match kept_for {
        Some(in_use) if names.is_empty() => return Err(in_use),
        Some(_) => untag_all(store, names)?,
        None => delete(store, &id)?,
    };
    events::removed(home, &id, &removed);
    Ok(removed)
}

/// Takes all names from an image that stays for a stopped container's sake: the container's files are nothing without it.
fn untag_all(store: &Store, names: Vec<Reference>) -> Result<Vec<RemovedImage>, EngineError> {
    let mut removed = Vec::new();
    for name in names {
        store.untag(&name)?;
        removed.push(RemovedImage::Untagged(name));
    }
    Ok(removed)
}

/// The name of the index that has an image, if one has, or the index's id where it has no name.
fn index_with(store: &Store, image: &Digest) -> Result<Option<String>, EngineError> {
    let Some(index) = store.indexes()?.into_iter().find(|index| index.has(image)) else {
        return Ok(None);
    };
    let names = store.names()?.into_iter();
    let mut names = names.filter(|(name, id)| *id == index.id && name.digest().is_none());
    let name = names.next().map(|(name, _)| name.familiar());
    Ok(Some(name.unwrap_or_else(|| index.id.short())))
}

/// Takes the images of some platforms out of an index; with its last one the index goes.
fn remove_platforms(
    home: &Home,
    (store, ingest): (&Store, &Ingest<'_>),
    index: &ImageIndex,
    images: &[Digest],
    force: bool,
) -> Result<Vec<RemovedImage>, EngineError> {
    let left = without(index, images);
    let going: Vec<Digest> = orphans(store, index)?
        .into_iter()
        .filter(|image| images.contains(image))
        .collect();
    let mut used = HashSet::new();
    for image in &going {
        if check_use(home, image, None, force)?.is_some() {
            used.insert(image);
        }
    }
    if used.is_empty() && index.images().all(|image| images.contains(&image)) {
        let removed = delete(store, &index.id)?;
        events::removed(home, &index.id, &removed);
        return Ok(removed);
    }
    replace(store, ingest, index, left)?;
    let mut removed = Vec::new();
    // An image in use stays, without the index.
    for image in going.iter().filter(|image| !used.contains(image)) {
        let gone = delete(store, image)?;
        events::removed(home, image, &gone);
        removed.extend(gone);
    }
    Ok(removed)
}

/// Images that a pruning has removed.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Names and images.
    pub removed: Vec<RemovedImage>,
    /// Bytes of contents that are gone, also of images that were removed before.
    pub bytes: u64,
    /// Containers and pools that may use any image, because their records cannot be read: as long as there is one, images stay.
    pub errors: Vec<EngineError>,
}

/// Removes images without a tag, or all that no container has, as far as they fit the filters (`until`, `label`, `dangling`),
/// and every byte that nothing needs.
///
/// # Errors
/// `PruneFault::Filter` and [`EngineError::Store`].
pub fn prune_images(home: &Home, all: bool, filters: &[String]) -> Result<Pruned, EngineError> {
    let filters = PruneFilters::of_images(filters)?;
    let all = filters.dangling.map_or(all, |dangling| !dangling);
    let store = open_store(home)?;
    let gap = store.gap()?;
    let decision = store.decide()?;
    let names = store.names()?;
    // A digest is what stays of a name that stands for a newer image now.
    let is_tagged = |of: &Digest| names.iter().any(|(name, id)| id == of && name.digest().is_none());
    let mut unwanted = Vec::new();
    let mut of_indexes: HashSet<Digest> = HashSet::new();
    for index in store.indexes()? {
        let shown = super::list::shown(&store, &index)?;
        let is_named = is_tagged(&index.id);
        // An image with a name of its own stays where a nameless index goes.
        let going = if is_named {
            index.images().collect()
        } else {
            orphans(&store, &index)?
        };
        if (all || !is_named) && fits(&filters, &shown) && !have_users(home, &going)? {
            unwanted.push(index.id);
        } else {
            of_indexes.extend(index.images());
        }
    }
    for image in store.images()? {
        let is_kept = of_indexes.contains(&image.id);
        if !is_kept && (all || !is_tagged(&image.id)) && fits(&filters, &image) {
            unwanted.push(image.id);
        }
    }
    unwanted.extend(store.damaged_images()?);
    let mut pruned = Pruned {
        errors: container::unread(home)?,
        ..Pruned::default()
    };
    for id in unwanted {
        if !container::image_users(home, &id)?.is_empty() {
            continue;
        }
        match delete(&store, &id) {
            Ok(removed) => {
                events::removed(home, &id, &removed);
                pruned.removed.extend(removed);
            }
            // Another command was faster.
            Err(ImagesError::Store(StoreError::NoImage(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
    drop((decision, gap));
    forget_templates(home, &store);
    tote_builder::forget_stale(home, &store);
    pruned.bytes = store.sweep(Patience::Endless)?.unwrap_or_default().bytes;
    append(home, &[Event::pruned("image", pruned.bytes)]);
    Ok(pruned)
}

/// Whether a container has one of the images.
fn have_users(home: &Home, images: &[Digest]) -> Result<bool, EngineError> {
    for image in images {
        if !container::image_users(home, image)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Files that drivers have made of images go with these.
fn forget_templates(home: &Home, store: &Store) {
    tote_driver::forget_templates(&home.templates(), &|chain| store.has_tree(chain));
}

/// docker's rule: an image that a container has loses its names only by force, and never while that runs. With force, the
/// answer is the reason why the image itself stays, if it has to.
fn check_use(
    home: &Home,
    id: &Digest,
    given: Option<&Reference>,
    force: bool,
) -> Result<Option<EngineError>, EngineError> {
    let mut reason = None;
    for user in container::image_users(home, id)? {
        let in_use = EngineError::Image(ImageFault::ImageInUse {
            image: given.map_or_else(|| id.short(), Reference::familiar),
            user: user.name,
            runs: user.runs,
            mounted: user.mounted,
            forced: force,
        });
        if user.runs || user.mounted || !force {
            return Err(in_use);
        }
        // A damaged record does not say which image it has: force does not wait for its removal.
        if !user.damaged {
            reason = Some(in_use);
        }
    }
    Ok(reason)
}
