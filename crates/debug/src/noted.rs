//! Processes that other engines have noted in files. A file outlives an engine that was killed, and the kernel gives the number of
//! a process that has ended to another one.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Tolerance of the comparison of a process's start with a file's time, which come from different clocks.
const TOLERANCE: Duration = Duration::from_secs(2);

/// Ids are recognised by at least this many digits.
const SHORTEST_ID: usize = 4;

/// True if the wanted text is the beginning of an id.
pub(super) fn is_id(wanted: &str, id: &str) -> bool {
    wanted.len() >= SHORTEST_ID && id.starts_with(wanted)
}

/// A process that an engine has noted in a file.
#[derive(Debug)]
pub(super) struct NotedProcess {
    pub pid: u32,
    /// Name of the container that engines put into the paths of its cgroups: its id, or the name of a machine.
    pub id: String,
    /// The file.
    pub(super) path: PathBuf,
    /// Places of the spec that the engine gave a runtime; empty where a process, and no file of the engine, names the container.
    pub(super) specs: Vec<PathBuf>,
}

/// A process to join.
#[derive(Debug)]
pub(crate) struct Process {
    pub pid: u32,
    /// Container of another engine whose first process it is; `None` for any other process.
    pub(super) container: Option<OtherContainer>,
    /// Places of the spec that the engine gave a runtime.
    pub(super) specs: Vec<PathBuf>,
}

impl From<u32> for Process {
    fn from(pid: u32) -> Self {
        Self {
            pid,
            container: None,
            specs: Vec::new(),
        }
    }
}

/// Container of another engine.
#[derive(Debug)]
pub(super) struct OtherContainer {
    /// Name of the engine, as the prefix has it.
    pub(super) engine: &'static str,
    /// Name, as the user had it.
    pub name: String,
    /// Its engine's id of it; of engines without ids, its name.
    pub id: String,
    /// User who says so: a user's word must not lead to what is another one's.
    pub owner: u32,
}

impl NotedProcess {
    /// Describes the container, which the user called `name`. `None` if the file is gone.
    pub(crate) fn container(&self, engine: &'static str, name: &str) -> Option<OtherContainer> {
        Some(OtherContainer {
            // absence: the file goes with its container; the caller says that none has that name
            engine,
            name: name.to_owned(),
            id: self.id.clone(),
            owner: self.path.metadata().ok()?.uid(),
        })
    }

    /// Whether the number belongs to a later process than the one that was noted: it has started after the last change of the
    /// file, and its cgroups do not name the container. The time alone would be wrong on a machine whose clock was set.
    pub(super) fn is_reused(&self) -> bool {
        let cgroups = tote_sys::read_proc_text(format!("/proc/{}/cgroup", self.pid)).unwrap_or_default();
        if cgroups.contains(&self.id) {
            return false;
        }
        // absence: the use of the process reports what cannot be looked at
        let changed = self.path.metadata().and_then(|found| found.modified()).ok();
        match (changed, started(self.pid)) {
            (Some(changed), Some(started)) => started > changed + TOLERANCE,
            // A process that is gone, or a file that cannot be looked at, is reported where the number is used.
            _ => false,
        }
    }
}

/// When a process started.
fn started(pid: u32) -> Option<SystemTime> {
    let ticks = tote_state::process::start_time(pid)?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let since_boot = Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second));
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
    let running = Duration::new(u64::try_from(tv_sec).ok()?, u32::try_from(tv_nsec).ok()?);
    SystemTime::now().checked_sub(running)?.checked_add(since_boot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, FileTimes};

    #[test]
    fn a_process_that_is_younger_than_its_note_is_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        let file = File::create_new(&path).unwrap();
        let noted = |id: &str| NotedProcess {
            pid: std::process::id(),
            id: id.to_owned(),
            path: path.clone(),
            specs: Vec::new(),
        };
        assert!(!noted("no such id").is_reused(), "the file is younger");
        let start = started(std::process::id()).unwrap();
        assert!(start.elapsed().unwrap() < Duration::from_secs(3600));
        let before = FileTimes::new().set_modified(start - Duration::from_secs(60));
        file.set_times(before).unwrap();
        assert!(noted("no such id").is_reused());
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let path = own.lines().find_map(|line| line.rsplit(':').next()).unwrap();
        assert!(!noted(path).is_reused(), "its cgroup is the container's");
        let gone = NotedProcess {
            pid: u32::MAX >> 2,
            ..noted("no such id")
        };
        assert!(!gone.is_reused());
    }
}
