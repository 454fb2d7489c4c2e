//! Containers and commands that are found by the titles of processes: no file says where they run.

use super::DebugError;
use super::noted::{NotedProcess, is_id};
use rustix::fs::{Dir, Mode, OFlags, open, openat};
use std::cell::OnceCell;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tote_sys::Errno;

/// Title of the process that LXC has beside each container; the container's path and name follow.
const MONITOR: &str = "[lxc monitor] ";

/// Number of bytes of a command that are looked at.
const COMMAND: usize = 64 << 10;

/// The processes of a directory such as `/proc`, read when they are first asked for.
pub(crate) struct Processes {
    proc: PathBuf,
    seen: OnceCell<Vec<Seen>>,
}

/// A process that has a command; threads of the kernel have none.
struct Seen {
    pid: u32,
    /// Arguments, with blanks between them.
    command: String,
}

/// Place of a process among the others.
struct Place {
    parent: u32,
    /// True if it is the first process of a PID namespace below this one.
    is_first: bool,
}

impl Processes {
    /// Returns the processes of this machine.
    pub(crate) fn here() -> Self {
        Self::of(Path::new("/proc"))
    }

    fn of(proc: &Path) -> Self {
        Self {
            proc: proc.to_owned(),
            seen: OnceCell::new(),
        }
    }

    fn seen(&self) -> &[Seen] {
        self.seen.get_or_init(|| self.look().unwrap_or_default())
    }

    /// Reads the commands of all processes. Most of a machine's are threads of the kernel, so each gets as few calls as there can be.
    fn look(&self) -> Result<Vec<Seen>, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let proc = open(&self.proc, flags | OFlags::DIRECTORY, Mode::empty())?;
        let (mut seen, mut command) = (Vec::new(), vec![0; COMMAND]);
        for entry in Dir::read_from(&proc)? {
            let entry = entry?;
            let Some(pid) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // It may have ended meanwhile.
            // absence: a process that has ended; one that is not found is an error of the caller's
            let Ok(file) = openat(&proc, format!("{pid}/cmdline"), flags, Mode::empty()) else {
                continue;
            };
            let length = rustix::io::read(&file, &mut command[..]).unwrap_or(0);
            let text = &command[..length];
            let text = text.strip_suffix(&[0]).unwrap_or(text);
            if !text.is_empty() {
                let command = String::from_utf8_lossy(text).replace('\0', " ");
                seen.push(Seen { pid, command });
            }
        }
        Ok(seen)
    }

    fn read(&self, pid: u32, name: &str) -> Option<Vec<u8>> {
        // absence: a process that has ended; one that is not found is an error of the caller's
        std::fs::read(self.proc.join(pid.to_string()).join(name)).ok()
    }

    /// Reads where a process is. That takes the kernel longer than all else here, so only few are asked.
    fn place(&self, pid: u32) -> Option<Place> {
        let status = self.read(pid, "status")?;
        let status = String::from_utf8_lossy(&status);
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        Some(Place {
            parent: parent?.trim().parse().ok()?,
            is_first: is_first(&status),
        })
    }

    fn parent_of(&self, pid: u32) -> Option<u32> {
        self.place(pid).map(|place| place.parent)
    }

    fn noted(&self, first: &Seen, name: &str, beside: &Seen) -> NotedProcess {
        NotedProcess {
            pid: first.pid,
            id: name.to_owned(),
            path: self.proc.join(beside.pid.to_string()),
            specs: Vec::new(),
        }
    }

    /// Finds the first process of a container of LXC, or of LXD (or Incus), whose containers are LXC's elsewhere.
    pub(super) fn of_lxc(&self, name: &str, is_lxd: bool) -> Option<NotedProcess> {
        let monitor = self.seen().iter().find(|process| {
            let about = process.command.strip_prefix(MONITOR);
            about
                .and_then(|about| about.trim_end().rsplit_once(' '))
                .is_some_and(|(place, known)| {
                    known == name && (place.contains("lxd") || place.contains("incus")) == is_lxd
                })
        })?;
        let is_its = |process: &&Seen| self.parent_of(process.pid) == Some(monitor.pid);
        let first = self.seen().iter().find(is_its)?;
        Some(self.noted(first, name, monitor))
    }

    /// Finds the first process of a machine of systemd-nspawn that is not registered, by the command of its
    /// systemd-nspawn.
    pub(super) fn of_nspawn(&self, name: &str) -> Option<NotedProcess> {
        let is_its = |process: &&Seen| machine(&process.command) == Some(name);
        let nspawn = self.seen().iter().find(is_its)?;
        let is_first_below = |process: &&Seen| {
            let Some(place) = self.place(process.pid).filter(|place| place.is_first) else {
                return false;
            };
            let mut above = std::iter::successors(Some(place.parent), |pid| self.parent_of(*pid)).take(4);
            above.any(|pid| pid == nspawn.pid)
        };
        let first = self.seen().iter().find(is_first_below)?;
        Some(self.noted(first, name, nspawn))
    }

    /// Finds the first process of a container of podman, of any user, by the process `conmon` beside it. That process names
    /// the container, wherever its user's podman has its files. Users other than root see only their own.
    ///
    /// # Errors
    /// [`DebugError::Ambiguous`] if containers of several users have this name.
    pub(super) fn of_podman(&self, wanted: &str) -> Result<Option<NotedProcess>, DebugError> {
        let own = rustix::process::geteuid().as_raw();
        let is_shown = |process: &&Seen| {
            let owner = self.proc.join(process.pid.to_string()).metadata();
            own == 0 || owner.is_ok_and(|found| found.uid() == own)
        };
        let beside = self.seen().iter().filter_map(|process| {
            let id = conmons_container(&process.command, wanted)?;
            is_shown(&process).then_some((process, id))
        });
        let found: Vec<NotedProcess> = beside
            .filter_map(|(conmon, id)| {
                let is_its = |process: &&Seen| self.parent_of(process.pid) == Some(conmon.pid);
                let first = self.seen().iter().find(is_its)?;
                Some(self.noted(first, id, conmon))
            })
            .collect();
        if found.len() > 1 {
            return Err(DebugError::Ambiguous {
                name: wanted.to_owned(),
                engines: found.iter().map(|first| format!("pid:{}", first.pid)).collect(),
            });
        }
        Ok(found.into_iter().next())
    }

    /// Finds the process whose command contains a text; of a process and its descendants, the process.
    ///
    /// # Errors
    /// [`DebugError::Ambiguous`] if there are several.
    pub(super) fn by_command(&self, pattern: &str) -> Result<Option<u32>, DebugError> {
        // The command that looks has the text in its own arguments, and so may the shell that started it.
        let own: Vec<u32> = std::iter::successors(Some(std::process::id()), |pid| {
            self.parent_of(*pid).filter(|pid| *pid != 0)
        })
        .collect();
        let is_match = |process: &&Seen| !own.contains(&process.pid) && process.command.contains(pattern);
        let matches: Vec<u32> = self
            .seen()
            .iter()
            .filter(is_match)
            .map(|process| process.pid)
            .collect();
        let is_top = |pid: &u32| {
            self.parent_of(*pid)
                .is_some_and(|parent| !matches.contains(&parent))
        };
        let tops: Vec<u32> = matches.iter().copied().filter(is_top).collect();
        match tops[..] {
            [] => Ok(None),
            [pid] => Ok(Some(pid)),
            _ => Err(DebugError::Ambiguous {
                name: pattern.to_owned(),
                engines: tops.iter().map(|pid| format!("pid:{pid}")).collect(),
            }),
        }
    }
}

/// Whether a process has number 1 in a PID namespace that is not this one's.
fn is_first(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let numbers = line.unwrap_or_default().split_ascii_whitespace();
    numbers.skip(1).last() == Some("1")
}

/// Returns the id of the container that a command of conmon is beside, if `wanted` is its name or its id.
fn conmons_container<'a>(command: &'a str, wanted: &str) -> Option<&'a str> {
    let mut words = command.split(' ');
    if words.next()?.rsplit('/').next() != Some("conmon") {
        return None;
    }
    let value = |option: &str| {
        let mut words = words.clone();
        words.find(|word| *word == option)?;
        words.next()
    };
    let (id, name) = (value("-c")?, value("-n"));
    // For `podman exec` there is one more, with an id of its own.
    let is_first = value("-u") == Some(id);
    (is_first && (name == Some(wanted) || is_id(wanted, id))).then_some(id)
}

/// Returns the name of the machine that a command of systemd-nspawn starts: the one that it gives, or that of its directory or
/// image.
fn machine(command: &str) -> Option<&str> {
    let mut words = command.split(' ');
    if words.next()?.rsplit('/').next() != Some("systemd-nspawn") {
        return None;
    }
    let (mut place, mut words) = (None, words.peekable());
    while let Some(word) = words.next() {
        let mut value = |short: &str, long: &str| match word.strip_prefix(long) {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('='),
            None => match word.strip_prefix(short).filter(|_| !word.starts_with("--")) {
                Some("") => words.next(),
                rest => rest,
            },
        };
        if let Some(name) = value("-M", "--machine") {
            return Some(name);
        }
        let found = value("-D", "--directory").or_else(|| value("-i", "--image"));
        place = place.or(found);
    }
    let place = place?.trim_end_matches('/');
    let name = place.rsplit('/').next()?;
    Some(name.strip_suffix(".raw").unwrap_or(name))
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
        let pid = |name, is_lxd| Processes::of(proc).of_lxc(name, is_lxd).map(|found| found.pid);
        assert_eq!(pid("web", false), Some(8));
        assert_eq!(pid("web", true), None);
        assert_eq!(pid("db", true), Some(10));
        assert_eq!(pid("fake", false), None);
    }

    #[test]
    fn containers_of_podman_are_beside_conmon() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path();
        let conmon = |id: &str, session: &str, name: &str| {
            format!(
                "/usr/bin/conmon\0--api-version\x001\0-c\0{id}\0-u\0{session}\0-r\0crun\0-n\0{name}\0-x\0"
            )
        };
        process(proc, 7, 1, &conmon("aaaa1", "aaaa1", "web"));
        process(proc, 8, 7, "sleep\0inf\0");
        process(proc, 9, 1, &conmon("aaaa1", "bbbb1", "web"));
        process(proc, 10, 9, "sh\0");
        process(proc, 11, 1, &conmon("cccc1", "cccc1", "starting"));
        process(
            proc,
            12,
            1,
            "vi\0/usr/bin/conmon\0-c\0dddd1\0-u\0dddd1\0-n\0fake\0",
        );
        process(proc, 13, 12, "sh\0");
        let pid = |name| {
            Processes::of(proc)
                .of_podman(name)
                .unwrap()
                .map(|found| found.pid)
        };
        assert_eq!(pid("web"), Some(8), "not the one of an exec");
        assert_eq!(pid("aaaa1"), Some(8));
        assert_eq!(pid("starting"), None);
        assert_eq!(pid("fake"), None);
        process(proc, 14, 1, &conmon("eeee1", "eeee1", "web"));
        process(proc, 15, 14, "sleep\0inf\0");
        let error = Processes::of(proc).of_podman("web").unwrap_err().to_string();
        assert!(error.contains("pid:8") && error.contains("pid:15"), "{error}");
    }

    #[test]
    fn machines_are_named_by_their_commands() {
        for (command, name) in [
            ("systemd-nspawn -q -M web -D /srv/x sleep 1", Some("web")),
            (
                "/usr/bin/systemd-nspawn --machine=web --directory=/srv/x",
                Some("web"),
            ),
            ("systemd-nspawn -Mweb", Some("web")),
            ("systemd-nspawn -q -D /srv/db/", Some("db")),
            ("systemd-nspawn --image /srv/db.raw -b", Some("db")),
            ("vim systemd-nspawn -M web", None),
            ("systemd-nspawn --help", None),
        ] {
            assert_eq!(machine(command), name, "{command}");
        }
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path();
        process(proc, 7, 1, "systemd-nspawn -M web -D /srv/x\0");
        process(proc, 8, 7, "(sd-child)\0");
        process(proc, 9, 8, "/sbin/init\0");
        assert!(
            Processes::of(proc).of_nspawn("web").is_none(),
            "it does not run yet"
        );
        let status = "Name:\tx\nPPid:\t8\nNSpid:\t9\t1\n";
        std::fs::write(proc.join("9/status"), status).unwrap();
        assert_eq!(
            Processes::of(proc).of_nspawn("web").map(|found| found.pid),
            Some(9)
        );
        assert!(Processes::of(proc).of_nspawn("db").is_none());
        assert!(!is_first("NSpid:\t1\n"), "the first one of this machine");
    }

    #[test]
    fn a_command_stands_for_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path();
        process(proc, 7, 1, "nginx: master\0-g\0daemon off;\0");
        process(proc, 8, 7, "nginx: worker\0");
        assert_eq!(Processes::of(proc).by_command("nginx").unwrap(), Some(7));
        assert_eq!(
            Processes::of(proc).by_command("master -g daemon").unwrap(),
            Some(7)
        );
        assert_eq!(Processes::of(proc).by_command("apache").unwrap(), None);
        process(proc, 9, 1, "nginx: master\0");
        let error = Processes::of(proc).by_command("nginx").unwrap_err().to_string();
        assert!(error.contains("pid:7") && error.contains("pid:9"), "{error}");
        process(proc, std::process::id(), 1, "tote\0debug\0command:apache\0");
        assert_eq!(
            Processes::of(proc).by_command("apache").unwrap(),
            None,
            "the command that looks"
        );
    }
}
