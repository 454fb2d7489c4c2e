//! Placement of chosen files in a tree.

use super::dirs;
use super::select::{Chosen, Item};
use super::{BuildFault, inside};
use crate::EngineError;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use tote_archive::{Decoder, Expansion, ExtractOptions, Limits, Overwrite, Owner, Reader, extract};
use tote_build::{CopyStep, FileMode};

/// Owner of new files: user and group.
pub(crate) type Ids = (u32, u32);

/// Copy in progress.
pub(crate) struct Copying<'a> {
    pub root: &'a OwnedFd,
    pub step: &'a CopyStep,
    /// Owner of the copied files; `None` keeps their owner.
    pub owner: Option<Ids>,
}

impl Copying<'_> {
    /// Copies all sources.
    pub(crate) fn run(&self, chosen: &[Chosen]) -> Result<(), EngineError> {
        // If patterns match nothing, the destination is not made either.
        if chosen.is_empty() && self.step.inline.is_empty() {
            return Ok(());
        }
        let path = self.step.destination.as_bytes();
        let is_there = || {
            let dir = inside::open(self.root, path, OFlags::PATH | OFlags::DIRECTORY);
            inside::found(dir).map_err(|errno| failed(path, errno))
        };
        let is_dir =
            path.ends_with(b"/") || chosen.iter().any(|source| source.is_dir) || is_there()?.is_some();
        let owner = self.owner.unwrap_or((0, 0));
        let mode = FileMode::of_made_directories(self.step.mode.as_ref());
        // Destination directory, and the new name if there is one.
        let (dir, name) = if is_dir {
            (make_dirs(self.root, path, owner, mode)?, None)
        } else {
            let (parent, name) = inside::split(path);
            (make_dirs(self.root, parent, owner, mode)?, Some(name))
        };
        for source in chosen {
            self.source(source, &dir, name)?;
        }
        for (own, content) in &self.step.inline {
            let name = name.unwrap_or(own.as_bytes());
            self.inline(&dir, name, content)?;
        }
        Ok(())
    }

    fn source(&self, source: &Chosen, dir: &OwnedFd, name: Option<&[u8]>) -> Result<(), EngineError> {
        let mut directories = Vec::new();
        for item in &source.items {
            if !source.is_dir
                && source.unpack
                && item.kind == FileType::RegularFile
                && self.unpack(source, item, name, dir)?
            {
                continue;
            }
            let path = match name {
                Some(name) if !source.is_dir => name,
                _ => &item.path,
            };
            if path.is_empty() {
                continue;
            }
            let (parent, last) = inside::split(path);
            let parent = inside::open(dir, parent, OFlags::RDONLY | OFlags::DIRECTORY);
            let parent = parent.map_err(|errno| failed(path, errno))?;
            Self::linked(item, dir, &parent, last)
                .and_then(|linked| match linked {
                    true => Ok(()),
                    false => self.item(source, item, &parent, last),
                })
                .map_err(|error| BuildFault::Place {
                    path: String::from_utf8_lossy(path).into_owned(),
                    source: error,
                })?;
            if item.kind == FileType::Directory {
                directories.push((parent, last.to_vec(), item.mtime));
            }
        }
        // Times of directories are set last, because each new entry changes them.
        for (parent, name, mtime) in directories.into_iter().rev() {
            set_times(&parent, &name, mtime).map_err(|errno| failed(&name, errno))?;
        }
        Ok(())
    }

    /// Makes a further name of a file that this source has already placed. Returns true if that is done.
    fn linked(item: &Item, root: &OwnedFd, dir: &OwnedFd, name: &[u8]) -> Result<bool, std::io::Error> {
        let Some(first) = &item.first else {
            return Ok(false);
        };
        let (parent, first) = inside::split(first);
        let parent = inside::open(root, parent, OFlags::RDONLY | OFlags::DIRECTORY)?;
        make_room(dir, name)?;
        match rustix::fs::linkat(&parent, first, dir, name, AtFlags::empty()) {
            // A file system limits the names of a file.
            Err(Errno::MLINK) => Ok(false),
            linked => Ok(linked.map(|()| true)?),
        }
    }

    fn item(&self, source: &Chosen, item: &Item, dir: &OwnedFd, name: &[u8]) -> Result<(), std::io::Error> {
        let mode = self.mode(item.mode, item.kind == FileType::Directory);
        let owner = self.owner.unwrap_or(item.owner);
        match item.kind {
            FileType::Directory => {
                match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
                    Err(Errno::EXIST) => {}
                    made => made?,
                }
                let made = inside::open_straight(dir, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
                return Ok(own(&made, owner, mode)?);
            }
            FileType::RegularFile => {
                let mut input = source.open(item).map_err(std::io::Error::other)?;
                let mut output = create(dir, name)?;
                std::io::copy(&mut input, &mut output)?;
                own(&output, owner, mode)?;
                if !item.capability.is_empty() {
                    let flags = XattrFlags::empty();
                    rustix::fs::fsetxattr(&output, "security.capability", &item.capability, flags)?;
                }
                rustix::fs::futimens(&output, &times(item.mtime))?;
                return Ok(());
            }
            FileType::Symlink => {
                make_room(dir, name)?;
                rustix::fs::symlinkat(&*item.target, dir, name)?;
            }
            kind => {
                make_room(dir, name)?;
                rustix::fs::mknodat(dir, name, kind, mode, item.device)?;
            }
        }
        chown(dir, name, owner)?;
        set_times(dir, name, item.mtime)?;
        Ok(())
    }

    /// Returns the permissions for a source with `mode`.
    fn mode(&self, mode: u32, is_dir: bool) -> Mode {
        let wanted = self.step.mode.as_ref();
        Mode::from_raw_mode(wanted.map_or(mode, |wanted| wanted.apply(mode, is_dir)))
    }

    fn inline(&self, dir: &OwnedFd, name: &[u8], content: &str) -> Result<(), EngineError> {
        let written = create(dir, name).and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            let mode = self.mode(0o644, false);
            Ok(own(&file, self.owner.unwrap_or((0, 0)), mode)?)
        });
        Ok(written.map_err(|source| BuildFault::Place {
            path: String::from_utf8_lossy(name).into_owned(),
            source,
        })?)
    }

    /// Extracts a source if it is an archive. Returns true if it was one.
    fn unpack(
        &self,
        source: &Chosen,
        item: &Item,
        name: Option<&[u8]>,
        dir: &OwnedFd,
    ) -> Result<bool, EngineError> {
        let is_archive = {
            // A file that cannot be decompressed is copied, as docker does.
            let decoder = Decoder::new(source.open(item)?, Expansion::default());
            decoder.is_ok_and(is_tar)
        };
        if !is_archive {
            return Ok(false);
        }
        let failed_to_read = |source| BuildFault::Source {
            path: String::from_utf8_lossy(&item.path).into_owned(),
            source,
        };
        let decoder = Decoder::new(source.open(item)?, Expansion::default()).map_err(failed_to_read)?;
        let mut reader = Reader::new(decoder, Limits::default()).without_whiteouts();
        let options = ExtractOptions {
            owner: match (self.step.chown.is_some(), self.owner) {
                (true, Some((uid, gid))) => Owner::Fixed { uid, gid },
                _ => Owner::Archive,
            },
            overwrite: Overwrite::SameKind,
            keep_root: true,
            ..ExtractOptions::default()
        };
        // An archive always goes into a directory.
        let below = name
            .map(|name| make_dirs(dir, name, self.owner.unwrap_or((0, 0)), 0o755))
            .transpose()?;
        let target = below.as_ref().unwrap_or(dir);
        extract(&mut reader, target.as_fd(), &options).map_err(BuildFault::Extract)?;
        Ok(true)
    }
}

fn is_tar(mut input: impl std::io::Read) -> bool {
    let mut header = [0; 512];
    if input.read_exact(&mut header).is_err() {
        return false;
    }
    // The header's own checksum counts its field as blanks.
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    let field: u64 = header[148..156].iter().map(|byte| u64::from(*byte)).sum();
    let text: String = header[148..156].iter().map(|byte| char::from(*byte)).collect();
    let said = u64::from_str_radix(text.trim_matches([' ', '\0']), 8);
    said == Ok(sum - field + 8 * 32)
}

/// Calls [`dirs::make_dirs`], with an error that names the path.
pub(crate) fn make_dirs(root: &OwnedFd, path: &[u8], owner: Ids, mode: u32) -> Result<OwnedFd, EngineError> {
    dirs::make_dirs(root, path, owner, mode).map_err(|errno| failed(path, errno))
}

fn failed(path: &[u8], errno: Errno) -> EngineError {
    BuildFault::Place {
        path: String::from_utf8_lossy(path).into_owned(),
        source: errno.into(),
    }
    .into()
}

/// Creates a file; an existing entry of that name is replaced.
fn create(dir: &OwnedFd, name: &[u8]) -> Result<File, std::io::Error> {
    make_room(dir, name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(
        dir,
        name,
        flags,
        Mode::RUSR | Mode::WUSR,
    )?))
}

fn make_room(dir: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// Refuses the highest number, which chown(2) takes for "leave it".
fn ids((uid, gid): Ids) -> Result<(Option<Uid>, Option<Gid>), Errno> {
    if uid == u32::MAX || gid == u32::MAX {
        return Err(Errno::INVAL);
    }
    Ok((Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))))
}

/// Sets the owner first, because changing it clears setuid bits.
pub(crate) fn own(file: impl AsFd, owner: Ids, mode: Mode) -> Result<(), Errno> {
    let (uid, gid) = ids(owner)?;
    rustix::fs::fchown(&file, uid, gid)?;
    rustix::fs::fchmod(&file, mode)
}

fn chown(dir: &OwnedFd, name: &[u8], owner: Ids) -> Result<(), Errno> {
    let (uid, gid) = ids(owner)?;
    rustix::fs::chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
}

fn times((secs, nanos): (i64, u32)) -> Timestamps {
    let time = Timespec {
        tv_sec: secs,
        tv_nsec: nanos.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn set_times(dir: &OwnedFd, name: &[u8], mtime: (i64, u32)) -> Result<(), Errno> {
    rustix::fs::utimensat(dir, name, &times(mtime), AtFlags::SYMLINK_NOFOLLOW)
}
