//! Reading a log: its end, from a moment on, and what is added to it while it is read.

use crate::recorded::Entry;
use crate::{MonitorError, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::inotify::{CreateFlags, WatchFlags};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, inotify, openat, statat};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::mem::MaybeUninit;
use std::time::Duration;
use tote_sys::Errno;

/// What of a log is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query {
    /// Only so many entries from the end, of those that are there.
    pub tail: Option<u64>,
    /// Nothing older.
    pub since: Option<Time>,
    /// Nothing newer, and no waiting longer than that.
    pub until: Option<Time>,
}

/// The longest line that is one of a log: every byte of an entry is written as six, and its attributes come on top.
const LONGEST: usize = 256 * 1024;

/// How much is read at once.
const BLOCK: usize = 64 * 1024;

/// What is written to a terminal, a file or a pipe; false when nobody wants more.
type Taker<'a> = &'a mut dyn FnMut(&Entry<'_>) -> bool;

/// A log to be read.
#[derive(Debug)]
pub struct LogReader<'a> {
    dir: OwnedFd,
    name: &'a str,
    query: Query,
}

/// One file of a log.
#[derive(Debug)]
struct Part {
    file: File,
    inode: u64,
    /// What was read and is no whole line yet.
    line: Vec<u8>,
    /// Whether the line is too long to be one of a log; it is passed over.
    skips: bool,
}

impl<'a> LogReader<'a> {
    /// For the log of that name in the directory.
    #[must_use]
    pub fn new(dir: OwnedFd, name: &'a str, query: Query) -> Self {
        Self { dir, name, query }
    }

    /// Gives what is there to `take`, oldest first.
    ///
    /// # Errors
    /// [`MonitorError::Log`].
    pub fn read(&self, take: Taker<'_>) -> Result<(), MonitorError> {
        self.present(take).map(drop).map_err(|source| self.failed(source))
    }

    /// The same, and then what is added, until the log is closed. `watched` gives a connection to the container's
    /// monitor as long as there is one: its end is when to look again.
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
        // From here on nothing is missed: what comes after the last look is noticed.
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
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return Ok(Woken::Time),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if fds.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
            return Ok(Woken::Monitor);
        }
        // What they say does not matter: the files say it themselves.
        let mut space = [MaybeUninit::uninit(); 4096];
        while matches!(rustix::io::read(notices, &mut space), Ok(([_, ..], _))) {}
        Ok(Woken::Log)
    }

    /// Reads what is there; gives the newest file, for what is added to it. Nothing where there is no log, or when
    /// nobody wants more.
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

    /// Every file, the newest first. Each is opened before the older ones: what is put aside meanwhile is met again
    /// under its next name, and not missed.
    fn parts(&self) -> Result<Vec<Part>, Errno> {
        let mut parts = Vec::new();
        // One may be missing for a moment: while it gets its next name.
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

    /// Reads on, in the files that came after this one as well; false when nobody wants more.
    fn advance(&self, part: &mut Part, take: Taker<'_>) -> Result<bool, Errno> {
        loop {
            // Whether it was put aside is asked first: nothing is added to it after that.
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

    /// The file that was begun when this one was put aside. Where this one is gone altogether, the oldest there is.
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

/// By what.
enum Woken {
    Log,
    Monitor,
    Time,
}

impl Part {
    /// Gives every whole line up to the end; false when nobody wants more.
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

/// Gives an entry where it is one that is wanted; false when none is any more.
fn give(line: &[u8], query: &Query, take: Taker<'_>) -> bool {
    // What is no entry is what a crash of the machine has left of one.
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

/// Moves each file to where the last so many lines of all begin; the files are the newest first.
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

/// Where the last lines begin; takes from `tail` as many as there are.
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
            // The last line's own end is none between two lines.
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

    /// A log of which each file has two entries.
    fn log(dir: &Path, max_files: u32) -> LogFile {
        let options = LogOptions {
            max_size: Some(100),
            max_files,
            ..LogOptions::default()
        };
        LogFile::open(open(dir), "log.json", options).unwrap()
    }

    /// Entry number n is of n seconds after 1970.
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

    /// The writer waits for what it has written to be read before it writes on, so that only rotation can lose entries.
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
