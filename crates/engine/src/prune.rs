//! Everything that is not used goes, in docker's order: containers, volumes, images, what builds keep.

use crate::build::{BuildsPruned, PruneBuilds, Room, prune_builds};
use crate::container;
use crate::image::{Pruned, prune_images};
use crate::look::{has_label, label};
use crate::volume::{PrunedVolumes, prune as prune_volumes};
use crate::{EngineError, Home};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tote_bundle::ContainerId;
use tote_monitor::Time;
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

/// What went.
#[derive(Debug, Default)]
pub struct PrunedSystem {
    /// Containers, and bytes of their files.
    pub containers: Vec<ContainerId>,
    /// Bytes that these containers had written.
    pub container_bytes: u64,
    /// Volumes.
    pub volumes: PrunedVolumes,
    /// Names and images.
    pub images: Pruned,
    /// What builds kept.
    pub builds: BuildsPruned,
    /// What could not be removed.
    pub errors: Vec<EngineError>,
}

impl PrunedSystem {
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
/// [`EngineError::PruneFilter`], and [`EngineError::PruneVolumes`] for `until` with volumes, which are not as old as their
/// files.
pub fn check_prune(request: &PruneRequest) -> Result<(), EngineError> {
    let filters = PruneFilters::parse(&request.filters)?;
    if request.volumes && filters.until.is_some() {
        return Err(EngineError::PruneVolumes);
    }
    Ok(())
}

/// Removes containers that do not run, then volumes, images and what builds keep, as far as it is wanted. The process must
/// be in the right namespace: [`crate::enter_ids`].
///
/// # Errors
/// Those of [`check_prune`] and of the store.
pub fn prune_system(home: &Home, request: &PruneRequest) -> Result<PrunedSystem, EngineError> {
    check_prune(request)?;
    let filters = PruneFilters::parse(&request.filters)?;
    // A pod that was not wholly made is in no list, and its leftovers are nobody's.
    crate::pod::sweep(home);
    let (containers, container_bytes, errors) = prune_containers(home, &request.filters)?;
    let mut pruned = PrunedSystem {
        containers,
        container_bytes,
        errors,
        ..PrunedSystem::default()
    };
    if request.volumes {
        pruned.volumes = prune_volumes(home, false, &request.filters)?;
    }
    pruned.images = prune_images(home, request.all, &request.filters)?;
    if request.all {
        pruned.errors.extend(crate::rootfs::forget_skeletons(home).err());
    }
    // It has no labels.
    if filters.fit_labels(&BTreeMap::new()) {
        let builds = PruneBuilds {
            all: request.all,
            unused_for: filters.age(),
            room: Room::default(),
        };
        pruned.builds = prune_builds(home, &builds)?;
    }
    Ok(pruned)
}

/// Removes the containers that do not run, and counts what they had written.
///
/// # Errors
/// [`EngineError::PruneFilter`].
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

/// What a pruning looks at.
#[derive(Clone, Debug, Default)]
pub(crate) struct PruneFilters {
    /// Older than this, nanoseconds since 1970.
    until: Option<i128>,
    /// Key, value, and whether it is to be there.
    labels: Vec<(String, Option<String>, bool)>,
    /// Only images know it: whether those with a name stay.
    pub(crate) dangling: Option<bool>,
}

impl PruneFilters {
    pub(crate) fn parse(texts: &[String]) -> Result<Self, EngineError> {
        let mut filters = Self::default();
        for text in texts {
            let wrong = || EngineError::PruneFilter(text.clone());
            match text.split_once('=').ok_or_else(wrong)? {
                ("until", time) => {
                    let time = Time::parse(time, Time::now(), 0).map_err(|_| wrong())?;
                    filters.until = Some(filters.until.map_or(time.0, |until| until.min(time.0)));
                }
                (key @ ("label" | "label!"), text) if !text.is_empty() => {
                    let (name, value) = label(text);
                    filters.labels.push((name, value, key == "label"));
                }
                _ => return Err(wrong()),
            }
        }
        Ok(filters)
    }

    /// The same for images.
    pub(crate) fn of_images(texts: &[String]) -> Result<Self, EngineError> {
        let (dangling, others): (Vec<_>, Vec<_>) = texts
            .iter()
            .cloned()
            .partition(|text| text.starts_with("dangling="));
        let mut filters = Self::parse(&others)?;
        for text in dangling {
            filters.dangling = Some(match text.as_str() {
                "dangling=true" | "dangling=1" => true,
                "dangling=false" | "dangling=0" => false,
                _ => return Err(EngineError::PruneFilter(text)),
            });
        }
        Ok(filters)
    }

    pub(crate) fn fit(&self, created: i128, labels: &BTreeMap<String, String>) -> bool {
        self.until.is_none_or(|until| created < until) && self.fit_labels(labels)
    }

    fn fit_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        let mut wanted = self.labels.iter();
        wanted.all(|(key, value, has)| has_label(labels, key, value.as_deref()) == *has)
    }

    /// How long ago `until` is.
    fn age(&self) -> Option<Duration> {
        let nanos = Time::now().0 - self.until?;
        Some(Duration::from_nanos(
            u64::try_from(nanos.max(0)).unwrap_or(u64::MAX),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn filters() {
        let labels = BTreeMap::from([("keep".to_owned(), "yes".to_owned())]);
        for (given, expected) in [
            (&[][..], true),
            (&["until=10"], true),
            (&["until=2"], false),
            (&["until=10", "until=2"], false),
            (&["label=keep"], true),
            (&["label=keep=no"], false),
            (&["label!=keep"], false),
            (&["label!=other", "until=10"], true),
        ] {
            let filters = PruneFilters::parse(&texts(given)).unwrap();
            assert_eq!(filters.fit(5_000_000_000, &labels), expected, "{given:?}");
        }
        for bad in ["until", "until=never", "label=", "name=x", "dangling=true"] {
            assert!(PruneFilters::parse(&texts(&[bad])).is_err(), "{bad}");
        }
        let images = PruneFilters::of_images(&texts(&["dangling=false", "label=x"])).unwrap();
        assert_eq!((images.dangling, images.labels.len()), (Some(false), 1));
        assert!(PruneFilters::of_images(&texts(&["dangling=perhaps"])).is_err());
    }

    #[test]
    fn volumes_have_no_age() {
        let mut request = PruneRequest {
            filters: texts(&["until=24h"]),
            ..PruneRequest::default()
        };
        check_prune(&request).unwrap();
        request.volumes = true;
        assert!(matches!(check_prune(&request), Err(EngineError::PruneVolumes)));
    }
}
