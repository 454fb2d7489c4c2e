//! Containers and commands that are found by the titles of processes: no file says where they run.

use super::DebugError;
use super::noted::NotedProcess;
use std::path::{Path, PathBuf};

/// Title of the process that LXC has beside each container; the container's path and name follow.
const MONITOR: &str = "[lxc monitor] ";

/// A process as `/proc` shows it.
struct Seen {
    pid: u32,
    parent: u32,
    /// Arguments, with blanks between them.
    command: String,
}

fn all(proc: &Path) -> Vec<Seen> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| {
        let read = |name: &str| std::fs::read(proc.join(pid.to_string()).join(name)).ok();
        let mut command = read("cmdline")?;
        command.pop_if(|last| *last == 0);
        command
            .iter_mut()
            .filter(|byte| **byte == 0)
            .for_each(|byte| *byte = b' ');
        let status = read("status")?;
        let status = String::from_utf8_lossy(&status);
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        Some(Seen {
            pid,
            parent: parent?.trim().parse().ok()?,
            command: String::from_utf8_lossy(&command).into_owned(),
        })
    })
    .collect()
}

/// Finds the first process of a container of LXC, or of LXD (or Incus), whose containers are LXC's elsewhere.
pub(super) fn of_lxc(proc: &Path, name: &str, is_lxd: bool) -> Option<NotedProcess> {
    let seen = all(proc);
    let monitor = seen.iter().find(|process| {
        let about = process.command.strip_prefix(MONITOR);
        about
            .and_then(|about| about.trim_end().rsplit_once(' '))
            .is_some_and(|(place, known)| {
                known == name && (place.contains("lxd") || place.contains("incus")) == is_lxd
            })
    })?;
    let first = seen.iter().find(|process| process.parent == monitor.pid)?;
    Some(NotedProcess {
        pid: first.pid,
        id: name.to_owned(),
        path: proc.join(monitor.pid.to_string()),
    })
}

/// Finds the process whose command contains a text; of a process and its descendants, the process.
///
/// # Errors
/// [`DebugError::Ambiguous`] if there are several.
pub(super) fn by_command(proc: &Path, pattern: &str) -> Result<Option<u32>, DebugError> {
    let seen = all(proc);
    let parent_of = |pid: u32| {
        seen.iter()
            .find(|process| process.pid == pid)
            .map(|process| process.parent)
    };
    // The command that looks has the text in its own arguments, and so may the shell that started it.
    let own: Vec<u32> = std::iter::successors(Some(std::process::id()), |pid| {
        parent_of(*pid).filter(|pid| *pid != 0)
    })
    .collect();
    let matches: Vec<&Seen> = seen
        .iter()
        .filter(|process| !own.contains(&process.pid) && process.command.contains(pattern))
        .collect();
    let is_top = |process: &&&Seen| !matches.iter().any(|other| other.pid == process.parent);
    let tops: Vec<u32> = matches.iter().filter(is_top).map(|process| process.pid).collect();
    match tops[..] {
        [] => Ok(None),
        [pid] => Ok(Some(pid)),
        _ => Err(DebugError::Ambiguous {
            name: pattern.to_owned(),
            engines: tops.iter().map(|pid| format!("pid:{pid}")).collect(),
        }),
    }
}

/// The directory of processes.
pub(super) fn proc() -> PathBuf {
    PathBuf::from("/proc")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(proc: &Path, pid: u32, parent: u32, command: &str) {
        let dir = proc.join(pid.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("cmdline"), command).unwrap();
        std::fs::write(dir.join("status"), format!("Name:\tx\nPPid:\t{parent}\n")).unwrap();
    }

    #[test]
    fn containers_of_lxc_are_beside_their_monitors() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path();
        process(proc, 7, 1, "[lxc monitor] /var/lib/lxc web\0");
        process(proc, 8, 7, "/sbin/init\0");
        process(proc, 9, 1, "[lxc monitor] /var/snap/lxd/common/lxd/containers db");
        process(proc, 10, 9, "/sbin/init\0");
        process(proc, 11, 1, "grep [lxc monitor] /var/lib/lxc fake\0");
        let pid = |name, is_lxd| of_lxc(proc, name, is_lxd).map(|found| found.pid);
        assert_eq!(pid("web", false), Some(8));
        assert_eq!(pid("web", true), None);
        assert_eq!(pid("db", true), Some(10));
        assert_eq!(pid("fake", false), None);
    }

    #[test]
    fn a_command_stands_for_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path();
        process(proc, 7, 1, "nginx: master\0-g\0daemon off;\0");
        process(proc, 8, 7, "nginx: worker\0");
        assert_eq!(by_command(proc, "nginx").unwrap(), Some(7));
        assert_eq!(by_command(proc, "master -g daemon").unwrap(), Some(7));
        assert_eq!(by_command(proc, "apache").unwrap(), None);
        process(proc, 9, 1, "nginx: master\0");
        let error = by_command(proc, "nginx").unwrap_err().to_string();
        assert!(error.contains("pid:7") && error.contains("pid:9"), "{error}");
        process(proc, std::process::id(), 1, "tote\0debug\0command:apache\0");
        assert_eq!(
            by_command(proc, "apache").unwrap(),
            None,
            "the command that looks"
        );
    }
}
