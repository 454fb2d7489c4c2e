//! Sharing of bytes with files of the host.
//!
//! An image made of the host's own distribution has many files that are also below the host's `/usr`. There are two
//! ways to have their bytes only once:
//!
//! - **Reflink** ([`ShareHost::Reflink`], the default): both files have the same blocks until one is written. This
//!   has no risks, but only btrfs, XFS and their like support it, and the page cache is not shared.
//! - **Hard link** ([`ShareHost::HardLink`]): the object *is* the host's file. Package managers replace files by
//!   rename(2) and so leave the object alone. But a program that writes such a file in place (`cat >
//!   /usr/share/…`), or changes its mode, changes every image that has it. Linux cannot prevent that, and a check
//!   at each start would cost a walk, so users must ask for it. `verify` finds such changes.
//!
//! Set-id files, and files that others than their owner may write, are never linked: their permissions matter more
//! than some bytes.

use crate::StoreError;
use crate::fault::step;
use crate::key::{Attributes, ContentHash, Key, content_hash};
use crate::objects::Objects;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tote_archive::EntryPath;

/// Kind of sharing with the host's `/usr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareHost {
    /// No sharing.
    Never,
    /// Blocks are shared, if the file system can.
    #[default]
    Reflink,
    /// Whole files are shared as hard links; the module describes the risk. Only root can do that, and only on one
    /// file system.
    HardLink,
}

/// The host's files.
#[derive(Debug)]
pub(crate) struct HostFiles {
    root: Option<OwnedFd>,
    share: ShareHost,
    /// Device of the store: neither a link nor a reflink crosses file systems.
    device: u64,
    /// True after an attempt has shown that sharing never works here.
    hopeless: AtomicBool,
}

impl HostFiles {
    pub(crate) fn new(share: ShareHost, device: u64) -> Self {
        Self::below(Path::new("/"), share, device)
    }

    /// Uses the files below a directory as if it were the host's root.
    pub(crate) fn below(root: &Path, share: ShareHost, device: u64) -> Self {
        let is_linker = share != ShareHost::HardLink || rustix::process::geteuid().is_root();
        let wanted = share != ShareHost::Never && is_linker;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // absence: files are copied instead of shared
        let root = wanted
            .then(|| rustix::fs::open(root, flags, Mode::empty()).ok())
            .flatten();
        // Without this check, each of an image's files would be looked up there.
        let is_near = |root: &OwnedFd| {
            // absence: files are copied instead of shared
            rustix::fs::statat(root, "usr", AtFlags::empty()).is_ok_and(|usr| usr.st_dev == device)
        };
        let hopeless = AtomicBool::new(!root.as_ref().is_some_and(is_near));
        Self {
            root,
            share,
            device,
            hopeless,
        }
    }

    /// True if a file is worth looking for: it has at least a block, and lies below /usr, because files elsewhere
    /// are the host's own.
    pub(crate) fn may_have(&self, path: &EntryPath, size: u64) -> bool {
        size >= 4096 && !self.hopeless.load(Ordering::Relaxed) && path.as_bytes().starts_with(b"usr/")
    }

    /// Finds the host's file of the same name and content.
    fn find(&self, path: &EntryPath, size: u64, content: &ContentHash) -> Option<(OwnedFd, Stat)> {
        if !self.may_have(path, size) {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let root = self.root.as_ref()?;
        // absence: files are copied instead of shared
        let file = tote_sys::openat2(root, path.as_bytes(), flags, Mode::empty(), resolve).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let is_candidate = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && u64::try_from(stat.st_size) == Ok(size)
            && stat.st_dev == self.device;
        (is_candidate && content_hash(&file).ok()? == *content).then_some((file, stat))
    }
}

impl Objects {
    /// Makes an object of the host's file of the same name and content. Returns whether it could.
    pub(crate) fn take_from_host(
        &self,
        path: &EntryPath,
        key: &Key,
        size: u64,
        attributes: &Attributes,
    ) -> Result<bool, StoreError> {
        let Some((file, stat)) = self.host.find(path, size, &key.content) else {
            return Ok(false);
        };
        let name = key.name(0);
        match self.host.share {
            ShareHost::Never => Ok(false),
            ShareHost::HardLink => {
                if !is_equal(&stat, attributes) || has_xattrs(&file) {
                    return Ok(false);
                }
                self.make_shard(&name).map_err(self.dir.failed("make", &name))?;
                let linked = step().and_then(|()| {
                    rustix::fs::linkat(&file, "", self.dir.as_fd(), &*name, AtFlags::EMPTY_PATH)
                });
                match linked {
                    Ok(()) => Ok(true),
                    Err(Errno::XDEV | Errno::PERM | Errno::NOENT) => {
                        self.host.hopeless.store(true, Ordering::Relaxed);
                        Ok(false)
                    }
                    // The existing object may be unfinished, so the caller writes it.
                    Err(Errno::EXIST | Errno::MLINK) => Ok(false),
                    Err(errno) => Err(self.dir.failed("link", name)(errno)),
                }
            }
            ShareHost::Reflink => {
                let (clone, unfinished) = self.dir.create_unfinished()?;
                if rustix::fs::ioctl_ficlone(&clone, &file).is_err() {
                    self.host.hopeless.store(true, Ordering::Relaxed);
                    self.dir
                        .unlink(&unfinished)
                        .map_err(self.dir.failed("remove", unfinished))?;
                    return Ok(false);
                }
                self.set_attributes(&clone, attributes, Path::new(&name))?;
                self.make_shard(&name).map_err(self.dir.failed("make", &name))?;
                self.dir
                    .rename(&unfinished, &self.dir, &name)
                    .map_err(self.dir.failed("make", &name))?;
                Ok(true)
            }
        }
    }
}

/// True if a file of the host can serve as an object with these attributes.
fn is_equal(stat: &Stat, attributes: &Attributes) -> bool {
    /// Mode bits that forbid sharing: set-id bits, and writing by others than the owner.
    const DANGEROUS: u32 = 0o6022;
    stat.st_mode & DANGEROUS == 0
        && stat.st_mode & 0o7777 == attributes.mode
        && (stat.st_uid, stat.st_gid) == (attributes.uid, attributes.gid)
        && stat.st_mtime == attributes.mtime.secs
        && u64::from(attributes.mtime.nanos) == stat.st_mtime_nsec
        && attributes.xattrs.is_empty()
}

fn has_xattrs(file: &OwnedFd) -> bool {
    let mut names = [0u8; 1024];
    !matches!(
        rustix::fs::flistxattr(file, &mut names),
        Ok(0) | Err(Errno::OPNOTSUPP)
    )
}
