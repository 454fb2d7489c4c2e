//! The end of sandboxes that nobody took, and of pools.

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

/// Removes a pool with every sandbox that waits in it. Those that were taken go on, they are containers of their own.
/// With `force` a pool that is not there is no error.
///
/// # Errors
/// [`PoolError::Missing`], [`EngineError::State`].
pub fn remove(home: &Home, name: &str, force: bool) -> Result<(), EngineError> {
    let parsed = parse_name(name)?;
    let swept = sweep(home);
    let dir = home.pool(&parsed);
    // Its removal may have begun before, and not come to its end.
    if !is_there(&dir)? {
        return if force || swept.iter().any(|gone| gone == name) {
            Ok(())
        } else {
            Err(PoolError::Missing(name.to_owned()).into())
        };
    }
    // Without it nobody takes a sandbox or makes one.
    match std::fs::remove_file(dir.join(FILE)) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            return Err(EngineError::file("remove", dir.join(FILE))(source));
        }
        _ => {}
    }
    fault::point("pool-unwritten");
    let Some(_lock) = Lock::fill(home, &parsed)? else {
        return Ok(());
    };
    if Pool::read(home, &parsed)?.is_some() {
        // Somebody has filled it anew while this waited, and wants it.
        return Ok(());
    }
    set_aside(home, name, dir)
}

/// Gives the directory of a pool another name and removes it. Who calls it has the lock.
fn set_aside(home: &Home, name: &str, dir: PathBuf) -> Result<(), EngineError> {
    // Whoever fills a pool of this name from here on has a directory and a lock of his own.
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

/// Removes what killed or failed commands have left of pools that were being removed. Gives the names of these pools.
pub(super) fn sweep(home: &Home) -> Vec<String> {
    let mut swept = Vec::new();
    for name in names_in(&home.pools()).unwrap_or_default() {
        // What does not go now is found again.
        if let Some((pool, _)) = name.strip_prefix('.').and_then(|name| name.rsplit_once('.')) {
            best_effort(remove_all(home, &home.pools().join(&name)));
            swept.push(pool.to_owned());
        } else if let Ok(pool) = name.parse()
            && matches!(Pool::read(home, &pool), Ok(None))
            // Nobody makes it or removes it just now.
            && let Ok(Some(_lock)) = Lock::free(home, &pool)
            && matches!(Pool::read(home, &pool), Ok(None))
        {
            best_effort(set_aside(home, &name, home.pool(&pool)));
            swept.push(name);
        }
    }
    swept
}

/// Removes the directory of a pool with every sandbox that waits in it. Where one of them cannot be found or ended, its
/// socket stays: without it nobody would find it any more.
fn remove_all(home: &Home, dir: &Path) -> Result<(), EngineError> {
    drain_all_but(home, dir, None)?;
    fault::point("pool-drained");
    container::sweep(home);
    match std::fs::remove_dir_all(dir) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(EngineError::file("remove", dir)(source)),
        _ => Ok(()),
    }
}

/// How often it is looked whether a sandbox still waits.
const ROUNDS: u32 = 16;

/// Ends the sandboxes of all generations but this one, and waits until nothing is left of them.
///
/// # Errors
/// [`EngineError::State`] where a directory cannot be read, and, unless one is kept, where a sandbox waits on.
pub(super) fn drain_all_but(home: &Home, pool: &Path, kept: Option<&str>) -> Result<(), EngineError> {
    for name in names_in(pool)? {
        let path = pool.join(&name);
        if kept == Some(name.as_str()) {
            continue;
        }
        let dir = match open_dir(&path) {
            // A record or a lock, or a keeper was quicker.
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
        // One that somebody was about to take, and did not, waits on.
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
        // Who took one of them may still be there; its keeper removes its socket, and the directory goes next time.
        best_effort(std::fs::remove_dir(&path));
    }
    Ok(())
}

/// Removes the sockets of sandboxes whose keepers were killed. Whoever calls it has the lock, so none is being made.
pub(super) fn sweep_sockets(dir: &Path) {
    let Ok(sockets) = open_dir(dir) else { return };
    for id in sockets_in(sockets.as_fd()).unwrap_or_default() {
        if matches!(tote_sys::waits_for_start(sockets.as_fd(), id.as_str()), Ok(false)) {
            best_effort(std::fs::remove_file(dir.join(id.as_str())));
        }
    }
    for name in names_in(dir).unwrap_or_default() {
        // Of a keeper that was killed while it made it. One that is not dead does without, and ends.
        if name.ends_with(super::keeper::FRESH) {
            best_effort(std::fs::remove_file(dir.join(name)));
        }
    }
}

/// Ends these sandboxes, as far as nobody takes them first, and waits until nothing is left of them.
pub(super) fn drain(home: &Home, dir: &Path, ids: &[ContainerId]) {
    let Ok(sockets) = open_dir(dir) else { return };
    let mut ending = Vec::new();
    for id in ids {
        match Taking::open(sockets.as_fd(), id.as_str()) {
            Ok(taking) => {
                if taking.dismiss().is_ok() && matches!(taking.event(), Ok(Event::Ready)) {
                    ending.push(id);
                }
            }
            // Of a sandbox whose keeper was killed; the rest of it is swept.
            Err(Errno::CONNREFUSED) => best_effort(std::fs::remove_file(dir.join(id.as_str()))),
            Err(_) => {}
        }
    }
    for id in ending {
        // Its keeper gives the claim back last.
        if let Ok(claim) = Claim::wait(home, id) {
            claim.release();
        }
    }
}
