//! Stamp: facts about a container on a disk without room for a file.
//!
//! utimensat(2) needs no room on any file system: times are in the inode, and btrfs, which writes nothing in place
//! and refuses even rename(2) on a full disk, has a reserve for them. So every start of a container makes an empty
//! file in its directory, and the times of that file hold the facts that would be lost on a full disk: the
//! container's end, and whether a user has stopped it.

use super::record_lock::Change;
use crate::{EngineError, Home};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use tote_bundle::ContainerId;
use tote_sys::{Errno, best_effort, present};

/// Name of the file in the container's directory. The file is empty.
const FILE: &str = "state.end";

const NANOS: u64 = 1_000_000_000;

/// Facts in the times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// End of the container, if it could not be written into the state.
    pub end: Option<StampedEnd>,
    /// True if a user has stopped the container.
    pub stopped: bool,
    /// True if the container's monitor was asked to end.
    pub(super) orderly: bool,
    /// True if the container was paused, and false if it goes on, where that could not be written into the state.
    pub paused: Option<bool>,
}

/// End of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampedEnd {
    /// Time of the end: nanoseconds since 1970, with the resolution of the file system.
    pub at: u64,
    /// Exit code of the program.
    pub exit_code: u8,
    /// True if the kernel killed it for want of memory.
    pub oom_killed: bool,
}

/// Bits of the access time, in seconds; below them is the exit code. A time with any other bit is an ordinary time,
/// more than a night after 1970.
const OOM: u16 = 1 << 8;
const ENDED: u16 = 1 << 9;
const STOPPED: u16 = 1 << 10;
const ORDERLY: u16 = 1 << 11;
const PAUSED: u16 = 1 << 12;
const RESUMED: u16 = 1 << 13;
const ALL: u16 = RESUMED | PAUSED | ORDERLY | STOPPED | ENDED | OOM | 0xff;

impl Stamp {
    /// Reads the stamp of a container; an empty one if it is missing.
    pub fn of(home: &Home, id: &ContainerId) -> Self {
        Self::read(&home.container(id))
    }

    /// Reads the stamp in a container's directory.
    pub fn read(dir: &Path) -> Self {
        let file = match present(dir.join(FILE).symlink_metadata()) {
            Ok(Some(file)) => file,
            Ok(None) => return Self::default(),
            // A container that may have been stopped is not started.
            Err(_) => {
                return Self {
                    stopped: true,
                    ..Self::default()
                };
            }
        };
        let Some(bits) = u16::try_from(file.atime()).ok().filter(|bits| bits & !ALL == 0) else {
            return Self::default();
        };
        let part = |number: i64| u64::try_from(number).unwrap_or_default();
        let end = StampedEnd {
            at: part(file.mtime())
                .saturating_mul(NANOS)
                .saturating_add(part(file.mtime_nsec())),
            exit_code: bits.to_le_bytes()[0],
            oom_killed: bits & OOM != 0,
        };
        Self {
            end: Some(end).filter(|_| bits & ENDED != 0),
            stopped: bits & STOPPED != 0,
            orderly: bits & ORDERLY != 0,
            paused: match bits & (PAUSED | RESUMED) {
                PAUSED => Some(true),
                RESUMED => Some(false),
                _ => None,
            },
        }
    }

    /// Makes the file for the stamp if it is missing. The end of an earlier run is cleared.
    pub fn prepare(home: &Home, id: &ContainerId) {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        if options.open(home.container(id).join(FILE)).is_err() {
            Self::forget_end(home, id);
        }
    }

    /// Clears the end and the pause of the container, which its state has by now, or which are over with a new start.
    pub fn forget_end(home: &Home, id: &ContainerId) {
        let stamp = Self::of(home, id);
        if stamp.end.is_some() || stamp.paused.is_some() {
            best_effort(Self::change(home, id, |stamp| {
                (stamp.end, stamp.paused) = (None, None);
            }));
        }
    }

    /// Changes the stamp of a container, under the lock for changes.
    ///
    /// # Errors
    /// [`EngineError::State`], for example if the container has never run.
    pub fn change(home: &Home, id: &ContainerId, change: impl FnOnce(&mut Self)) -> Result<(), EngineError> {
        let _change = Change::begin(home, id)?;
        let before = Self::of(home, id);
        let mut stamp = before;
        change(&mut stamp);
        if stamp == before {
            return Ok(());
        }
        stamp.write(&home.container(id)).map_err(EngineError::file(
            "set the times of",
            home.container(id).join(FILE),
        ))
    }

    fn write(self, dir: &Path) -> Result<(), Errno> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let mut times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        let mut bits = 0;
        for (bit, is_set) in [
            (STOPPED, self.stopped),
            (ORDERLY, self.orderly),
            (PAUSED, self.paused == Some(true)),
            (RESUMED, self.paused == Some(false)),
        ] {
            bits |= if is_set { bit } else { 0 };
        }
        if let Some(end) = self.end {
            bits |= ENDED | u16::from(end.exit_code) | if end.oom_killed { OOM } else { 0 };
            times.last_modification = Timespec {
                tv_sec: i64::try_from(end.at / NANOS).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(end.at % NANOS).unwrap_or_default(),
            };
        }
        if bits != 0 {
            times.last_access = Timespec {
                tv_sec: bits.into(),
                tv_nsec: 0,
            };
        }
        rustix::fs::utimensat(CWD, dir.join(FILE), &times, AtFlags::SYMLINK_NOFOLLOW)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::container;
    use super::*;

    #[test]
    fn times_say_it_all() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = container(&home, 0x21, "web").id;
        let stopped = Stamp {
            stopped: true,
            ..Stamp::default()
        };
        assert!(
            Stamp::change(&home, &id, |stamp| *stamp = stopped).is_err(),
            "there is no file"
        );
        Stamp::prepare(&home, &id);
        assert_eq!(Stamp::of(&home, &id), Stamp::default(), "a new file says nothing");
        let end = |at, exit_code, oom_killed| {
            Some(StampedEnd {
                at,
                exit_code,
                oom_killed,
            })
        };
        for stamp in [
            stopped,
            Stamp {
                end: end(1_795_371_798_123_456_789, 255, true),
                stopped: true,
                orderly: true,
                paused: Some(true),
            },
            Stamp {
                paused: Some(false),
                ..Stamp::default()
            },
            Stamp {
                end: end(7, 0, false),
                ..Stamp::default()
            },
            Stamp::default(),
        ] {
            Stamp::change(&home, &id, |written| *written = stamp).unwrap();
            assert_eq!(Stamp::of(&home, &id), stamp);
        }
    }
}
