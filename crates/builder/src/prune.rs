//! Build cache: its size, and its removal.

use super::{BuildFault, BuildOptionError, Room, cache};
use crate::container::may_have_users;
use crate::{EngineError, Home};
use rustix::fs::FlockOperation;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tote_image::Digest;
use tote_images::ImagesError;
use tote_images::{delete, open_store};
use tote_state::events::Event;
use tote_state::events::append;
use tote_state::locked::directory;
use tote_store::{Patience, Store, StoreError};
use tote_sys::best_effort;

/// Contents of the build cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildSpace {
    /// Number of recorded results of instructions.
    pub records: usize,
    /// Images that are present only for later builds.
    pub images: Vec<Digest>,
    /// Number of directories of `RUN --mount=type=cache`.
    pub mounts: usize,
    /// Size of these directories in bytes.
    pub mount_bytes: u64,
}

/// Selection of cache entries to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneBuilds {
    /// True to remove also the results of named images: the next build repeats all steps.
    pub all: bool,
    /// Least time since the last use.
    pub unused_for: Option<Duration>,
    /// Limits of the remaining size.
    pub room: Room,
}

impl PruneBuilds {
    /// Applies a `--filter`: `until=24h`, or `unused-for=24h`.
    ///
    /// # Errors
    /// `BuildOptionError::PruneFilter`.
    pub fn filter(&mut self, text: &str) -> Result<(), EngineError> {
        let value = text
            .strip_prefix("until=")
            .or_else(|| text.strip_prefix("unused-for="));
        let duration = value.and_then(|value| tote_dockerfile::parse_duration(value).ok());
        self.unused_for =
            Some(duration.ok_or_else(|| BuildFault::Option(BuildOptionError::PruneFilter(text.to_owned())))?);
        Ok(())
    }
}

/// Result of a pruning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildsPruned {
    /// Names of the removed results, images and directories.
    pub removed: Vec<String>,
    /// Freed bytes, including those of images that were removed before.
    pub bytes: u64,
}

/// Measures the build cache.
///
/// # Errors
/// [`EngineError::Store`].
pub fn build_space(home: &Home) -> Result<BuildSpace, EngineError> {
    let store = open_store(home)?;
    let mounts = entries(&home.builds().join("mounts"));
    Ok(BuildSpace {
        records: entries(&home.builds().join("cache")).len(),
        images: nameless(home, &store)?,
        mounts: mounts.len(),
        mount_bytes: mounts.iter().map(|path| size(path)).sum(),
    })
}

/// Removes the selected cache entries, then every byte that is no longer needed. Caches in use stay. The process must
/// be in the namespace of [`tote_images::enter_ids`].
///
/// # Errors
/// [`EngineError::Store`].
pub fn prune_builds(home: &Home, which: &PruneBuilds) -> Result<BuildsPruned, EngineError> {
    let store = open_store(home)?;
    let mut pruned = BuildsPruned::default();
    let builds = home.builds();
    remove_large(home, &store, which, &mut pruned)?;
    for path in entries(&builds.join("hashes")) {
        if is_idle(&path, which) {
            best_effort(std::fs::remove_file(path));
        }
    }
    super::workspace::sweep(&builds.join("work"));
    pruned.bytes += store.sweep(Patience::Endless)?.unwrap_or_default().bytes;
    forget_notes(home, &store);
    // Results come last, because some refer to layers that are gone now.
    for path in entries(&builds.join("cache")) {
        let goes = which.all && which.room.is_none() || !cache::is_whole(&path, &store);
        if goes && is_idle(&path, which) {
            pruned.removed.push(name(&path));
            best_effort(std::fs::remove_file(path));
        }
    }
    append(home, &[Event::pruned("builder", pruned.bytes)]);
    Ok(pruned)
}

/// Large cache entry: an image with its mark, or the directory of a mount.
enum Kept {
    Image(Digest),
    Mount,
}

/// Removes images and directories, the least recently used first, until the limits are met.
fn remove_large(
    home: &Home,
    store: &Store,
    which: &PruneBuilds,
    pruned: &mut BuildsPruned,
) -> Result<(), EngineError> {
    let builds = home.builds();
    let most = match which.room.is_none() {
        true => None,
        false => {
            // Unneeded layers count as well, so they are removed first.
            pruned.bytes += store.sweep(Patience::Endless)?.unwrap_or_default().bytes;
            Some(which.room.keeps(used(home, store)?, free(&builds)))
        }
    };
    let _gap = store.gap()?;
    let _decision = store.decide()?;
    let images = nameless(home, store)?.into_iter();
    let images = images.map(|id| (builds.join("kept").join(id.hex()), Kept::Image(id)));
    let mounts = entries(&builds.join("mounts")).into_iter();
    let mut kept: Vec<(PathBuf, Kept)> = images.chain(mounts.map(|path| (path, Kept::Mount))).collect();
    kept.sort_by_cached_key(|(path, _)| last_used(path));
    for (path, kept) in kept {
        if let Some(most) = most
            && used(home, store)? <= most
        {
            break;
        }
        if !is_idle(&path, which) {
            continue;
        }
        match kept {
            Kept::Image(id) => {
                match delete(store, &id) {
                    Ok(_) => pruned.removed.push(id.to_string()),
                    // Another command was faster.
                    Err(ImagesError::Store(StoreError::NoImage(_))) => {}
                    Err(error) => return Err(error.into()),
                }
                best_effort(std::fs::remove_file(path));
            }
            Kept::Mount => {
                // The lock is held during the removal, so that no build uses a half-removed directory.
                if let Ok(Some(_lock)) = directory(&path, FlockOperation::NonBlockingLockExclusive) {
                    let bytes = size(&path);
                    if tote_sys::remove_tree(&path).is_ok() {
                        pruned.bytes += bytes;
                        pruned.removed.push(name(&path));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Measures the bytes on disk that only builds need.
fn used(home: &Home, store: &Store) -> Result<u64, EngineError> {
    let only_for_builds = nameless(home, store)?;
    let usage = store.usage(&|id| !only_for_builds.contains(id))?;
    let mounts: u64 = entries(&home.builds().join("mounts"))
        .iter()
        .map(|path| size(path))
        .sum();
    Ok(usage.stored.saturating_sub(usage.active) + mounts)
}

/// Returns the free bytes of the disk.
fn free(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize))
}

/// Removes results without their layers, and marks of missing images.
pub fn forget_stale(home: &Home, store: &Store) {
    forget_notes(home, store);
    for path in entries(&home.builds().join("cache")) {
        if !cache::is_whole(&path, store) {
            best_effort(std::fs::remove_file(path));
        }
    }
}

/// Removes the marks of images that are gone, or that a killed build has never finished.
fn forget_notes(home: &Home, store: &Store) {
    for path in entries(&home.builds().join("kept")) {
        let id = format!("sha256:{}", name(&path)).parse();
        if id.is_ok_and(|id| matches!(store.image(&id), Err(StoreError::NoImage(_)))) {
            best_effort(std::fs::remove_file(path));
        }
    }
}

/// Lists the images that are present only for builds and not used by containers.
fn nameless(home: &Home, store: &Store) -> Result<Vec<Digest>, EngineError> {
    let names = tote_images::names_of_images(store)?;
    let ids = store.images()?.into_iter().map(|image| image.id);
    Ok(ids
        .filter(|id| cache::is_kept(home, id))
        .filter(|id| !names.iter().any(|(_, named)| named == id) && !may_have_users(home, id))
        .collect())
}

/// True if an entry has been unused for long enough.
fn is_idle(path: &Path, which: &PruneBuilds) -> bool {
    let Some(least) = which.unused_for else {
        return true;
    };
    let age = last_used(path).and_then(|used| SystemTime::now().duration_since(used).ok());
    age.is_some_and(|age| age >= least)
}

fn last_used(path: &Path) -> Option<SystemTime> {
    let found = std::fs::symlink_metadata(path);
    found.and_then(|found| found.modified()).ok()
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    // absence: what is not listed is not removed, and the next pruning finds it
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Measures the disk usage below a path, without following links. Unreadable entries count as empty.
fn size(path: &Path) -> u64 {
    // absence: a figure for people, and for a limit that the next pruning meets
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return 0;
    };
    let own = |found: &Metadata| found.blocks() * 512;
    if !found.is_dir() {
        return own(&found);
    }
    own(&found) + entries(path).iter().map(|path| size(path)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::PruneBuilds;
    use std::time::Duration;

    #[test]
    fn filters() {
        let mut which = PruneBuilds::default();
        which.filter("until=1h30m").unwrap();
        assert_eq!(which.unused_for, Some(Duration::from_secs(5400)));
        for bad in ["until", "until=soon", "label=x", ""] {
            assert!(which.filter(bad).is_err(), "{bad}");
        }
    }
}
