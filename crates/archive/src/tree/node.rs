//! Owner, mode, times and attributes of a new entry, set in as few calls as possible.

use super::attributes;
use super::mask::CreationMask;
use super::options::Owner;
use crate::entry::{Entry, Timestamp};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Metadata that files of this process get when they are created, so that only differences cost calls.
#[derive(Debug)]
pub(crate) struct Maker {
    uid: u32,
    gid: u32,
    pub(crate) mask: CreationMask,
    owner: Owner,
    /// Number of attributes that could not be set: the file system does not support them, or the process may not.
    pub(crate) attributes_skipped: u64,
}

/// The call that failed, so that an error can name it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("owner")]
    Owner(Errno),
    #[error("mode")]
    Mode(Errno),
    #[error("mtime")]
    Times(Errno),
    #[error("attribute")]
    Attribute(String, Errno),
}

impl Maker {
    pub(crate) fn new(root: BorrowedFd<'_>, owner: Owner) -> Self {
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            mask: CreationMask::below(root),
            owner,
            attributes_skipped: 0,
        }
    }

    /// Returns the mode that an entry gets, which may lack rights that the archive has.
    pub(crate) fn mode(&self, entry: &Entry) -> u32 {
        let rights = if self.owner.keeps_rights() { 0o6000 } else { 0 };
        entry.mode & (0o1777 | rights)
    }

    /// Returns the mode to create an entry with, and the mode to set afterwards if they differ.
    ///
    /// It is not for directories, which are filled before they get their mode.
    pub(crate) fn modes(&self, entry: &Entry) -> (Mode, Option<Mode>) {
        let mode = self.mode(entry);
        // Setting attributes needs write permission.
        match self.mask.leaves(mode) && entry.xattrs.is_empty() {
            true => (Mode::from_raw_mode(mode), None),
            false => (
                Mode::from_raw_mode(mode & 0o700 | 0o600),
                Some(Mode::from_raw_mode(mode)),
            ),
        }
    }

    /// Returns the owner that must be set, if the new entry in a directory of that group does not have it already.
    pub(crate) fn owner_of(&self, entry: &Entry, group: Option<u32>) -> Option<(u32, u32)> {
        let made = (self.uid, group.unwrap_or(self.gid));
        self.wanted_owner(entry).filter(|wanted| *wanted != made)
    }

    /// Returns the owner that the entry must have; `None` if it is left to the process.
    pub(crate) fn wanted_owner(&self, entry: &Entry) -> Option<(u32, u32)> {
        match self.owner {
            Owner::Archive => Some((entry.uid, entry.gid)),
            Owner::Fixed { uid, gid } => Some((uid, gid)),
            Owner::Process | Owner::Caller => None,
        }
    }

    /// Sets all metadata of an open file. The owner is set before mode and capabilities, which a change of owner
    /// clears.
    pub(crate) fn finish(
        &mut self,
        fd: BorrowedFd<'_>,
        entry: &Entry,
        owner: Option<(u32, u32)>,
        mode: Option<Mode>,
    ) -> Result<(), Failed> {
        self.set_attributes(fd, entry, |name| name.starts_with(b"user."))?;
        if let Some(owner) = owner {
            self.own(fd, owner)?;
        }
        if let Some(mode) = mode {
            rustix::fs::fchmod(fd, mode).map_err(Failed::Mode)?;
        }
        self.set_attributes(fd, entry, |name| !name.starts_with(b"user."))?;
        rustix::fs::futimens(fd, &times(entry.mtime)).map_err(Failed::Times)
    }

    fn own(&self, fd: BorrowedFd<'_>, owner: (u32, u32)) -> Result<(), Failed> {
        let (uid, gid) = ids(owner)?;
        rustix::fs::fchown(fd, Some(uid), Some(gid)).map_err(Failed::Owner)
    }

    /// Sets owner and attributes, but not mode and times, of a directory in which entries are still to be created.
    pub(crate) fn own_and_attributes(
        &mut self,
        fd: BorrowedFd<'_>,
        entry: &Entry,
        owner: Option<(u32, u32)>,
    ) -> Result<(), Failed> {
        if let Some(owner) = owner {
            self.own(fd, owner)?;
        }
        self.set_attributes(fd, entry, |_| true)
    }

    fn set_attributes(
        &mut self,
        fd: BorrowedFd<'_>,
        entry: &Entry,
        now: impl Fn(&[u8]) -> bool,
    ) -> Result<(), Failed> {
        for (name, value) in entry
            .xattrs
            .iter()
            .filter(|(name, _)| attributes::travels(name) && now(name))
            .filter(|(name, _)| self.owner.keeps_rights() || !attributes::gives_rights(name))
        {
            match attributes::set(fd, name, value) {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP) => self.attributes_skipped += 1,
                Err(Errno::PERM | Errno::ACCESS) if self.uid != 0 => self.attributes_skipped += 1,
                Err(errno) => return Err(Failed::Attribute(crate::path::shown(name), errno)),
            }
        }
        Ok(())
    }

    /// Sets owner and times of a symbolic link, which cannot be opened.
    pub(crate) fn finish_link(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        entry: &Entry,
        owner: Option<(u32, u32)>,
    ) -> Result<(), Failed> {
        if let Some(owner) = owner {
            let (uid, gid) = ids(owner)?;
            rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(Failed::Owner)?;
        }
        rustix::fs::utimensat(dir, name, &times(entry.mtime), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(Failed::Times)
    }

    /// Sets owner, mode and times of an entry that must not be opened or would block: a device or a FIFO.
    pub(crate) fn finish_special(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        entry: &Entry,
        owner: Option<(u32, u32)>,
        mode: Option<Mode>,
    ) -> Result<(), Failed> {
        self.finish_link(dir, name, entry, owner)?;
        if let Some(mode) = mode {
            chmod_unopened(dir, name, mode).map_err(Failed::Mode)?;
        }
        Ok(())
    }
}

/// Changes the mode of an entry without opening it. Symbolic links are never followed.
fn chmod_unopened(dir: BorrowedFd<'_>, name: &[u8], mode: Mode) -> Result<(), Errno> {
    // fchmodat follows links, and fchmod refuses O_PATH descriptors; the path in /proc leads to exactly this inode.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let node: OwnedFd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", node.as_fd().as_raw_fd());
    rustix::fs::chmodat(rustix::fs::CWD, path, mode, AtFlags::empty())
}

/// Converts ids for chown(2), which takes the highest number for "leave it".
fn ids((uid, gid): (u32, u32)) -> Result<(Uid, Gid), Failed> {
    if uid == u32::MAX || gid == u32::MAX {
        return Err(Failed::Owner(Errno::INVAL));
    }
    Ok((Uid::from_raw(uid), Gid::from_raw(gid)))
}

pub(crate) fn times(mtime: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: mtime.secs,
            tv_nsec: mtime.nanos.into(),
        },
    }
}
