//! The store of a state root, and the ids that its files have.

use super::index::Found;
use crate::{Caller, EngineError, Home};
use rustix::fd::AsFd as _;
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
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
/// [`EngineError::Store`].
pub fn open_store(home: &Home) -> Result<Store, EngineError> {
    Ok(Store::open(&home.store(), store_options(home)?)?)
}

/// How the store behaves for its owner.
pub(crate) fn store_options(home: &Home) -> Result<StoreOptions, EngineError> {
    // Who has entered the namespace of its ranges is root there.
    let is_alone = home.caller == Caller::User
        && !rustix::process::geteuid().is_root()
        && crate::user::ranges(0, 0).is_none();
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

/// Whether this process may give files to everyone whom images name, or nobody but the caller is given any:
/// [`enter_ids`] would change nothing.
pub(crate) fn has_ids(home: &Home) -> bool {
    home.caller != Caller::User || rustix::process::geteuid().is_root() || crate::user::ranges(0, 0).is_none()
}

/// Sees to it that an image is there as a directory. What makes it calls [`enter_ids`] first.
///
/// # Errors
/// [`EngineError::Store`].
pub(crate) fn make_tree(home: &Home, name: &str) -> Result<(), EngineError> {
    let store = open_store(home)?;
    store.tree(&store.image(&store.resolve(name)?)?)?;
    Ok(())
}

/// The id of the image of a name, or of an id: of an index the one for the platform that is asked for, or else for this
/// machine. Where platforms are asked for, it must be for all of them, or the index have an image for each.
///
/// # Errors
/// [`EngineError::Store`], and [`EngineError::OtherPlatform`].
pub(crate) fn resolve(store: &Store, text: &str, platforms: &[Platform]) -> Result<Digest, EngineError> {
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
pub(crate) fn find(store: &Store, text: &str, platforms: &[Platform]) -> Result<Found, EngineError> {
    for_platforms(store, &store.find(text)?, text, platforms)
}

/// The same of an id; `text` is what it is called in an error.
///
/// # Errors
/// As [`resolve`].
pub(crate) fn for_platforms(
    store: &Store,
    id: &Digest,
    text: &str,
    platforms: &[Platform],
) -> Result<Found, EngineError> {
    Found::of(store, id)?
        .for_platforms(store, platforms)?
        .map_err(|wanted| other_platform(store, text, &wanted))
}

fn other_platform(store: &Store, text: &str, wanted: &Platform) -> EngineError {
    let name = Reference::parse(text).ok();
    let name = name.filter(|name| matches!(store.named(name), Ok(Some(_))));
    EngineError::OtherPlatform {
        image: name.map_or_else(|| text.to_owned(), |name| name.familiar()),
        wanted: Box::new(wanted.clone()),
    }
}

/// Makes this process one that may have files of every id of the caller's ranges, as containers do: for root it is that
/// already, and a user without ranges has one id. Everything that the process does after that, it does as root of a user
/// namespace of its own. It must have one thread.
///
/// # Errors
/// [`EngineError::Run`] of newuidmap(1), and [`EngineError::Kernel`].
pub fn enter_ids(home: &Home) -> Result<(), EngineError> {
    let Some(maps) = (home.caller == Caller::User)
        .then(|| crate::user::ranges(0, 0))
        .flatten()
    else {
        return Ok(());
    };
    let namespace = tote_runtime::user_namespace(&maps)?;
    move_into_thread_name_spaces(namespace.as_fd(), ThreadNameSpaceType::USER).map_err(|source| {
        EngineError::Kernel {
            attempt: "enter a user namespace for the image's owners",
            source,
        }
    })
}

/// Makes this process root of a user namespace with one id, the caller's.
///
/// # Errors
/// [`EngineError::Kernel`].
pub(crate) fn enter_one_id() -> Result<(), EngineError> {
    let failed = |source| EngineError::Kernel {
        attempt: "enter a user namespace",
        source,
    };
    let namespace = tote_sys::user_namespace(0).map_err(failed)?;
    move_into_thread_name_spaces(namespace.as_fd(), ThreadNameSpaceType::USER).map_err(failed)
}

/// What came of adding something. Where there was no room for all of it, nothing of it stays: it would keep the room from
/// whatever else could have it.
pub(crate) fn or_nothing<T>(store: &Store, added: Result<T, EngineError>) -> Result<T, EngineError> {
    if let Err(error) = &added
        && is_for_want_of_room(error)
    {
        // Not where somebody else is adding something, who may be about to use it.
        best_effort(store.sweep(Patience::Until(Instant::now() + ROOM)));
    }
    added
}

fn is_for_want_of_room(error: &EngineError) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
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
pub(crate) fn sweep_a_little(store: &Store) {
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
