//! Files of a container's log, and their rotation, as docker's json-file driver does it.

use crate::MonitorError;
use crate::entry::{Line, Sink, encode, encode_plain};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, ftruncate, openat, renameat, unlinkat};
use tote_sys::{Errno, Pages, best_effort};

/// Bytes that are collected before a write.
const COLLECTED: usize = 24 * 1024;

/// Longest attributes text, which every entry carries, in bytes.
const LONGEST_ATTRIBUTES: usize = 16 * 1024;

/// Bytes of the buffer: room for collected entries and one more, every byte of which may be escaped as six. Unused
/// pages take no memory.
const ROOM: usize = COLLECTED + 6 * crate::output::LONGEST + LONGEST_ATTRIBUTES + 256;

/// Format of a log's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Format of docker's json-file driver.
    #[default]
    Json,
    /// Format of podman's k8s-file driver: time, stream, `F` or `P` for a part of a line, and the text. Has no
    /// attributes.
    Plain,
}

/// Options of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Size in bytes from which a file is rotated before the next entry is written (`max-size`).
    pub max_size: Option<u64>,
    /// Number of files, the current one included (`max-file`); 0 counts as 1.
    pub max_files: u32,
    /// Attributes of the container in every entry (`labels`, `env`, `tag`): a JSON object.
    pub attributes: Option<String>,
    /// Format of the entries.
    pub format: LogFormat,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            max_size: None,
            max_files: 1,
            attributes: None,
            format: LogFormat::Json,
        }
    }
}

/// Log that entries are written to.
///
/// Entries that a disk does not take are lost, and counted: the container does not wait for space, and entries are
/// not collected for later. A disk that is only slow holds the container up, as a slow reader of a pipe does.
#[derive(Debug)]
pub struct LogFile {
    dir: OwnedFd,
    name: String,
    options: LogOptions,
    file: Option<OwnedFd>,
    /// Bytes of whole entries in the file.
    size: u64,
    /// Whole entries that are not written yet.
    buffer: Pages,
    filled: usize,
    lost: u64,
}

impl LogFile {
    /// Opens the log of this name in the directory, new or to be continued.
    ///
    /// # Errors
    /// [`MonitorError::Log`]; `E2BIG` for attributes of more than 16 KiB.
    pub fn open(dir: OwnedFd, name: &str, options: LogOptions) -> Result<Self, MonitorError> {
        let failed = |source| MonitorError::Log {
            name: name.to_owned(),
            source,
        };
        let attributes = options.attributes.as_ref().map_or(0, String::len);
        if attributes > LONGEST_ATTRIBUTES {
            return Err(failed(Errno::TOOBIG));
        }
        let buffer = Pages::new(ROOM).map_err(failed)?;
        let mut log = Self {
            dir,
            name: name.to_owned(),
            options,
            file: None,
            size: 0,
            buffer,
            filled: 0,
            lost: 0,
        };
        log.reopen(OFlags::empty()).map_err(failed)?;
        Ok(log)
    }

    fn reopen(&mut self, flags: OFlags) -> Result<(), Errno> {
        let flags =
            flags | OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&self.dir, &self.name, flags, Mode::from_raw_mode(0o600))?;
        self.size = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
        self.file = Some(file);
        Ok(())
    }

    /// Returns how many entries were lost so far because the disk did not take them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds an entry; it is in the file after [`LogFile::flush`].
    pub(crate) fn write(&mut self, line: &Line<'_>) {
        if self.is_full(self.filled) {
            self.flush();
            if self.is_full(0) {
                self.rotate();
            }
        }
        let mut end = End {
            buffer: &mut self.buffer,
            filled: &mut self.filled,
        };
        match self.options.format {
            LogFormat::Json => encode(line, self.options.attributes.as_deref(), &mut end),
            LogFormat::Plain => encode_plain(line, &mut end),
        }
        if self.filled >= COLLECTED {
            self.flush();
        }
    }

    fn is_full(&self, more: usize) -> bool {
        self.options
            .max_size
            .is_some_and(|max| self.size.saturating_add(more as u64) >= max)
    }

    /// Writes the collected entries.
    pub(crate) fn flush(&mut self) {
        if self.filled == 0 {
            return;
        }
        if self.file.is_none() {
            // The file could not be opened after a rotation; try again.
            best_effort(self.reopen(OFlags::empty()));
        }
        let entries = &self.buffer[..std::mem::take(&mut self.filled)];
        let written = self.file.as_ref().map_or(0, |file| write_all(file, entries));
        let (whole, rest) = if written == entries.len() {
            (written, &[][..])
        } else {
            // Each entry contains one line end, its last byte.
            let whole = entries[..written].iter().rposition(|byte| *byte == b'\n');
            let whole = whole.map_or(0, |at| at + 1);
            (whole, &entries[whole..])
        };
        self.size += whole as u64;
        self.lost += rest.iter().filter(|byte| **byte == b'\n').count() as u64;
        if let Some(file) = self.file.as_ref().filter(|_| written > whole) {
            // Readers expect whole entries.
            best_effort(ftruncate(file, self.size));
        }
    }

    /// Rotates as docker does: the oldest file goes, the others move up by one, and a new file is begun.
    fn rotate(&mut self) {
        let files = self.options.max_files.max(1);
        let numbered = |number: u32| format!("{}.{number}", self.name);
        self.file = None;
        if files < 2 {
            best_effort(unlinkat(&self.dir, &self.name, AtFlags::empty()));
        } else {
            for number in (1..files - 1).rev() {
                best_effort(renameat(
                    &self.dir,
                    numbered(number),
                    &self.dir,
                    numbered(number + 1),
                ));
            }
            best_effort(renameat(&self.dir, &self.name, &self.dir, numbered(1)));
        }
        // A file that could not be renamed is truncated, because its size has a limit.
        best_effort(self.reopen(OFlags::TRUNC));
    }

    /// Gives the buffer's memory back.
    pub(crate) fn rest(&mut self) {
        self.buffer.discard();
    }
}

/// Writes as much as the file takes; returns the number of bytes.
fn write_all(file: &OwnedFd, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(file, &bytes[written..]) {
            Ok(length @ 1..) => written += length,
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    written
}

/// Free end of the buffer, which has room for an entry of any length.
struct End<'a> {
    buffer: &'a mut [u8],
    filled: &'a mut usize,
}

impl Sink for End<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(free) = self.buffer.get_mut(*self.filled..*self.filled + bytes.len()) {
            free.copy_from_slice(bytes);
            *self.filled += bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tote_calendar::Time;

    fn open(dir: &Path, options: LogOptions) -> LogFile {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(dir, flags, Mode::empty()).unwrap();
        LogFile::open(dir, "log.json", options).unwrap()
    }

    fn write(log: &mut LogFile, bytes: &[u8]) {
        log.write(&Line {
            bytes,
            ends: true,
            stream: "stderr",
            time: Time(0),
        });
    }

    fn entry(text: &str) -> String {
        format!("{{\"log\":\"{text}\\n\",\"stream\":\"stderr\",\"time\":\"1970-01-01T00:00:00Z\"}}\n")
    }

    #[test]
    fn a_log_is_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["one", "two"] {
            let mut log = open(dir.path(), LogOptions::default());
            write(&mut log, text.as_bytes());
            log.flush();
        }
        let text = std::fs::read_to_string(dir.path().join("log.json")).unwrap();
        assert_eq!(text, entry("one") + &entry("two"));
    }

    #[test]
    fn the_longest_entry_has_room() {
        let dir = tempfile::tempdir().unwrap();
        let attributes = format!("{{\"tag\":\"{}\"}}", "t".repeat(LONGEST_ATTRIBUTES - 10));
        let options = LogOptions {
            attributes: Some(attributes.clone()),
            ..LogOptions::default()
        };
        let mut log = open(dir.path(), options);
        write(&mut log, b"x");
        for _ in 0..3 {
            write(&mut log, &[1; crate::output::LONGEST]);
        }
        log.flush();
        let text = std::fs::read_to_string(dir.path().join("log.json")).unwrap();
        let ends = text
            .lines()
            .filter(|line| line.ends_with(":00Z\"}") && line.contains(&attributes));
        assert_eq!((ends.count(), log.lost()), (4, 0));
        let options = LogOptions {
            attributes: Some("x".repeat(LONGEST_ATTRIBUTES + 1)),
            ..LogOptions::default()
        };
        let dir = rustix::fs::open(dir.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        assert!(LogFile::open(dir, "log.json", options).is_err());
    }

    #[test]
    fn files_are_put_aside_as_docker_does_it() {
        let dir = tempfile::tempdir().unwrap();
        let options = LogOptions {
            max_size: Some(2 * entry("0").len() as u64),
            max_files: 3,
            ..LogOptions::default()
        };
        let mut log = open(dir.path(), options.clone());
        for number in 0..6 {
            write(&mut log, number.to_string().as_bytes());
        }
        log.flush();
        let mut log = open(dir.path(), options);
        for number in 6..9 {
            write(&mut log, number.to_string().as_bytes());
        }
        log.flush();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("log.json"), entry("8"));
        assert_eq!(read("log.json.1"), entry("6") + &entry("7"));
        assert_eq!(read("log.json.2"), entry("4") + &entry("5"));
        assert!(!dir.path().join("log.json.3").try_exists().unwrap());
    }

    #[test]
    fn one_file_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let options = LogOptions {
            max_size: Some(1),
            ..LogOptions::default()
        };
        let mut log = open(dir.path(), options);
        for number in 0..5 {
            write(&mut log, number.to_string().as_bytes());
        }
        log.flush();
        let text = std::fs::read_to_string(dir.path().join("log.json")).unwrap();
        assert_eq!(text, entry("4"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_full_disk_loses_whole_entries_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = open(dir.path(), LogOptions::default());
        write(&mut log, b"kept");
        log.flush();
        log.file = Some(rustix::fs::open("/dev/full", OFlags::WRONLY, Mode::empty()).unwrap());
        write(&mut log, b"lost");
        write(&mut log, b"lost too");
        log.flush();
        assert_eq!(log.lost(), 2);
        log.file = None;
        write(&mut log, b"again");
        log.flush();
        let text = std::fs::read_to_string(dir.path().join("log.json")).unwrap();
        assert_eq!(text, entry("kept") + &entry("again"));
    }
}
