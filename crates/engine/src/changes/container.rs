//! Containers that were kept, by what people call them.

use super::ContainerError;
use crate::container::Entry;
use crate::rootfs::Source;
use crate::{EngineError, Home};
use std::path::PathBuf;
use tote_bundle::{ContainerId, Image};
use tote_spec::Spec;

/// A container whose writes are on disk.
pub(crate) struct Container {
    pub(crate) id: ContainerId,
    /// What stays of it.
    pub(crate) dir: PathBuf,
    pub(crate) entry: Entry,
    pub(crate) runs: bool,
}

/// The container of that name, id or unique beginning of an id.
pub(crate) fn find(home: &Home, wanted: &str) -> Result<Container, EngineError> {
    let entry = crate::container::find(home, wanted)?;
    let id = entry.container.id.clone();
    if !entry.kept || entry.container.rm {
        return Err(ContainerError::InMemory(id.short().to_owned()).into());
    }
    Ok(Container {
        dir: home.container(&id),
        id,
        runs: entry.state.runs(),
        entry,
    })
}

impl Container {
    /// Whether it has not ended since it was found.
    pub(crate) fn runs_still(&self) -> bool {
        let first = self.entry.state.process.filter(|_| self.runs);
        first.is_some_and(|first| !crate::process::is_ending(first.pid, first.start_time))
    }

    /// What it was made of.
    pub(crate) fn image(&self) -> Result<Image, EngineError> {
        self.entry.container.source()
    }

    /// Its image, open.
    pub(crate) fn source(&self, home: &Home) -> Result<Source, EngineError> {
        Source::open(home, &self.image()?)
    }

    /// What was mounted in it: nothing there is the container's own. The copies of split are mounts that are.
    pub(crate) fn mount_points(&self) -> Vec<String> {
        let state = &self.entry.state;
        if let Some(pid) = state.process.map(|process| process.pid) {
            let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
            let mut points = mount_points(&mounts);
            points.retain(|point| {
                !state
                    .writable
                    .iter()
                    .any(|own| own == point.trim_start_matches('/'))
            });
            return points;
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
