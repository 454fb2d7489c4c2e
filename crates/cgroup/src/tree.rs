//! Groups below a group: their members, and their removal.

use crate::cgroup::Cgroup;
use crate::error::Error;
use crate::file;
use rustix::fd::AsFd;
use rustix::fs::rmdir;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// First interval of waiting: a killed process leaves its group within microseconds, or milliseconds on a loaded
/// machine.
const FIRST_WAIT: Duration = Duration::from_micros(50);
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// Time after which removal is given up, as in runc.
const GIVE_UP: Duration = Duration::from_secs(1);
/// Bound of the groups in one container: more are taken for an attack on the remover.
const MAX_GROUPS: usize = 100_000;

/// Adds every process in `dir` and below to `pids`.
pub(crate) fn members(dir: &Path, pids: &mut BTreeSet<i32>) -> Result<(), Error> {
    let mut waiting = vec![dir.to_path_buf()];
    let mut seen = 0;
    while let Some(path) = waiting.pop() {
        let read = |errno| Error::Read {
            path: path.join("cgroup.procs"),
            source: errno,
        };
        let procs = file::open_dir(&path).and_then(|fd| file::read_at(fd.as_fd(), "cgroup.procs"));
        match procs {
            // The kernel shows 0 for a process that this PID namespace cannot see.
            Ok(text) => pids.extend(
                text.lines()
                    .filter_map(|l| l.parse().ok())
                    .filter(|&pid: &i32| pid > 0),
            ),
            Err(Errno::NOENT | Errno::NODEV) => continue,
            // A threaded group lists no processes; its domain above does.
            Err(Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(read(errno)),
        }
        seen += 1;
        if seen > MAX_GROUPS {
            return Err(read(Errno::MFILE));
        }
        waiting.extend(children(&path).map_err(read)?);
    }
    Ok(())
}

/// Returns the groups in a group; none if it has been removed.
///
/// # Errors
/// Errors of listing: an incomplete list would hide processes.
fn children(dir: &Path) -> Result<Vec<PathBuf>, Errno> {
    let list = || {
        let mut dirs = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            }
        }
        Ok(dirs)
    };
    let listed: std::io::Result<Vec<PathBuf>> = list();
    match listed.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)) {
        Err(Errno::NOENT | Errno::NODEV) => Ok(Vec::new()),
        listed => listed,
    }
}

impl Cgroup {
    /// Removes the group and every group below it from every hierarchy, and the directories above that were made for
    /// it, if they are empty. Missing groups are not an error, so it can be repeated.
    ///
    /// # Errors
    /// Processes are still in it after a second (EBUSY), or the caller lacks the permission. All hierarchies are
    /// tried first.
    pub fn remove(&self) -> Result<(), Error> {
        let mut result = Ok(());
        for dir in &self.dirs {
            match remove_tree(&dir.path) {
                Ok(()) => {
                    // A busy or missing directory belongs to another container now.
                    dir.path
                        .ancestors()
                        .skip(1)
                        .take(dir.made)
                        .all(|above| rmdir(above).is_ok());
                }
                Err((path, source)) => result = result.and(Err(Error::Remove { path, source })),
            }
        }
        result
    }
}

fn remove_tree(top: &Path) -> Result<(), (PathBuf, Errno)> {
    match rmdir(top) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::BUSY | Errno::NOTEMPTY) => {}
        Err(errno) => return Err((top.to_path_buf(), errno)),
    }
    let mut groups = vec![top.to_path_buf()];
    let mut next = 0;
    while next < groups.len() && groups.len() <= MAX_GROUPS {
        let below = children(&groups[next]).map_err(|errno| (groups[next].clone(), errno))?;
        groups.extend(below);
        next += 1;
    }
    let deadline = Instant::now() + GIVE_UP;
    // Parents were found before their children.
    groups
        .iter()
        .rev()
        .try_for_each(|group| remove_when_empty(group, deadline).map_err(|errno| (group.clone(), errno)))
}

fn remove_when_empty(group: &Path, deadline: Instant) -> Result<(), Errno> {
    let mut wait = FIRST_WAIT;
    loop {
        match rmdir(group) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY) if Instant::now() < deadline => {}
            Err(errno) => return Err(errno),
        }
        pause(wait);
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// Waits for the kernel to finish with dying processes, which it does not report: v1 has no event for it, and v2's
/// `populated 0` comes before the last task leaves the group.
#[allow(
    clippy::disallowed_methods,
    reason = "nothing can be waited on here: see above"
)]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
