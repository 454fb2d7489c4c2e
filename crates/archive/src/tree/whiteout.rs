//! Whiteouts on extraction: applied to existing entries, or turned into overlayfs's own.

use super::attributes;
use super::dirs::{Dir, open_child};
use super::error::ExtractError;
use super::extract::Extraction;
use super::options::Whiteouts;
use crate::path::EntryPath;
use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};

/// The paths that an extraction made, with the directories on the way to them. A whiteout concerns only entries
/// from before the layer, wherever in the layer it stands.
#[derive(Debug, Default)]
pub(crate) struct Made(HashSet<Box<[u8]>>);

impl Made {
    pub(crate) fn insert(&mut self, path: &EntryPath) {
        let mut path = path.as_bytes();
        while self.0.insert(path.into()) {
            let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
                break;
            };
            path = &path[..slash];
        }
    }

    pub(crate) fn contains(&self, path: &EntryPath) -> bool {
        self.0.contains(path.as_bytes())
    }

    /// Forgets a removed path and everything below it.
    pub(crate) fn forget(&mut self, removed: &EntryPath) {
        if !self.contains(removed) {
            return;
        }
        let removed = removed.as_bytes();
        self.0.retain(|path| match path.strip_prefix(removed) {
            Some(rest) => !(rest.is_empty() || rest[0] == b'/'),
            None => true,
        });
    }
}

/// Returns the attribute by which overlayfs marks a directory that hides those below it.
pub(crate) fn opaque_attribute(user_xattr: bool) -> &'static [u8] {
    if user_xattr {
        b"user.overlay.opaque"
    } else {
        b"trusted.overlay.opaque"
    }
}

/// True if overlayfs would take the entry for a whiteout.
pub(crate) fn is_whiteout_node(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// True if the directory has such a whiteout of that name.
///
/// # Errors
/// Those of lstat(2), except ENOENT.
pub(crate) fn is_whiteout(dir: &Dir, name: &[u8]) -> Result<bool, Errno> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(is_whiteout_node(&stat)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Opens the directory of that name; `None` if the name does not exist or is not a directory.
fn directory(dir: impl AsFd, name: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    match open_child(dir, name) {
        Ok(child) => Ok(Some(child)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

impl Extraction<'_> {
    pub(crate) fn whiteout(&mut self, path: &EntryPath) -> Result<(), ExtractError> {
        let Some((parent, name)) = path.split_last() else {
            return Ok(());
        };
        match self.options.whiteouts {
            Whiteouts::Apply => match self.dirs.get(parent) {
                Ok(dir) if self.made.contains(path) => match directory(&*dir, name) {
                    Ok(Some(child)) => self.empty(&child, path),
                    // A file of this layer has the name: the entry from before is gone already.
                    Ok(None) => Ok(()),
                    Err(source) => Err(ExtractError::Remove {
                        path: path.clone(),
                        source,
                    }),
                },
                Ok(dir) => self.remove(&*dir, name, path),
                Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
                Err(source) => Err(ExtractError::Remove {
                    path: path.clone(),
                    source,
                }),
            },
            Whiteouts::Overlay { user_xattr } => {
                let dir = self.parent(path, parent)?;
                match rustix::fs::mknodat(&*dir, name, FileType::CharacterDevice, Mode::empty(), 0) {
                    Ok(()) => Ok(()),
                    // The layer has an entry of that name, which itself hides those below.
                    Err(Errno::EXIST) => match directory(&*dir, name) {
                        Ok(Some(_)) => self.mark_opaque(&dir, name, path, user_xattr),
                        Ok(None) => Ok(()),
                        Err(source) => Err(ExtractError::Make {
                            what: "whiteout",
                            path: path.clone(),
                            source,
                        }),
                    },
                    Err(source) => Err(ExtractError::Make {
                        what: "whiteout",
                        path: path.clone(),
                        source,
                    }),
                }
            }
        }
    }

    pub(crate) fn opaque(&mut self, path: &EntryPath) -> Result<(), ExtractError> {
        match self.options.whiteouts {
            Whiteouts::Apply => {
                let dir = match self.dirs.get(path.as_bytes()) {
                    Ok(dir) => dir,
                    Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
                    Err(source) => {
                        return Err(ExtractError::Remove {
                            path: path.clone(),
                            source,
                        });
                    }
                };
                self.empty(&dir.fd, path)
            }
            Whiteouts::Overlay { user_xattr } => {
                let dir = self.parent(path, path.as_bytes())?;
                self.set_opaque(&dir.fd, path, user_xattr)
            }
        }
    }

    /// Removes the entries that the directory had before the extraction began.
    fn empty(&mut self, dir: &OwnedFd, path: &EntryPath) -> Result<(), ExtractError> {
        for name in Self::listed(dir, path)? {
            let child = path.join(&name).map_err(|_| ExtractError::Remove {
                path: path.clone(),
                source: Errno::INVAL,
            })?;
            if !self.made.contains(&child) {
                self.remove(dir, &name, &child)?;
                continue;
            }
            let below = directory(dir, &name).map_err(|source| ExtractError::Remove {
                path: child.clone(),
                source,
            })?;
            if let Some(below) = below {
                self.empty(&below, &child)?;
            }
        }
        Ok(())
    }

    pub(crate) fn mark_opaque(
        &mut self,
        dir: &Dir,
        name: &[u8],
        path: &EntryPath,
        user_xattr: bool,
    ) -> Result<(), ExtractError> {
        let child = open_child(dir, name);
        let child = child.map_err(|source| ExtractError::Make {
            what: "opaque directory",
            path: path.clone(),
            source,
        })?;
        self.set_opaque(&child, path, user_xattr)
    }

    fn set_opaque(&self, dir: impl AsFd, path: &EntryPath, user_xattr: bool) -> Result<(), ExtractError> {
        let made = attributes::set(dir, opaque_attribute(user_xattr), b"y");
        made.map_err(|source| ExtractError::Make {
            what: "opaque directory",
            path: path.clone(),
            source,
        })
    }
}
