//! Containers that were kept, by what people call them.

use super::ContainerError;
use crate::container::Entry;
use crate::rootfs::Source;
use crate::{EngineError, Home};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::path::PathBuf;
use tote_archive::Shift;
use tote_bundle::{ContainerId, Image};
use tote_spec::Spec;

/// A container whose writes are on disk.
#[derive(Debug)]
pub struct Container {
    /// Id of the container.
    pub id: ContainerId,
    /// The container's directory.
    pub dir: PathBuf,
    /// Record and state.
    pub entry: Entry,
    /// True if it runs.
    pub runs: bool,
}

/// The container of that name, id or unique beginning of an id.
pub fn find(home: &Home, wanted: &str) -> Result<Container, EngineError> {
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
    pub fn runs_still(&self) -> bool {
        let first = self.entry.state.process.filter(|_| self.runs);
        first.is_some_and(|first| !tote_state::process::is_ending(first.pid, first.start_time))
    }

    /// The image of the container.
    pub fn image(&self) -> Result<Image, EngineError> {
        self.entry.container.source()
    }

    /// Its image, open, with the owners of the container's own files.
    pub fn source(&self, home: &Home) -> Result<Source, EngineError> {
        let mut source = Source::open(home, &self.image()?)?;
        if let Some(shift) = self.shift() {
            source.shift(home, shift)?;
        }
        Ok(source)
    }

    /// Where its files have other owners on disk than it sees.
    pub fn shift(&self) -> Option<Shift> {
        let (uid, gid) = self.entry.state.kept_ids?;
        Shift::keeping(uid, gid)
    }

    /// Mount points in it, below which no file is the container's own. The copies of split are mounts with own files.
    ///
    /// # Errors
    /// [`ContainerError::Unknown`]: what tote has put there would be taken for the container's own.
    pub fn mount_points(&self) -> Result<Vec<String>, ContainerError> {
        let fail = |source| ContainerError::Unknown {
            id: self.id.short().to_owned(),
            source,
        };
        let state = &self.entry.state;
        let is_here = !crate::vm::is_in_vm(&self.entry.container);
        let process = state.process.map(|process| process.pid).filter(|_| is_here);
        if let Some(mounts) = process.map(mounts_of).transpose().map_err(fail)?.flatten() {
            let mut points = mount_points(&mounts);
            points.retain(|point| {
                !state
                    .writable
                    .iter()
                    .any(|own| own == point.trim_start_matches('/'))
            });
            return Ok(points);
        }
        let spec = match std::fs::read(self.dir.join("config.json")) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            spec => spec.map_err(fail)?,
        };
        // Without it some empty directories more are taken for changes.
        let spec: Spec = serde_json::from_slice(&spec).unwrap_or_default();
        Ok(spec.mounts.into_iter().map(|mount| mount.destination).collect())
    }
}

/// The text of `/proc/PID/mountinfo`; nothing where the process has ended.
fn mounts_of(pid: u32) -> std::io::Result<Option<String>> {
    let read = std::fs::read_to_string(format!("/proc/{pid}/mountinfo"));
    match read.map_err(|error| (Errno::from_io_error(&error), error)) {
        Ok(mounts) => Ok(Some(mounts)),
        // The kernel says EINVAL for a zombie, which has no mounts any more.
        Err((Some(Errno::NOENT | Errno::SRCH | Errno::INVAL), _)) => Ok(None),
        Err((_, error)) => Err(error),
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
