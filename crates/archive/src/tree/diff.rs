//! A container's changes, read from the upper directory of its overlay.

use super::attributes::{self, Attributes};
use super::dirs::{names, open_child};
use super::walk::{DEPTH_MAX, Found, Links, Open, WalkError, child_path, failed, find, reopened, stat};
use super::whiteout::is_whiteout_node;
use crate::entry::{Change, Entry, Kind};
use crate::path::EntryPath;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A difference between an image and a container made from it.
#[derive(Debug)]
pub struct Difference {
    /// Status as in docker's `diff`.
    pub status: Status,
    /// Change of a layer that makes this difference.
    pub change: Change,
    /// Content, if the entry is a file.
    pub content: Option<File>,
    /// True for a directory in which at most the time has changed. It is reported for the sake of changed entries
    /// in it; without any, nothing has changed. Known only if the lower tree is given.
    pub passage: bool,
}

/// Kind of the difference at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The entry is new (`A`).
    Added,
    /// The entry was replaced or modified, or contains a change (`C`).
    Changed,
    /// The entry was removed (`D`).
    Deleted,
}

/// Reads the changes in the overlay's directory `upper`, in the order of [`EntryPath`], without the root itself.
///
/// With the overlay's lower tree in `lower`, new entries are told apart from changed ones, and a directory that
/// hides the one below is resolved into a whiteout for each hidden name. Without it every entry is
/// [`Status::Changed`] or deleted, and such a directory is followed by [`Change::Opaque`].
///
/// Overlays with `redirect_dir` or `metacopy` are refused, because their content is in other layers. As with
/// [`walk`](crate::walk), no link is followed, in neither tree.
pub fn diff(lower: Option<BorrowedFd<'_>>, upper: BorrowedFd<'_>) -> Diff {
    let start = || {
        let upper = reopened(upper)?;
        Ok((upper, lower.map(reopened).transpose()?))
    };
    Diff {
        start: Some(start()),
        has_lower: lower.is_some(),
        frames: Vec::new(),
        links: Links::default(),
        ready: VecDeque::new(),
    }
}

/// The iterator of [`diff`].
#[derive(Debug)]
pub struct Diff {
    start: Option<Result<(OwnedFd, Option<OwnedFd>), Errno>>,
    has_lower: bool,
    frames: Vec<Frame>,
    links: Links,
    ready: VecDeque<Difference>,
}

/// A directory of the upper tree that is being read.
#[derive(Debug)]
struct Frame {
    upper: OwnedFd,
    /// The lower tree's directory of the same path, if it exists.
    lower: Option<OwnedFd>,
    /// True if the upper directory hides the lower one.
    hides: bool,
    path: EntryPath,
    names: std::vec::IntoIter<Name>,
}

#[derive(Debug)]
struct Name {
    name: Vec<u8>,
    /// True if only the lower directory has the name, and the upper one hides it.
    gone: bool,
}

impl Diff {
    fn step(&mut self) -> Result<Option<Difference>, WalkError> {
        if let Some(start) = self.start.take() {
            let root = EntryPath::root();
            let (upper, lower) = start.map_err(failed("open", &root))?;
            self.push(upper, lower, false, root)?;
        }
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Ok(Some(ready));
            }
            let Some(frame) = self.frames.last_mut() else {
                return Ok(None);
            };
            let Some(Name { name, gone }) = frame.names.next() else {
                self.frames.pop();
                continue;
            };
            let path = child_path(&frame.path, &name)?;
            if gone {
                return Ok(Some(deleted(path)));
            }
            let Some(seen) = stat(&frame.upper, &name, &path)? else {
                continue;
            };
            // An error here must not count as absence: the removal would be missing in the image.
            let below = match &frame.lower {
                Some(lower) => stat(lower, &name, &path)?,
                None => None,
            };
            if is_whiteout_node(&seen) {
                if below.is_some() || !self.has_lower {
                    return Ok(Some(deleted(path)));
                }
                continue;
            }
            let is_dir = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let lower = match &frame.lower {
                Some(lower) if is_dir(&seen) && below.as_ref().is_some_and(is_dir) => {
                    Some(open_child(lower, &name).map_err(failed("open", &path))?)
                }
                _ => None,
            };
            let Some(found) = find(frame.upper.as_fd(), &name, path, &seen, Some(&mut self.links))? else {
                continue;
            };
            let status = if below.is_some() || !self.has_lower {
                Status::Changed
            } else {
                Status::Added
            };
            let hides = frame.hides;
            let passage = match (&lower, &below) {
                (Some(dir), Some(below)) if found.entry.kind == Kind::Directory => {
                    let attributes =
                        attributes::read(dir).map_err(failed("read the attributes of", &found.entry.path))?;
                    is_passage(&found.entry, below, &attributes)
                }
                _ => false,
            };
            let difference = self.found(found, status, lower, hides)?;
            return Ok(Some(Difference {
                passage,
                ..difference
            }));
        }
    }

    fn found(
        &mut self,
        found: Found,
        status: Status,
        lower: Option<OwnedFd>,
        hides: bool,
    ) -> Result<Difference, WalkError> {
        let Found { entry, overlay, open } = found;
        for (there, attribute) in [(overlay.redirect, "redirect"), (overlay.metacopy, "metacopy")] {
            if there {
                return Err(WalkError::Elsewhere {
                    path: entry.path,
                    attribute,
                });
            }
        }
        let content = match open {
            Open::Nothing => None,
            Open::File(file) => Some(file),
            Open::Directory(dir) => {
                if overlay.opaque && !self.has_lower {
                    let change = Change::Opaque(entry.path.clone());
                    self.ready.push_back(Difference {
                        status: Status::Changed,
                        change,
                        content: None,
                        passage: false,
                    });
                }
                self.push(dir, lower, hides || overlay.opaque, entry.path.clone())?;
                None
            }
        };
        Ok(Difference {
            status,
            change: Change::Add(entry),
            content,
            passage: false,
        })
    }

    fn push(
        &mut self,
        upper: OwnedFd,
        lower: Option<OwnedFd>,
        hides: bool,
        path: EntryPath,
    ) -> Result<(), WalkError> {
        if self.frames.len() >= DEPTH_MAX {
            return Err(WalkError::Depth { path });
        }
        let present = names(&upper).map_err(failed("list", &path))?;
        let mut all = Vec::with_capacity(present.len());
        if let Some(lower) = lower.as_ref().filter(|_| hides) {
            let hidden = names(lower).map_err(failed("list", &path))?;
            let gone = hidden
                .into_iter()
                .filter(|name| present.binary_search(name).is_err());
            all.extend(gone.map(|name| Name { name, gone: true }));
        }
        all.extend(present.into_iter().map(|name| Name { name, gone: false }));
        all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        self.frames.push(Frame {
            upper,
            lower,
            hides,
            path,
            names: all.into_iter(),
        });
        Ok(())
    }
}

fn is_passage(entry: &Entry, below: &Stat, attributes: &Attributes) -> bool {
    (entry.mode, entry.uid, entry.gid) == (below.st_mode & 0o7777, below.st_uid, below.st_gid)
        && entry.xattrs == attributes.own
}

pub(crate) fn deleted(path: EntryPath) -> Difference {
    Difference {
        status: Status::Deleted,
        change: Change::Whiteout(path),
        content: None,
        passage: false,
    }
}

impl Iterator for Diff {
    type Item = Result<Difference, WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.frames.clear();
            self.ready.clear();
        }
        step.transpose()
    }
}
