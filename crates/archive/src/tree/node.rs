//! A new entry's owner, mode, times and attributes, in as few calls as will do.

use super::attributes;
use super::options::Owner;
use crate::entry::{Entry, Timestamp};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// What a file that this process makes gets by itself, so that only the difference costs calls.
#[derive(Debug)]
pub(crate) struct Maker {
    uid: u32,
    gid: u32,
    /// Permission bits that do not survive creation.
    umask: u32,
    owner: Owner,
    /// Attributes that could not be set: the file system has none, or the process may not.
    pub(crate) attributes_skipped: u64,
}

/// A call that failed, for the error that names it.
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
        // Where a default ACL rules, modes come out differently: then each is set.
        let acl = attributes::get(root, b"system.posix_acl_default");
        let umask = if matches!(acl, Ok(None)) { umask() } else { None };
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            umask: umask.unwrap_or(0o777),
            owner,
            attributes_skipped: 0,
        }
    }

    /// The mode to create an entry with, and the mode to set afterwards, if the first will not do.
    pub(crate) fn modes(&self, entry: &Entry) -> (Mode, Option<Mode>) {
        let mode = entry.mode & 0o7777;
        // Attributes need write permission at the time they are set.
        match self.survives(mode) && entry.xattrs.is_empty() {
            true => (Mode::from_raw_mode(mode), None),
            false => (
                Mode::from_raw_mode(mode & 0o700 | 0o600),
                Some(Mode::from_raw_mode(mode)),
            ),
        }
    }

    /// Whether something created with that mode has it. Not setuid: that must not come before the owner.
    pub(crate) fn survives(&self, mode: u32) -> bool {
        mode & (0o7000 | self.umask) == 0
    }

    /// Whom the entry must be given, if that is not the one who made it in a directory of that group.
    pub(crate) fn owner_of(&self, entry: &Entry, group: Option<u32>) -> Option<(u32, u32)> {
        let made = (self.uid, group.unwrap_or(self.gid));
        self.wanted_owner(entry).filter(|wanted| *wanted != made)
    }

    /// Whom the entry must be given, if it is not left to whoever makes it.
    pub(crate) fn wanted_owner(&self, entry: &Entry) -> Option<(u32, u32)> {
        match self.owner {
            Owner::Archive => Some((entry.uid, entry.gid)),
            Owner::Fixed { uid, gid } => Some((uid, gid)),
            Owner::Process => None,
        }
    }

    /// Everything but content for a file that is open. The owner comes before mode and capabilities, which a change of
    /// owner takes away.
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

    /// The same without mode and times, for a directory that entries are yet to be made in.
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

    /// Owner and times of something that cannot be opened: a link.
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

    /// The same and the mode of something that must not be opened, or blocks: a device or a FIFO.
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

/// Changes the mode of what has that name, or of nothing if that is a link.
fn chmod_unopened(dir: BorrowedFd<'_>, name: &[u8], mode: Mode) -> Result<(), Errno> {
    // fchmodat follows links, and fchmod refuses such descriptors; their path in /proc leads to the very same inode.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let node: OwnedFd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", node.as_fd().as_raw_fd());
    rustix::fs::chmodat(rustix::fs::CWD, path, mode, AtFlags::empty())
}

/// chown(2) takes the highest number for "leave it".
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

/// The process's umask, which can be asked for only there: umask(2) changes it, for all threads.
fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    parse_umask(&status)
}

fn parse_umask(status: &str) -> Option<u32> {
    let value = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(value.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn umasks() {
        assert_eq!(parse_umask("Name:\tx\nUmask:\t0022\nState:\tR\n"), Some(0o22));
        assert_eq!(parse_umask("Name:\tx\nUmask:\tx\n"), None);
        assert_eq!(parse_umask(""), None);
    }
}
