//! Processes that others wait for, in words; and the process that has a lock. `/proc/locks` names none for a lock of an open file
//! description; its descriptors in `/proc` do.

use rustix::fd::BorrowedFd;
use std::fmt;
use std::fs::read_dir;
use std::os::unix::fs::MetadataExt as _;

/// Process as a user knows it. Its text says how a stopped one goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedProcess {
    pid: u32,
    program: String,
    is_stopped: bool,
}

impl NamedProcess {
    /// Says which process has the lock on a file, in a clause.
    pub(crate) fn with_lock(file: BorrowedFd<'_>) -> String {
        match Self::holder(file) {
            Some(holder) => format!("{holder} has it"),
            None => "a process has it that this one cannot see".to_owned(),
        }
    }

    /// Finds the process: one that is stopped before others, because it is the one that does not go on.
    fn holder(file: BorrowedFd<'_>) -> Option<Self> {
        let wanted = rustix::fs::fstat(file).ok()?;
        let wanted = (wanted.st_dev, wanted.st_ino);
        let pids = read_dir("/proc").ok()?.flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let mut found = pids.filter(|pid| has_lock(*pid, wanted)).filter_map(Self::of);
        let first = found.next()?;
        if first.is_stopped {
            return Some(first);
        }
        Some(found.find(|other| other.is_stopped).unwrap_or(first))
    }

    /// Looks at the process; `None` if it has ended.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        // absence: a name for people
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (begin, rest) = stat.rsplit_once(") ")?;
        let (_, program) = begin.split_once('(')?;
        Some(Self {
            pid,
            program: program.to_owned(),
            is_stopped: rest.starts_with(['T', 't']),
        })
    }
}

impl fmt::Display for NamedProcess {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "process {} ({})", self.pid, self.program)?;
        if self.is_stopped {
            write!(
                out,
                ", which is stopped ('kill -CONT {}' lets it go on),",
                self.pid
            )?;
        }
        Ok(())
    }
}

/// True if a process has a lock on that file, by any of its descriptors. The file of a descriptor is looked at only where the kernel
/// says that a lock is on one with that number: other files may be those of a server that does not answer.
fn has_lock(pid: u32, (device, inode): (u64, u64)) -> bool {
    let end = format!(":{inode} ");
    let descriptors = read_dir(format!("/proc/{pid}/fdinfo"))
        .into_iter()
        .flatten()
        .flatten();
    descriptors.into_iter().any(|entry| {
        // absence: a name for people
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        // absence: a name for people
        text.lines()
            .any(|line| line.starts_with("lock:") && line.contains(&end))
            && std::fs::metadata(format!("/proc/{pid}/fd/{}", entry.file_name().display()))
                .is_ok_and(|file| (file.dev(), file.ino()) == (device, inode))
    })
}
