//! Containers that were kept, by what people call them.

use super::ContainerError;
use crate::live::Live;
use crate::rootfs::Source;
use crate::{EngineError, Home};
use std::collections::BTreeSet;
use std::path::PathBuf;
use tote_bundle::{ContainerId, Image, Name};
use tote_spec::Spec;

/// A container whose writes are on disk.
pub(crate) struct Container {
    pub(crate) id: ContainerId,
    /// What stays of it.
    pub(crate) dir: PathBuf,
    pub(crate) live: Live,
    pub(crate) runs: bool,
}

/// The container of that name, id or unique beginning of an id.
pub(crate) fn find(home: &Home, wanted: &str) -> Result<Container, ContainerError> {
    let named = std::fs::read_link(home.names().join(wanted))
        .ok()
        .filter(|_| wanted.parse::<Name>().is_ok());
    let prefix = named.as_deref().and_then(|id| id.to_str()).unwrap_or(wanted);
    let mut ids = BTreeSet::new();
    for dir in [home.containers(), home.live()] {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let matching = id.filter(|id: &ContainerId| !prefix.is_empty() && id.has_prefix(prefix));
            ids.extend(matching.map(|id| id.as_str().to_owned()));
        }
    }
    let mut ids = ids.into_iter();
    match (ids.next().and_then(|id| id.parse().ok()), ids.next()) {
        (Some(id), None) => open(home, id),
        (Some(_), Some(_)) => Err(ContainerError::Ambiguous(wanted.to_owned())),
        (None, _) => Err(ContainerError::NoContainer(wanted.to_owned())),
    }
}

fn open(home: &Home, id: ContainerId) -> Result<Container, ContainerError> {
    let dir = home.container(&id);
    let note = std::fs::read(home.live().join(id.as_str()))
        .ok()
        .and_then(|text| serde_json::from_slice::<Live>(&text).ok());
    let runs = (note.as_ref())
        .and_then(|live| live.pid)
        .is_some_and(|pid| note.as_ref().and_then(|live| live.start_time) == crate::process::start_time(pid));
    let live = match note {
        Some(live) => live,
        None => {
            let text = std::fs::read(dir.join("state.json"));
            let live = text.and_then(|text| Ok(serde_json::from_slice(&text)?));
            live.map_err(|source| ContainerError::Unknown {
                id: id.short().to_owned(),
                source,
            })?
        }
    };
    if live.rm {
        return Err(ContainerError::InMemory(id.short().to_owned()));
    }
    Ok(Container { id, dir, live, runs })
}

impl Container {
    /// What it was made of.
    pub(crate) fn image(&self) -> Result<Image, EngineError> {
        Ok(match &self.live.image_id {
            Some(id) => Image::Stored(id.clone()),
            None => Image::parse(&self.live.image)?,
        })
    }

    /// Its image, open.
    pub(crate) fn source(&self, home: &Home) -> Result<Source, EngineError> {
        Source::open(home, &self.image()?)
    }

    /// What was mounted in it: nothing there is the container's own.
    pub(crate) fn mount_points(&self) -> Vec<String> {
        if let Some(pid) = self.live.pid.filter(|_| self.runs) {
            let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
            return mount_points(&mounts);
        }
        let spec = std::fs::read(self.dir.join("config.json")).unwrap_or_default();
        // Without it some empty directories more are taken for changes.
        let spec: Spec = serde_json::from_slice(&spec).unwrap_or_default();
        spec.mounts.into_iter().map(|mount| mount.destination).collect()
    }
}

/// The fifth field of each line of `/proc/PID/mountinfo`, but for the root itself.
fn mount_points(mountinfo: &str) -> Vec<String> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    let points = points.map(|point| point.replace("\\040", " ").replace("\\134", "\\"));
    points.filter(|point| point != "/").collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn mount_points() {
        let text = "36 35 0:3 / / rw - overlay tote rw\n37 36 0:4 / /a\\040b rw - tmpfs tmpfs rw\nx\n";
        assert_eq!(super::mount_points(text), ["/a b"]);
    }
}
