//! Removal of unused sandboxes, and of pools.

use super::error::PoolError;
use super::lock::Lock;
use super::record::{FILE, Pool, open_dir, parse_name, sockets_in};
use crate::container::{self, Claim, fault};
use crate::{EngineError, Home};
use rustix::fd::AsFd as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tote_bundle::ContainerId;
use tote_state::StateError;
use tote_state::locked::is_full_disk;
use tote_state::new_id;
use tote_state::record::{is_there, names_in};
use tote_sys::{Errno, Event, Taking, best_effort};

/// Removes a pool with every ready sandbox. Taken ones go on, because they are containers of their own. With `force`
/// a missing pool is not an error.
///
/// # Errors
/// [`PoolError::Missing`], [`EngineError::State`].
pub fn remove(home: &Home, name: &str, force: bool) -> Result<(), EngineError> {
    let parsed = parse_name(name)?;
    let swept = sweep(home);
    let dir = home.pool(&parsed);
    // An earlier removal may have begun, and not completed.
    if !is_there(&dir)? {
        return if force || swept.iter().any(|gone| gone == name) {
            Ok(())
        } else {
            Err(PoolError::Missing(name.to_owned()).into())
        };
    }
    if let Err(EngineError::State(StateError::Damaged(damaged))) = Pool::read(home, &parsed) {
        damaged.removable(force).map_err(StateError::from)?;
    }
    // Without the record no sandbox is taken or made.
    tote_state::record::remove(&dir.join(FILE))?;
    fault::point("pool-unwritten");
    let Some(_lock) = Lock::fill(home, &parsed)? else {
        return Ok(());
    };
    if Pool::read(home, &parsed)?.is_some() {
        // Another command has filled the pool anew while this one waited, and wants it.
        return Ok(());
    }
    set_aside(home, name, dir)
}

/// Renames the directory of a pool and removes it. The caller has the lock.
fn set_aside(home: &Home, name: &str, dir: PathBuf) -> Result<(), EngineError> {
    // A command that fills a pool of this name from here on has a new directory and a new lock.
    let gone = home.pools().join(format!(".{name}.{}", new_id()?.short()));
    let renamed = std::fs::rename(&dir, &gone);
    let gone = match renamed {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        // A full disk has no room for another name.
        Err(error) if is_full_disk(&error) => dir,
        renamed => renamed.map(|()| gone).map_err(EngineError::file("rename", dir))?,
    };
    remove_all(home, &gone)
}

/// Removes the remains of killed or failed removals. Returns the names of these pools.
pub(super) fn sweep(home: &Home) -> Vec<String> {
    let mut swept = Vec::new();
    // absence: the next sweep lists them again
    for name in names_in(&home.pools()).unwrap_or_default() {
        // A directory that cannot be removed now is found again by the next sweep.
        if let Some((pool, _)) = name.strip_prefix('.').and_then(|name| name.rsplit_once('.')) {
            best_effort(remove_all(home, &home.pools().join(&name)));
            swept.push(pool.to_owned());
        // absence: only a pool that is known to have no record is removed
        } else if let Ok(pool) = name.parse()
            && matches!(Pool::read(home, &pool), Ok(None))
            // The lock shows that no other process makes or removes the pool now.
            && let Ok(Some(_lock)) = Lock::free(home, &pool)
            && matches!(Pool::read(home, &pool), Ok(None))
        {
            best_effort(set_aside(home, &name, home.pool(&pool)));
            swept.push(name);
        }
    }
    swept
}

/// Removes the directory of a pool with every ready sandbox. If a sandbox cannot be found or ended, its socket stays,
/// because no later command could find the sandbox without it.
fn remove_all(home: &Home, dir: &Path) -> Result<(), EngineError> {
    drain_all_but(home, dir, None)?;
    fault::point("pool-drained");
    container::sweep(home);
    match std::fs::remove_dir_all(dir) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(EngineError::file("remove", dir)(source)),
        _ => Ok(()),
    }
}

/// Limit of the checks whether a sandbox still waits.
const ROUNDS: u32 = 16;

/// Ends the sandboxes of all generations but this one, and waits until they are gone.
///
/// # Errors
/// [`EngineError::State`] if a directory cannot be read, and, unless a generation is kept, if a sandbox still waits.
pub(super) fn drain_all_but(home: &Home, pool: &Path, kept: Option<&str>) -> Result<(), EngineError> {
    for name in names_in(pool)? {
        let path = pool.join(&name);
        if kept == Some(name.as_str()) {
            continue;
        }
        let dir = match open_dir(&path) {
            // The entry is a record or a lock, or its keeper was quicker.
            Err(EngineError::State(StateError::File { source, .. }))
                if matches!(source.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound) =>
            {
                continue;
            }
            opened => opened?,
        };
        let list = || sockets_in(dir.as_fd()).map_err(EngineError::file("list", &path));
        let mut left = list()?;
        drain(home, &path, &left);
        // A sandbox whose taker gave up continues to wait.
        for _ in 0..ROUNDS {
            left = list()?;
            left.retain(|id| tote_sys::waits_for_start(dir.as_fd(), id.as_str()).unwrap_or(true));
            if left.is_empty() {
                break;
            }
            drain(home, &path, &left);
        }
        if let (Some(id), None) = (left.first(), kept) {
            return Err(EngineError::file(
                "end the sandbox behind",
                path.join(id.as_str()),
            )(ErrorKind::ResourceBusy));
        }
        // The taker of a sandbox may still be there; its keeper removes the socket, and the directory is removed next
        // time.
        best_effort(std::fs::remove_dir(&path));
    }
    Ok(())
}

/// Removes the sockets of sandboxes whose keepers were killed. The caller has the lock, so no sandbox is in the
/// making.
pub(super) fn sweep_sockets(dir: &Path) {
    // absence: the next sweep opens the directory again
    let Ok(sockets) = open_dir(dir) else { return };
    for id in sockets_in(sockets.as_fd()).unwrap_or_default() {
        if matches!(tote_sys::waits_for_start(sockets.as_fd(), id.as_str()), Ok(false)) {
            best_effort(std::fs::remove_file(dir.join(id.as_str())));
        }
    }
    // absence: the next sweep lists them again
    for name in names_in(dir).unwrap_or_default() {
        // A killed keeper leaves an unnamed socket. A living one without its socket fails and ends.
        if name.ends_with(super::keeper::FRESH) {
            best_effort(std::fs::remove_file(dir.join(name)));
        }
    }
}

/// Ends these sandboxes, unless other commands take them first, and waits until they are gone.
pub(super) fn drain(home: &Home, dir: &Path, ids: &[ContainerId]) {
    // absence: the caller counts what still waits, and says so
    let Ok(sockets) = open_dir(dir) else { return };
    let mut ending = Vec::new();
    for id in ids {
        match Taking::open(sockets.as_fd(), id.as_str()) {
            Ok(taking) => {
                if taking.dismiss().is_ok() && matches!(taking.event(), Ok(Event::Ready)) {
                    ending.push(id);
                }
            }
            // The sandbox's keeper was killed; a sweep removes the rest.
            Err(Errno::CONNREFUSED) => best_effort(std::fs::remove_file(dir.join(id.as_str()))),
            Err(_) => {}
        }
    }
    for id in ending {
        // The keeper releases the claim last.
        if let Ok(claim) = Claim::wait(home, id) {
            claim.release();
        }
    }
}
