//! Reader of a log: its end, entries since a time, and entries that are added while it reads.

use crate::MonitorError;
use crate::recorded::Entry;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::inotify::{CreateFlags, WatchFlags};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, inotify, openat, statat};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::mem::MaybeUninit;
use std::time::Duration;
use tote_calendar::Time;
use tote_sys::{Endless, Errno, Wait};

/// Selection of entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query {
    /// Number of entries from the end of those that exist.
    pub tail: Option<u64>,
    /// Time before which entries are left out.
    pub since: Option<Time>,
    /// Time after which entries are left out, and at which waiting ends.
    pub until: Option<Time>,
}

/// Longest line of a log in bytes: every byte of an entry may be escaped as six, and its attributes come on top.
const LONGEST: usize = 256 * 1024;

/// Bytes of one read.
const BLOCK: usize = 64 * 1024;

/// Function that takes an entry; false if no more are wanted.
type Taker<'a> = &'a mut dyn FnMut(&Entry<'_>) -> bool;

/// Reader of a log.
#[derive(Debug)]
pub struct LogReader<'a> {
    dir: OwnedFd,
    name: &'a str,
    query: Query,
}

/// File of a log.
#[derive(Debug)]
struct Part {
    file: File,
    inode: u64,
    /// Start of a line that is not complete yet.
    line: Vec<u8>,
    /// True if the line is too long for a log; the rest of it is skipped.
    skips: bool,
}

impl<'a> LogReader<'a> {
    /// Prepares to read the log of this name in the directory.
    #[must_use]
    pub fn new(dir: OwnedFd, name: &'a str, query: Query) -> Self {
        Self { dir, name, query }
    }

    /// Passes the existing entries to `take`, oldest first.
    ///
    /// # Errors
    /// [`MonitorError::Log`].
    pub fn read(&self, take: Taker<'_>) -> Result<(), MonitorError> {
        self.present(take).map(drop).map_err(|source| self.failed(source))
    }

    /// Does [`LogReader::read`], and then passes entries that are added, until the log is closed. `watched` returns a
    /// connection to the container's monitor while there is one: when the connection ends, the reader looks again.
    ///
    /// # Errors
    /// [`MonitorError::Log`].
    pub fn follow(
        &self,
        watched: &mut dyn FnMut() -> Option<OwnedFd>,
        take: Taker<'_>,
    ) -> Result<(), MonitorError> {
        self.follow_on(watched, take)
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: Errno) -> MonitorError {
        MonitorError::Log {
            name: self.name.to_owned(),
            source,
        }
    }

    fn follow_on(&self, watched: &mut dyn FnMut() -> Option<OwnedFd>, take: Taker<'_>) -> Result<(), Errno> {
        let notices = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let place = format!("/proc/self/fd/{}", self.dir.as_raw_fd());
        let flags = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
        inotify::add_watch(&notices, place.as_str(), flags)?;
        // From here on no entry is missed: additions after the last read wake the reader.
        let mut connection = watched();
        let Some(mut part) = self.present(take)? else {
            return Ok(());
        };
        loop {
            if !self.advance(&mut part, take)? {
                return Ok(());
            }
            if connection.is_none() {
                return Ok(());
            }
            match self.wait(&notices, connection.as_ref())? {
                Woken::Log => {}
                Woken::Monitor => connection = watched(),
                Woken::Time => return self.advance(&mut part, take).map(drop),
            }
        }
    }

    fn wait(&self, notices: &OwnedFd, connection: Option<&OwnedFd>) -> Result<Woken, Errno> {
        let mut fds: Vec<_> = [Some(notices), connection]
            .into_iter()
            .flatten()
            .map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN))
            .collect();
        let left = self.query.until.map(|until| until.0 - Time::now().0);
        let timeout = left.map(|left| Duration::from_nanos(u64::try_from(left.max(0)).unwrap_or(u64::MAX)));
        match Wait::within_or(timeout, Endless::User).poll(&mut fds) {
            Ok(0) => return Ok(Woken::Time),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if fds.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
            return Ok(Woken::Monitor);
        }
        // The notifications' contents do not matter: the reader looks at the files.
        let mut space = [MaybeUninit::uninit(); 4096];
        while matches!(rustix::io::read(notices, &mut space), Ok(([_, ..], _))) {}
        Ok(Woken::Log)
    }

    /// Reads the existing entries; returns the newest file, to continue there. `None` if there is nothing to read, or
    /// the taker wants no more entries.
    fn present(&self, take: Taker<'_>) -> Result<Option<Part>, Errno> {
        let mut parts = self.parts()?;
        if let Some(tail) = self.query.tail {
            skip_to_tail(&mut parts, tail)?;
        }
        while let Some(mut part) = parts.pop() {
            if !part.read(&self.query, take)? {
                return Ok(None);
            }
            if parts.is_empty() {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    /// Opens every file, the newest first. Each is opened before the older ones: a file renamed meanwhile is found
    /// again under its next name, and not missed.
    fn parts(&self) -> Result<Vec<Part>, Errno> {
        let mut parts = Vec::new();
        // A file may be missing for a moment, while it gets its next name.
        let mut missing = 0;
        for number in 0.. {
            match self.open(number) {
                Ok(part) => {
                    missing = 0;
                    let known = |other: &Part| other.inode == part.inode;
                    if !parts.iter().any(known) {
                        parts.push(part);
                    }
                }
                Err(Errno::NOENT) if missing > 0 => break,
                Err(Errno::NOENT) => missing += 1,
                Err(errno) => return Err(errno),
            }
        }
        Ok(parts)
    }

    fn open(&self, number: u32) -> Result<Part, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = if number == 0 {
            openat(&self.dir, self.name, flags, Mode::empty())?
        } else {
            openat(&self.dir, format!("{}.{number}", self.name), flags, Mode::empty())?
        };
        Ok(Part {
            inode: fstat(&file)?.st_ino,
            file: File::from(file),
            line: Vec::new(),
            skips: false,
        })
    }

    /// Reads on, also in the files that follow this one; false if no more entries are wanted.
    fn advance(&self, part: &mut Part, take: Taker<'_>) -> Result<bool, Errno> {
        loop {
            // The check for rotation comes first: no entry is added to the file after that.
            let newer = self.after(part)?;
            if !part.read(&self.query, take)? {
                return Ok(false);
            }
            match newer {
                Some(newer) => *part = newer,
                None => return Ok(true),
            }
        }
    }

    /// Opens the file that was begun when this one was rotated. If this one has been removed, the oldest existing
    /// one.
    fn after(&self, part: &Part) -> Result<Option<Part>, Errno> {
        let current = statat(&self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW);
        if current.is_ok_and(|current| current.st_ino == part.inode) {
            return Ok(None);
        }
        let mut parts = self.parts()?;
        let place = parts.iter().position(|other| other.inode == part.inode);
        parts.truncate(place.unwrap_or(parts.len()));
        Ok(parts.pop())
    }
}

/// Reason to go on.
enum Woken {
    Log,
    Monitor,
    Time,
}

impl Part {
    /// Passes on every complete line up to the end; false if no more entries are wanted.
    fn read(&mut self, query: &Query, take: Taker<'_>) -> Result<bool, Errno> {
        let mut block = vec![0; BLOCK];
        loop {
            let length = match self.file.read(&mut block) {
                Ok(0) => return Ok(true),
                Ok(length) => length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            };
            for piece in block[..length].split_inclusive(|byte| *byte == b'\n') {
                if !self.skips {
                    self.line.extend_from_slice(piece);
                }
                if piece.ends_with(b"\n") {
                    let wanted = self.skips || give(&self.line, query, take);
                    self.line.clear();
                    self.skips = false;
                    if !wanted {
                        return Ok(false);
                    }
                } else if self.line.len() > LONGEST {
                    self.skips = true;
                    self.line.clear();
                }
            }
        }
    }
}

/// Passes an entry on if it is selected; false if no later entry can be.
fn give(line: &[u8], query: &Query, take: Taker<'_>) -> bool {
    // A line that is not an entry is the remains of one after a crash of the machine.
    let Some(entry) = Entry::parse(line) else {
        return true;
    };
    if query.since.is_some_and(|since| entry.time < since) {
        return true;
    }
    if query.until.is_some_and(|until| entry.time > until) {
        return false;
    }
    take(&entry)
}

/// Moves each file to the start of the last `tail` lines of them all; the files are the newest first.
fn skip_to_tail(parts: &mut Vec<Part>, mut tail: u64) -> Result<(), Errno> {
    let io = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let mut needed = 0;
    for part in parts.iter_mut() {
        needed += 1;
        let start = start_of_tail(&mut part.file, &mut tail).map_err(io)?;
        part.file.seek(SeekFrom::Start(start)).map_err(io)?;
        if tail == 0 {
            break;
        }
    }
    parts.truncate(needed);
    Ok(())
}

/// Returns where the last lines begin; subtracts the number of lines found from `tail`.
fn start_of_tail(file: &mut File, tail: &mut u64) -> std::io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    if *tail == 0 {
        return Ok(end);
    }
    let mut block = vec![0; BLOCK];
    let mut last = true;
    while end > 0 {
        let start = end.saturating_sub(BLOCK as u64);
        let block = &mut block[..usize::try_from(end - start).unwrap_or(BLOCK)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(block)?;
        for (place, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            // The end of the last line does not separate two lines.
            if !std::mem::take(&mut last) {
                *tail -= 1;
                if *tail == 0 {
                    return Ok(start + place as u64 + 1);
                }
            }
        }
        end = start;
    }
    *tail -= u64::from(!last);
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Line;
    use crate::log::{LogFile, LogOptions};
    use crate::pair;
    use std::path::Path;
    use std::sync::mpsc;

    fn open(dir: &Path) -> OwnedFd {
        rustix::fs::open(dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    /// Makes a log whose files have two entries each.
    fn log(dir: &Path, max_files: u32) -> LogFile {
        let options = LogOptions {
            max_size: Some(100),
            max_files,
            ..LogOptions::default()
        };
        LogFile::open(open(dir), "log.json", options).unwrap()
    }

    /// Writes entry number n with the time n seconds after 1970.
    fn write(log: &mut LogFile, number: u32) {
        log.write(&Line {
            bytes: number.to_string().as_bytes(),
            ends: true,
            stream: "stdout",
            time: Time(i128::from(number) * 1_000_000_000),
        });
        log.flush();
    }

    fn read(dir: &Path, query: Query) -> Vec<u32> {
        let mut numbers = Vec::new();
        let mut take = |entry: &Entry<'_>| {
            numbers.push(entry.text.trim().parse().unwrap());
            true
        };
        LogReader::new(open(dir), "log.json", query)
            .read(&mut take)
            .unwrap();
        numbers
    }

    #[test]
    fn files_are_one_log() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert_eq!(read(dir, Query::default()), [0; 0], "no log at all");
        let mut log = log(dir, 4);
        (0..11).for_each(|number| write(&mut log, number));
        assert_eq!(read(dir, Query::default()), (4..11).collect::<Vec<_>>());
        for tail in 0..9 {
            let expected: Vec<_> = (11 - (tail as u32).min(7)..11).collect();
            let query = Query {
                tail: Some(tail),
                ..Query::default()
            };
            assert_eq!(read(dir, query), expected, "the last {tail}");
        }
        let query = Query {
            since: Some(Time(6_000_000_000)),
            until: Some(Time(8_000_000_000)),
            tail: None,
        };
        assert_eq!(read(dir, query), [6, 7, 8]);
    }

    #[test]
    fn what_is_no_entry_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(dir.path(), 1);
        write(&mut log, 0);
        let path = dir.path().join("log.json");
        let mut text = std::fs::read(&path).unwrap();
        let entry = text.clone();
        text.extend_from_slice(b"garbage\n\0\0\n");
        text.extend_from_slice(&vec![b'x'; 2 * LONGEST]);
        text.push(b'\n');
        text.extend_from_slice(&entry);
        text.extend_from_slice(b"{\"log\":\"torn");
        std::fs::write(&path, text).unwrap();
        assert_eq!(read(dir.path(), Query::default()), [0, 0]);
    }

    /// The writer waits until its entries have been read before it writes on, so that only rotation can lose entries.
    #[test]
    fn following_goes_on_in_the_next_file_and_ends_with_the_monitor() {
        for max_files in [1, 2, 5] {
            let dir = tempfile::tempdir().unwrap();
            let mut log = log(dir.path(), max_files);
            write(&mut log, 0);
            let (monitor, watcher) = pair().unwrap();
            let (told, read) = mpsc::channel();
            let writer = std::thread::spawn(move || {
                for number in 1..40 {
                    assert_eq!(read.recv(), Ok(number - 1), "{max_files} files");
                    write(&mut log, number);
                }
                assert_eq!(read.recv(), Ok(39));
                drop(monitor);
            });
            let mut watcher = Some(watcher);
            let mut numbers = Vec::new();
            let mut take = |entry: &Entry<'_>| {
                numbers.push(entry.text.trim().parse().unwrap());
                told.send(*numbers.last().unwrap()).unwrap();
                true
            };
            let reader = LogReader::new(open(dir.path()), "log.json", Query::default());
            reader.follow(&mut || watcher.take(), &mut take).unwrap();
            writer.join().unwrap();
            assert_eq!(numbers, (0..40).collect::<Vec<u32>>(), "{max_files} files");
        }
    }

    #[test]
    fn following_ends_when_nobody_watches_or_nobody_wants_more() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(dir.path(), 2);
        (0..3).for_each(|number| write(&mut log, number));
        let reader = LogReader::new(open(dir.path()), "log.json", Query::default());
        let mut count = 0;
        let mut all = |_: &Entry<'_>| {
            count += 1;
            true
        };
        reader.follow(&mut || None, &mut all).unwrap();
        assert_eq!(count, 3);
        let (_monitor, watcher) = pair().unwrap();
        let mut watcher = Some(watcher);
        reader.follow(&mut || watcher.take(), &mut |_| false).unwrap();
    }

    #[test]
    fn following_ends_at_the_moment_that_was_given() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(dir.path(), 2);
        write(&mut log, 0);
        let query = Query {
            until: Some(Time(Time::now().0 + 50_000_000)),
            ..Query::default()
        };
        let (_monitor, watcher) = pair().unwrap();
        let mut watcher = Some(watcher);
        let reader = LogReader::new(open(dir.path()), "log.json", query);
        reader.follow(&mut || watcher.take(), &mut |_| true).unwrap();
    }
}
