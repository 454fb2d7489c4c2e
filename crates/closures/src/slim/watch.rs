//! The files that a container opens, as the kernel reports them for its root.
//!
//! The watch is on the file system of the container's root, from outside: nothing is put into the container, and a file of
//! another file system is never reported. Only names come out of it, and only the image's own files are looked for under
//! them: whatever a container does to its paths, no file of the machine gets into an image.

use super::process::{inner_pid, name_of};
use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::Instant;
use tote_needs::Use;
use tote_runtime::Aside;
use tote_sys::{Errno, OpenWatch};

/// Most bytes of memory for the noted files of a run. A program chooses their names, and no cgroup of its container counts this process.
const MOST_BYTES: usize = 64 << 20;
/// Bytes that a noted file takes beside its path.
const NOTE: usize = 160;

/// Watch of a container's root.
#[derive(Debug)]
pub(super) struct RootWatch {
    watch: OpenWatch,
    begin: Instant,
    run: u32,
    /// Own mount namespace: processes in it are not the container's.
    own: Option<PathBuf>,
    uses: BTreeMap<Vec<u8>, Use>,
    /// Bytes that `uses` takes.
    bytes: usize,
    failure: Option<Errno>,
    overflowed: bool,
}

impl RootWatch {
    /// Makes the watch of a run, which has this number.
    ///
    /// # Errors
    /// `EPERM` for a user other than root.
    pub(super) fn new(run: u32) -> Result<Self, Errno> {
        Ok(Self {
            watch: OpenWatch::new()?,
            begin: Instant::now(),
            run,
            own: namespace("self"),
            uses: BTreeMap::new(),
            bytes: 0,
            failure: None,
            overflowed: false,
        })
    }

    /// Returns the first use of each path; a leading slash is left out.
    ///
    /// # Errors
    /// The kernel's, while the container ran.
    pub(super) fn uses(mut self) -> Result<BTreeMap<Vec<u8>, Use>, super::SlimError> {
        self.read();
        if let Some(errno) = self.failure {
            return Err(super::SlimError::Watch(errno));
        }
        if self.overflowed {
            return Err(super::SlimError::Overflow);
        }
        Ok(self.uses)
    }

    fn read(&mut self) {
        loop {
            match self.watch.read() {
                Ok(found) => {
                    self.overflowed |= found.overflowed;
                    if found.files.is_empty() {
                        return;
                    }
                    for opened in found.files {
                        self.note(&opened.file, opened.pid);
                    }
                }
                Err(errno) => {
                    self.failure = Some(errno);
                    return;
                }
            }
        }
    }

    fn note(&mut self, file: &OwnedFd, pid: u32) {
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        // absence: the kernel forms the link of an open descriptor without opening anything
        let Ok(path) = rustix::fs::readlink(link, Vec::new()) else {
            return;
        };
        let path = path.into_bytes();
        let Some(path) = path.strip_prefix(b"/") else {
            return;
        };
        if self.uses.contains_key(path) {
            return;
        }
        if pid == std::process::id() || self.own.is_some() && namespace(&pid.to_string()) == self.own {
            return;
        }
        let bytes = self.bytes + path.len() + NOTE;
        if bytes > MOST_BYTES {
            self.overflowed = true;
            return;
        }
        self.bytes = bytes;
        let how = Use {
            pid: inner_pid(pid),
            program: name_of(pid, path),
            at: self.begin.elapsed(),
            run: self.run,
        };
        self.uses.insert(path.to_vec(), how);
    }
}

impl Aside for RootWatch {
    fn root(&mut self, root: BorrowedFd<'_>) {
        self.begin = Instant::now();
        self.failure = self.watch.add_file_system(root).err();
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        match self.failure {
            None => vec![self.watch.fd()],
            Some(_) => Vec::new(),
        }
    }

    fn advance(&mut self) -> bool {
        self.read();
        false
    }
}

/// The mount namespace of a process; `None` if it has ended.
fn namespace(pid: &str) -> Option<PathBuf> {
    // absence: the process has ended
    let link = rustix::fs::readlink(format!("/proc/{pid}/ns/mnt"), Vec::new()).ok()?;
    Some(std::ffi::OsString::from_vec(link.into_bytes()).into())
}
