//! Opened files of a file system, fanotify(7).

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// Length of an event without further records, `FAN_EVENT_METADATA_LEN`.
const EVENT: usize = 24;
/// Events that are read at once; each opens a descriptor.
const AT_ONCE: usize = 64;
/// Errors of single events that are skipped in one go.
const SKIPPED: usize = 4096;

/// Reports of each file that is opened on a file system, by any process. It needs the capability `CAP_SYS_ADMIN` of the
/// whole machine.
#[derive(Debug)]
pub struct OpenWatch {
    group: OwnedFd,
}

/// A file that was opened.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file, opened once more for this process. Its path in `/proc/self/fd` is that on its mount.
    pub file: OwnedFd,
    /// Process that opened it, which may have ended.
    pub pid: u32,
}

/// Reports that were read.
#[derive(Debug, Default)]
pub struct OpenedFiles {
    /// Files, in the order in which they were opened; repetitions that came in quick succession are one.
    pub files: Vec<OpenedFile>,
    /// True if the kernel had to drop reports.
    pub overflowed: bool,
}

impl OpenWatch {
    /// Makes a watch of nothing.
    ///
    /// # Errors
    /// fanotify_init(2)'s: `EPERM` without the capability, `ENOSYS` in a kernel without it.
    pub fn new() -> Result<Self, Errno> {
        let flags = libc::FAN_CLASS_NOTIF
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            | libc::FAN_UNLIMITED_QUEUE
            | libc::FAN_UNLIMITED_MARKS;
        // Without O_NONBLOCK a FIFO of an image would hold the reader up.
        let files = libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the call takes two numbers and no memory.
        let group = unsafe { libc::fanotify_init(flags, files.cast_unsigned()) };
        if group < 0 {
            return Err(errno());
        }
        // SAFETY: the call has just returned this descriptor, so nothing else owns it.
        let group = unsafe { OwnedFd::from_raw_fd(group) };
        Ok(Self { group })
    }

    /// Adds the file system that a file or directory is on, whatever mounts show it. The descriptor must not be one of
    /// `O_PATH`.
    ///
    /// # Errors
    /// fanotify_mark(2)'s.
    pub fn add_file_system(&self, of: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        let mask = libc::FAN_OPEN | libc::FAN_OPEN_EXEC;
        // SAFETY: both descriptors are open, and a null path means the directory descriptor itself.
        let marked = unsafe {
            libc::fanotify_mark(
                self.group.as_raw_fd(),
                flags,
                mask,
                of.as_raw_fd(),
                std::ptr::null(),
            )
        };
        if marked < 0 { Err(errno()) } else { Ok(()) }
    }

    /// Returns the descriptor that is ready when there are reports.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        use rustix::fd::AsFd as _;
        self.group.as_fd()
    }

    /// Reads reports that are there, without waiting; an empty list if the queue is empty.
    ///
    /// # Errors
    /// read(2)'s, but for files that cannot be opened once more: these are left out.
    pub fn read(&self) -> Result<OpenedFiles, Errno> {
        let mut bytes = [0; EVENT * AT_ONCE];
        for _ in 0..SKIPPED {
            match rustix::io::read(&self.group, &mut bytes) {
                Ok(length) => return Ok(parse(&bytes[..length])),
                Err(Errno::AGAIN) => return Ok(OpenedFiles::default()),
                Err(errno @ (Errno::BADF | Errno::FAULT | Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                    return Err(errno);
                }
                // The file of one event: a device without a driver, for example.
                Err(_) => {}
            }
        }
        Ok(OpenedFiles::default())
    }
}

/// Takes the events of a buffer that read(2) has just filled.
fn parse(mut bytes: &[u8]) -> OpenedFiles {
    let mut found = OpenedFiles::default();
    let number = |bytes: &[u8], at: usize| -> Option<u32> {
        Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    };
    while bytes.len() >= EVENT {
        let (Some(length), Some(fd), Some(pid)) = (number(bytes, 0), number(bytes, 16), number(bytes, 20))
        else {
            break;
        };
        let mask = number(bytes, 8).unwrap_or(0);
        found.overflowed |= u64::from(mask) & libc::FAN_Q_OVERFLOW != 0;
        let fd = fd.cast_signed();
        if fd >= 0 {
            // SAFETY: the kernel has opened this descriptor for the reader of the event, which is read once.
            let file = unsafe { OwnedFd::from_raw_fd(fd) };
            found.files.push(OpenedFile { file, pid });
        }
        let length = usize::try_from(length).unwrap_or(EVENT).max(EVENT);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "files of the test's own")]
    fn opened_files_are_reported() {
        let watch = match OpenWatch::new() {
            Ok(watch) => watch,
            Err(Errno::PERM | Errno::NOSYS) => {
                println!("skipped: needs CAP_SYS_ADMIN");
                return;
            }
            Err(errno) => panic!("{errno}"),
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let marked = std::fs::File::open(dir.path()).unwrap();
        watch.add_file_system(marked.as_fd()).unwrap();
        std::fs::read(&path).unwrap();
        let mut seen = Vec::new();
        loop {
            let found = watch.read().unwrap();
            if found.files.is_empty() {
                break;
            }
            for opened in found.files {
                let link = format!("/proc/self/fd/{}", opened.file.as_raw_fd());
                seen.push((std::fs::read_link(link).unwrap(), opened.pid));
            }
        }
        // Others use the file system too.
        assert!(
            seen.contains(&(path.canonicalize().unwrap(), std::process::id())),
            "{seen:?}"
        );
    }
}
