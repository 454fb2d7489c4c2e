//! Standard descriptors of the container.
//!
//! The container gets the caller's pipes unchanged. It never gets any other kind of descriptor: with the caller's
//! terminal it could read input typed for other programs; with a named file, device or FIFO it could read the
//! contents, truncate them and change the mode, whatever the descriptor was opened for; and a socket belongs to the
//! network namespace that it was made in, where it can be connected anew. So a pipe stands between.

use crate::DetachKeys;
use crate::allowance::Allowance;
use crate::relay::{Copy, End};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use tote_sys::Op;

/// Requested kind of standard descriptors, known before they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StdioMode {
    /// True if standard input is passed on (`--interactive`).
    pub interactive: bool,
    /// True if a pseudo-terminal takes the place of all three (`--tty`).
    pub terminal: bool,
    /// True if files and devices are passed unchanged, as callers of an OCI runtime expect.
    pub passes_files: bool,
    /// Which of the three are the caller's (`--attach`); for the others the container opens its own `/dev/null`.
    pub attached: [bool; 3],
    /// Upper bound of the bytes that the container may write to its output; outputs are not passed unchanged then.
    pub output_limit: Option<u64>,
}

/// Caller's ends of the pipes and terminals between it and the container.
#[derive(Debug, Default)]
pub struct Stdio {
    pub(crate) copies: Vec<Copy>,
    allowance: Option<Allowance>,
}

/// Standard stream of the caller that failed, so that the container's output or input is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {} the container: {errno}", match .number {
    0 => "read standard input for",
    1 => "write the standard output of",
    _ => "write the standard error of",
})]
pub struct BrokenStream {
    /// Number of the descriptor.
    pub number: i32,
    /// Error of read(2) or write(2).
    pub errno: Errno,
}

/// Treatment of a descriptor of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// The container gets it unchanged.
    Pass,
    /// The container opens its own `/dev/null`.
    Null,
    /// A pipe is put before it.
    Relay,
}

impl StdioMode {
    /// Chooses the treatment with one fstat(2), and a second call if the descriptor is or may be a terminal.
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

/// True if a FIFO comes from pipe(2): a named one has an inode of the host, whose mode and owner root of a container
/// could change.
fn is_pipe(end: &End) -> Result<bool, Errno> {
    /// `PIPEFS_MAGIC` of linux/magic.h.
    const PIPEFS: rustix::fs::FsWord = 0x5049_5045;
    Ok(rustix::fs::fstatfs(end.fd())?.f_type == PIPEFS)
}

impl Stdio {
    /// Decides for each descriptor; returns the operations for the new process, which belong before its last ones.
    ///
    /// # Errors
    /// fstat(2)'s and pipe2(2)'s.
    pub fn new(mode: StdioMode) -> Result<(Self, Vec<Op>), Errno> {
        let mut ops = Vec::new();
        let mut stdio = Self {
            allowance: mode.output_limit.map(Allowance::new),
            ..Self::default()
        };
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
            let (route, stat) = mode.route(&end)?;
            // What is to be counted passes through this process.
            let route = if mode.output_limit.is_some() {
                Route::Relay
            } else {
                route
            };
            match (route, stat) {
                (Route::Pass, _) => {}
                (Route::Null, _) => ops.push(Op::NoOutput { number }),
                (Route::Relay, stat) => {
                    // Lines of both streams keep the order in which they were written only if the streams share a
                    // pipe.
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

    /// Puts a pipe before an output of the caller; returns the container's end of it.
    fn relay_output(&mut self, to: End) -> Result<OwnedFd, Errno> {
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let copy = Copy::new(End::Owned(ours), to).within(self.allowance.clone());
        self.copies.push(copy);
        Ok(theirs)
    }

    /// Puts the master of the container's console between the container and the caller.
    pub(crate) fn console(
        &mut self,
        master: &OwnedFd,
        interactive: bool,
        keys: Option<DetachKeys>,
    ) -> Result<(), Errno> {
        rustix::io::ioctl_fionbio(master, true)?;
        let output = End::Owned(rustix::io::fcntl_dupfd_cloexec(master, 3)?);
        let copy = Copy::new(output, End::Borrowed(1)).within(self.allowance.clone());
        self.copies.push(copy);
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

    /// True if the container has written more than its limit.
    pub(crate) fn exceeds_limit(&self) -> bool {
        self.allowance.as_ref().is_some_and(Allowance::is_exceeded)
    }

    /// Returns the bytes that the container may still write, if they are limited.
    pub(crate) fn output_left(&self) -> Option<u64> {
        self.allowance.as_ref().map(Allowance::left)
    }

    /// Returns the first of the caller's streams that failed.
    pub(crate) fn broken(&self) -> Option<BrokenStream> {
        self.copies.iter().find_map(Copy::broken)
    }
}

/// True if both outputs are one file and are written at the same position: `> log 2> log` without `>>` has two
/// positions that overwrite each other, and stays so.
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
