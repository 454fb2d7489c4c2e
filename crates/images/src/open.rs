//! The store of a state root, and the ids that its files have.

use crate::index::Found;
use crate::{Caller, Home, ImagesError};
use std::error::Error;
use std::time::{Duration, Instant};
use tote_image::{Digest, Platform, Reference};
use tote_store::{Owners, Patience, Store, StoreOptions};
use tote_sys::{Errno, MountRights, best_effort};

/// How long a command goes on sweeping after it has said what it did.
const SWEEP: Duration = Duration::from_millis(20);

/// The same where there is what a killed one has left: it may be much, and it is not often.
const SWEEP_AFTER_DEATH: Duration = Duration::from_secs(1);

/// How long it is tried to make room again.
const ROOM: Duration = Duration::from_secs(60);

/// Opens the store. What adds images or removes them calls [`enter_ids`] first.
///
/// # Errors
/// [`ImagesError::Store`].
pub fn open_store(home: &Home) -> Result<Store, ImagesError> {
    Ok(Store::open(&home.store(), store_options(home)?)?)
}

/// How the store behaves for its owner.
pub fn store_options(home: &Home) -> Result<StoreOptions, ImagesError> {
    // Who has entered the namespace of its ranges is root there.
    let is_alone = home.caller == Caller::User
        && !rustix::process::geteuid().is_root()
        && crate::owners::ranges(0, 0).is_none();
    Ok(StoreOptions {
        owners: if is_alone { Owners::Caller } else { Owners::Image },
        share_host: home.shared_with_host()?,
        overlays: match home.caller {
            Caller::Root => Some(MountRights::Root),
            Caller::User if is_alone => Some(MountRights::None),
            // Whether containers are in the namespace of a nested root or in others: all of these read `user.*`.
            Caller::User | Caller::NestedRoot => Some(MountRights::NamespaceRoot),
        },
    })
}

/// Sees to it that an image is there as a directory. What makes it calls [`enter_ids`] first.
///
/// # Errors
/// [`ImagesError::Store`].
pub fn make_tree(home: &Home, name: &str) -> Result<(), ImagesError> {
    let store = open_store(home)?;
    store.tree(&store.image(&store.resolve(name)?)?)?;
    Ok(())
}

/// The id of the image of a name, or of an id: of an index the one for the platform that is asked for, or else for this
/// machine. Where platforms are asked for, it must be for all of them, or the index have an image for each.
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

/// What a name or an id stands for. Where platforms are asked for, only what is for them: of an index the image for the one
/// platform that is, or else an index of those.
///
/// # Errors
/// As [`resolve`].
pub fn find(store: &Store, text: &str, platforms: &[Platform]) -> Result<Found, ImagesError> {
    for_platforms(store, &store.find(text)?, text, platforms)
}

/// The same of an id; `text` is what it is called in an error.
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

/// What came of adding something. Where there was no room for all of it, nothing of it stays: it would keep the room from
/// whatever else could have it.
pub fn or_nothing<T, E: Error + 'static>(store: &Store, added: Result<T, E>) -> Result<T, E> {
    if let Err(error) = &added
        && is_for_want_of_room(error)
    {
        // Not where somebody else is adding something, who may be about to use it.
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

/// Sweeps for a moment, after a command has said what it did. Nothing waits for it and nothing depends on it; what is
/// left the next command sweeps.
pub fn sweep_a_little(store: &Store) {
    let patience = if store.has_marks() {
        SWEEP_AFTER_DEATH
    } else if store.has_garbage() {
        SWEEP
    } else {
        return;
    };
    // It is tried again when there is something to say about it.
    drop(store.sweep(Patience::Until(Instant::now() + patience)));
}
