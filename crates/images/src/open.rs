//! Access to the store of a state root, and the owners of its files.

use crate::index::Found;
use crate::{Caller, Home, ImagesError};
use std::error::Error;
use std::time::{Duration, Instant};
use tote_image::{Digest, Platform, Reference};
use tote_store::{Owners, Patience, Store, StoreOptions};
use tote_sys::{Errno, MountRights, best_effort};

/// Time limit of the sweep after a command's output.
const SWEEP: Duration = Duration::from_millis(20);

/// Time limit of the sweep after a process was killed: it may have left much, but that is rare.
const SWEEP_AFTER_DEATH: Duration = Duration::from_secs(1);

/// Time limit of the attempts to free room.
const ROOM: Duration = Duration::from_secs(60);

/// Number of files from which on an image is one file of metadata, unless the configuration says otherwise. Each start from such an
/// image takes about half a millisecond longer, while each file takes less time once, when the image is loaded and removed.
const EROFS_FROM: u64 = 10_000;

/// Opens the store. A process that adds or removes images calls [`enter_ids`](crate::enter_ids) first.
///
/// # Errors
/// [`ImagesError::Store`].
pub fn open_store(home: &Home) -> Result<Store, ImagesError> {
    Ok(Store::open(&home.store(), store_options(home)?)?)
}

/// Returns the options of the store for the state root's owner.
pub fn store_options(home: &Home) -> Result<StoreOptions, ImagesError> {
    // A process that has entered the namespace of its ranges is root there.
    let is_alone = home.caller == Caller::User
        && !rustix::process::geteuid().is_root()
        && crate::owners::ranges(0, 0).is_none();
    Ok(StoreOptions {
        owners: if is_alone { Owners::Caller } else { Owners::Image },
        share_host: home.shared_with_host()?,
        overlays: match home.caller {
            Caller::Root => Some(MountRights::Root),
            Caller::User if is_alone => Some(MountRights::None),
            // `user.*` attributes are readable for containers in the namespace of a nested root and in others alike.
            Caller::User | Caller::NestedRoot => Some(MountRights::NamespaceRoot),
        },
        erofs_from: match home.caller {
            Caller::Root => Some(home.storage_config()?.erofs_from.unwrap_or(EROFS_FROM)),
            Caller::User | Caller::NestedRoot => None,
        },
    })
}

/// Ensures that the image's directory exists. A process that makes it calls [`enter_ids`](crate::enter_ids) first.
///
/// # Errors
/// [`ImagesError::Store`].
pub fn make_tree(home: &Home, name: &str) -> Result<(), ImagesError> {
    let store = open_store(home)?;
    store.tree(&store.image(&store.resolve(name)?)?)?;
    Ok(())
}

/// Finds the id of an image by a name or an id. An index gives its image for the first requested platform, by default
/// this machine's. An image must be for all requested platforms; an index must have an image for each.
///
/// # Errors
/// [`ImagesError::Store`], and [`ImagesError::OtherPlatform`].
pub fn resolve(store: &Store, text: &str, platforms: &[Platform]) -> Result<Digest, ImagesError> {
    let Some(first) = platforms.first() else {
        return Ok(store.resolve(text)?);
    };
    let found = find(store, text, platforms)?;
    let image = match &found {
        Found::Image(id) => Some(*id),
        Found::Index(index) => index.select(first),
    };
    image.ok_or_else(|| other_platform(store, text, first))
}

/// Finds the image or index of a name or an id, restricted to the requested platforms: an index becomes its image for
/// a single platform, or an index of the images for several.
///
/// # Errors
/// As [`resolve`].
pub fn find(store: &Store, text: &str, platforms: &[Platform]) -> Result<Found, ImagesError> {
    for_platforms(store, &store.find(text)?, text, platforms)
}

/// Restricts an id to the requested platforms, like [`find`]; `text` is its name in an error.
///
/// # Errors
/// As [`resolve`].
pub fn for_platforms(
    store: &Store,
    id: &Digest,
    text: &str,
    platforms: &[Platform],
) -> Result<Found, ImagesError> {
    Found::of(store, id)?
        .for_platforms(store, platforms)?
        .map_err(|wanted| other_platform(store, text, &wanted))
}

fn other_platform(store: &Store, text: &str, wanted: &Platform) -> ImagesError {
    let name = Reference::parse(text).ok();
    let name = name.filter(|name| matches!(store.named(name), Ok(Some(_))));
    ImagesError::OtherPlatform {
        image: name.map_or_else(|| text.to_owned(), |name| name.familiar()),
        wanted: Box::new(wanted.clone()),
    }
}

/// Passes on the result of an addition. If the addition failed for lack of room, a sweep removes its parts, which
/// would otherwise occupy that room.
pub fn or_nothing<T, E: Error + 'static>(store: &Store, added: Result<T, E>) -> Result<T, E> {
    if let Err(error) = &added
        && is_for_want_of_room(error)
    {
        // The sweep does nothing while another process adds an image, which may use these parts.
        best_effort(store.sweep(Patience::Until(Instant::now() + ROOM)));
    }
    added
}

fn is_for_want_of_room(error: &(dyn Error + 'static)) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let of_io = error.downcast_ref::<std::io::Error>();
        let of_kernel = error.downcast_ref::<Errno>();
        if of_io.is_some_and(|error| matches!(error.kind(), StorageFull | QuotaExceeded))
            || of_kernel.is_some_and(|errno| matches!(*errno, Errno::NOSPC | Errno::DQUOT))
        {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Sweeps for a moment after a command's output. No caller depends on it; the next command sweeps the rest.
pub fn sweep_a_little(store: &Store) {
    let patience = if store.has_marks() {
        SWEEP_AFTER_DEATH
    } else if store.has_garbage() {
        SWEEP
    } else {
        return;
    };
    // A later sweep tries again and reports the error when it matters.
    drop(store.sweep(Patience::Until(Instant::now() + patience)));
}
