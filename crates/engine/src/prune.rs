//! Everything that is not used goes, in docker's order: containers, volumes, images, what builds keep.

use crate::container;
use crate::volume::{PrunedVolumes, prune as prune_volumes};
use crate::{EngineError, Home};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tote_builder::{BuildsPruned, PruneBuilds, Room, prune_builds};
use tote_bundle::ContainerId;
use tote_closures::{Pruned, prune_images};
pub use tote_records::prune::PruneFault;
pub(crate) use tote_records::prune::PruneFilters;
use tote_state::events::Event;
use tote_state::events::append;

/// Which of what is not used is to go.
#[derive(Clone, Debug, Default)]
pub struct PruneRequest {
    /// All images that no container has, not only those without a name, and all that builds keep.
    pub all: bool,
    /// Volumes without a name as well.
    pub volumes: bool,
    /// `until=TIME`, `label=KEY[=VALUE]`, `label!=KEY[=VALUE]`; all must apply.
    pub filters: Vec<String>,
}

/// Objects that a pruning removed.
#[derive(Debug, Default)]
pub struct PrunedSystem {
    /// Containers, and bytes of their files.
    pub containers: Vec<ContainerId>,
    /// Bytes that these containers had written.
    pub container_bytes: u64,
    /// Volumes.
    pub volumes: PrunedVolumes,
    /// Names of networks.
    pub networks: Vec<String>,
    /// Names and images.
    pub images: Pruned,
    /// Entries of the build cache.
    pub builds: BuildsPruned,
    /// Errors of objects that could not be removed.
    pub errors: Vec<EngineError>,
}

impl PrunedSystem {
    /// Result of a part of the pruning, whose failure keeps no other part from being done.
    fn part<T: Default>(&mut self, done: Result<T, EngineError>) -> T {
        done.unwrap_or_else(|error| {
            self.errors.push(error);
            T::default()
        })
    }

    /// Bytes on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let parts = [
            self.container_bytes,
            self.volumes.bytes,
            self.images.bytes,
            self.builds.bytes,
        ];
        parts.iter().sum()
    }
}

/// Looks at a request before anybody is asked whether it is meant.
///
/// # Errors
/// [`PruneFault::Filter`], and [`PruneFault::Volumes`] for `until` with volumes, which are not as old as their
/// files.
pub fn check_prune(request: &PruneRequest) -> Result<(), EngineError> {
    let filters = PruneFilters::parse(&request.filters)?;
    if request.volumes && filters.until.is_some() {
        return Err(EngineError::Request(PruneFault::Volumes.into()));
    }
    Ok(())
}

/// Removes containers that do not run, then volumes, networks, images and what builds keep, as far as it is wanted. The process must
/// be in the right namespace: [`tote_images::enter_ids`].
///
/// # Errors
/// Those of [`check_prune`] and of the store.
pub fn prune_system(home: &Home, request: &PruneRequest) -> Result<PrunedSystem, EngineError> {
    check_prune(request)?;
    let filters = PruneFilters::parse(&request.filters)?;
    // A pod that was not wholly made is in no list, and its leftovers belong to no other object.
    crate::pod::sweep(home);
    let (containers, container_bytes, errors) = prune_containers(home, &request.filters)?;
    let mut pruned = PrunedSystem {
        containers,
        container_bytes,
        errors,
        ..PrunedSystem::default()
    };
    if request.volumes {
        let volumes = prune_volumes(home, false, &request.filters);
        pruned.volumes = pruned.part(volumes);
    }
    let networks = crate::network::prune(home, &request.filters);
    let networks = pruned.part(networks);
    pruned.networks = networks.removed;
    let images = prune_images(home, request.all, &request.filters);
    pruned.images = pruned.part(images);
    let parts = [
        networks.errors,
        std::mem::take(&mut pruned.volumes.errors),
        std::mem::take(&mut pruned.images.errors),
    ];
    pruned.errors.extend(parts.into_iter().flatten());
    if request.all {
        pruned.errors.extend(crate::rootfs::forget_skeletons(home).err());
        pruned.errors.extend(tote_debug::forget_launchers(home).err());
        pruned.errors.extend(tote_debug::forget_filters(home).err());
    }
    // It has no labels.
    if filters.fit_labels(&BTreeMap::new()) {
        let builds = PruneBuilds {
            all: request.all,
            unused_for: filters.age(),
            room: Room::default(),
        };
        let builds = prune_builds(home, &builds);
        pruned.builds = pruned.part(builds);
    }
    // What several parts say of one object is said once.
    let mut said = BTreeSet::new();
    pruned.errors.retain(|error| said.insert(tote_sys::chain(error)));
    Ok(pruned)
}

/// Removes the containers that do not run, and counts what they had written.
///
/// # Errors
/// [`PruneFault::Filter`].
pub fn prune_containers(
    home: &Home,
    filters: &[String],
) -> Result<(Vec<ContainerId>, u64, Vec<EngineError>), EngineError> {
    let filters = PruneFilters::parse(filters)?;
    let fits = |container: &container::Container| filters.fit(container.created.into(), &container.labels);
    let mut sizes = HashMap::new();
    for entry in container::list(home)? {
        if entry.kept && !entry.state.runs() && fits(&entry.container) {
            let size = crate::container_size(home, &entry).written;
            sizes.insert(entry.container.id, size);
        }
    }
    let (removed, errors) = container::prune(home, &fits);
    let bytes = removed.iter().filter_map(|id| sizes.get(id)).sum();
    append(home, &[Event::pruned("container", bytes)]);
    Ok((removed, bytes, errors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestError;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn volumes_have_no_age() {
        let mut request = PruneRequest {
            filters: texts(&["until=24h"]),
            ..PruneRequest::default()
        };
        check_prune(&request).unwrap();
        request.volumes = true;
        assert!(matches!(
            check_prune(&request),
            Err(EngineError::Request(RequestError::Prune(PruneFault::Volumes)))
        ));
    }
}
