//! How the container's standard descriptors are made.
//!
//! The container gets the caller's pipes as they are. Anything else it never gets: with a descriptor of the caller's
//! terminal it could read what is typed there for others, with one of a file, a device or a FIFO that has a name it could
//! read what is in it, cut it short and change its mode, whatever the descriptor was opened for, and a socket belongs to
//! the network namespace that it was made in, where it can be connected anew. So a pipe stands between.

use crate::DetachKeys;
use crate::relay::{Copy, End};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use tote_sys::Op;

/// What is known of the standard descriptors before they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StdioMode {
    /// Whether standard input is passed on (`--interactive`).
    pub interactive: bool,
    /// Whether a pseudo-terminal takes the place of all three (`--tty`).
    pub terminal: bool,
    /// Whether files and devices pass as they are, as callers of an OCI runtime expect it.
    pub passes_files: bool,
    /// Which of the three are the caller's (`--attach`); for the others the container opens its own `/dev/null`.
    pub attached: [bool; 3],
}

/// The caller's ends of what stands between it and the container.
#[derive(Debug, Default)]
pub struct Stdio {
    pub(crate) copies: Vec<Copy>,
}

/// A standard stream of the caller's that failed, so that the container's output or input is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {} the container: {errno}", match .number {
    0 => "read standard input for",
    1 => "write the standard output of",
    _ => "write the standard error of",
})]
pub struct BrokenStream {
    /// The descriptor.
    pub number: i32,
    /// read(2)'s or write(2)'s error.
    pub errno: Errno,
}

/// What becomes of one of the caller's descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// It is the container's as it is.
    Pass,
    /// The container opens its own `/dev/null`.
    Null,
    /// A pipe stands before it.
    Relay,
}

impl StdioMode {
    /// One fstat(2); where the descriptor is a terminal or may be one, a second call.
    fn route(self, end: &End) -> Result<(Route, Stat), Errno> {
        let stat = rustix::fs::fstat(end.fd())?;
        let route = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo if self.passes_files || is_pipe(end)? => Route::Pass,
            FileType::CharacterDevice if self.passes_files => {
                if rustix::termios::isatty(end.fd()) {
                    Route::Relay
                } else {
                    Route::Pass
                }
            }
            _ if self.passes_files => Route::Pass,
            FileType::CharacterDevice if stat.st_rdev == rustix::fs::makedev(1, 3) => Route::Null,
            _ => Route::Relay,
        };
        Ok((route, stat))
    }
}

/// Whether a FIFO is pipe(2)'s: one that has a name has an inode of the host's, whose mode and owner root of a container
/// could change.
fn is_pipe(end: &End) -> Result<bool, Errno> {
    /// `PIPEFS_MAGIC` of linux/magic.h.
    const PIPEFS: rustix::fs::FsWord = 0x5049_5045;
    Ok(rustix::fs::fstatfs(end.fd())?.f_type == PIPEFS)
}

impl Stdio {
    /// Decides for each descriptor; the steps that the new process needs for it are put before the last ones.
    ///
    /// # Errors
    /// fstat(2)'s and pipe2(2)'s.
    pub fn new(mode: StdioMode) -> Result<(Self, Vec<Op>), Errno> {
        let (mut stdio, mut ops) = (Self::default(), Vec::new());
        if mode.terminal {
            return Ok((stdio, ops));
        }
        let [attaches_input, attaches_output, attaches_errors] = mode.attached;
        if mode.interactive && !attaches_input {
            ops.push(Op::NoStdin);
        } else if mode.interactive {
            let end = End::Borrowed(0);
            match mode.route(&end)?.0 {
                Route::Pass => {}
                Route::Null => ops.push(Op::NoStdin),
                Route::Relay => {
                    let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                    rustix::io::ioctl_fionbio(&ours, true)?;
                    stdio.copies.push(Copy::new(end, End::Owned(ours)));
                    ops.push(Op::Stdio {
                        fd: theirs,
                        number: 0,
                    });
                }
            }
        }
        let mut before: Option<Stat> = None;
        for (number, is_attached) in [(1, attaches_output), (2, attaches_errors)] {
            if !is_attached {
                ops.push(Op::NoOutput { number });
                continue;
            }
            let end = End::Borrowed(number);
            match mode.route(&end)? {
                (Route::Pass, _) => {}
                (Route::Null, _) => ops.push(Op::NoOutput { number }),
                (Route::Relay, stat) => {
                    // Lines of both streams are in the order in which they were written only if they share a pipe.
                    let fd = match (&before, ops.last()) {
                        (Some(other), Some(Op::Stdio { fd, .. })) if are_one(other, &stat) => {
                            rustix::io::fcntl_dupfd_cloexec(fd, 3)?
                        }
                        _ => stdio.relay_output(end)?,
                    };
                    before = Some(stat);
                    ops.push(Op::Stdio { fd, number });
                }
            }
        }
        Ok((stdio, ops))
    }

    /// Puts a pipe before one of the caller's outputs, and gives the container's end of it.
    fn relay_output(&mut self, to: End) -> Result<OwnedFd, Errno> {
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        self.copies.push(Copy::new(End::Owned(ours), to));
        Ok(theirs)
    }

    /// Puts the master of the container's console between it and the caller.
    pub(crate) fn console(
        &mut self,
        master: &OwnedFd,
        interactive: bool,
        keys: Option<DetachKeys>,
    ) -> Result<(), Errno> {
        rustix::io::ioctl_fionbio(master, true)?;
        self.copies.push(Copy::new(
            End::Owned(rustix::io::fcntl_dupfd_cloexec(master, 3)?),
            End::Borrowed(1),
        ));
        if interactive {
            let master = rustix::io::fcntl_dupfd_cloexec(master, 3)?;
            self.copies
                .push(Copy::new(End::Borrowed(0), End::Owned(master)).with_keys(keys));
        }
        Ok(())
    }

    /// Copies what the container wrote before its end.
    pub(crate) fn drain(&mut self) {
        self.copies.iter_mut().for_each(Copy::drain);
    }

    /// The first of the caller's streams that failed.
    pub(crate) fn broken(&self) -> Option<BrokenStream> {
        self.copies.iter().find_map(Copy::broken)
    }
}

/// Whether both outputs are one file, and are written at the same place of it: `> log 2> log` without `>>` has two places
/// that overwrite each other, and stays as it is.
fn are_one(out: &Stat, err: &Stat) -> bool {
    if (out.st_dev, out.st_ino) != (err.st_dev, err.st_ino) {
        return false;
    }
    let (out, err) = (End::Borrowed(1), End::Borrowed(2));
    let appends = |end: &End| {
        let flags = rustix::fs::fcntl_getfl(end.fd());
        flags.is_ok_and(|flags| flags.contains(OFlags::APPEND))
    };
    let place = |end: &End| rustix::fs::seek(end.fd(), rustix::fs::SeekFrom::Current(0));
    appends(&out) == appends(&err) && place(&out) == place(&err)
}
