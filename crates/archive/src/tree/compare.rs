//! A container's changes, read by comparing its tree, a copy of the image's, with the image's tree.

use super::diff::{Difference, Status, deleted};
use super::walk::{Walk, WalkError, walk};
use crate::entry::{Change, Entry, Kind};
use crate::path::EntryPath;
use std::collections::HashMap;
use std::fs::File;
use std::io::Error;
use std::iter::Peekable;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

/// Compares the tree `upper` with `lower`, of which it was a copy. Returns the differences in the order of
/// [`EntryPath`], without the root itself.
///
/// A file has changed if its content has. Size and time alone do not decide, because programs set times back. Hard
/// links are reported among changed files only: two names for an unchanged file are not a difference.
pub fn compare(lower: BorrowedFd<'_>, upper: BorrowedFd<'_>) -> Compare {
    Compare {
        lower: walk(lower).without_links().peekable(),
        upper: walk(upper).without_links().peekable(),
        covered: None,
        links: Some(HashMap::new()),
        buffers: Box::new([[0; BUFFER]; 2]),
    }
}

const BUFFER: usize = 64 << 10;

/// The iterator of [`compare`].
#[derive(Debug)]
pub struct Compare {
    lower: Peekable<Walk>,
    upper: Peekable<Walk>,
    /// Path whose removal was reported already; removals below it are not reported.
    covered: Option<EntryPath>,
    /// First names of changed files that have several, by device and inode number; `None` if hard links are not
    /// reported.
    links: Option<HashMap<(u64, u64), EntryPath>>,
    buffers: Box<[[u8; BUFFER]; 2]>,
}

type Found = (Entry, Option<File>);

/// The next entry, by the trees that have it.
enum Next {
    Gone(Entry),
    New(Found),
    Both(Found, Found),
}

impl Compare {
    /// Reports each name of a changed file with its content, as if it were the only one.
    #[must_use]
    pub fn without_links(self) -> Self {
        Self { links: None, ..self }
    }

    fn step(&mut self) -> Result<Option<Difference>, WalkError> {
        while let Some(next) = self.next_of_either()? {
            let difference = match next {
                Next::Gone(entry) => self.gone(entry),
                Next::New(found) => Some(self.put(Status::Added, found)?),
                Next::Both(lower, upper) => self.both(lower, upper)?,
            };
            if difference.is_some() {
                return Ok(difference);
            }
        }
        Ok(None)
    }

    fn next_of_either(&mut self) -> Result<Option<Next>, WalkError> {
        let order = match (self.lower.peek(), self.upper.peek()) {
            (Some(Ok((lower, _))), Some(Ok((upper, _)))) => lower.path.cmp(&upper.path),
            (Some(_), None) | (Some(Err(_)), _) => std::cmp::Ordering::Less,
            (None | Some(Ok(_)), _) => std::cmp::Ordering::Greater,
        };
        let lower = match order.is_le() {
            true => self.lower.next().transpose()?,
            false => None,
        };
        let upper = match order.is_ge() {
            true => self.upper.next().transpose()?,
            false => None,
        };
        Ok(match (lower, upper) {
            (Some(lower), Some(upper)) => Some(Next::Both(lower, upper)),
            (Some((entry, _)), None) => Some(Next::Gone(entry)),
            (None, upper) => upper.map(Next::New),
        })
    }

    fn gone(&mut self, entry: Entry) -> Option<Difference> {
        if (self.covered.as_ref()).is_some_and(|covered| entry.path.starts_with(covered)) {
            return None;
        }
        self.covered = Some(entry.path.clone());
        Some(deleted(entry.path))
    }

    fn both(&mut self, lower: Found, upper: Found) -> Result<Option<Difference>, WalkError> {
        if upper.0.path.is_root() {
            return Ok(None);
        }
        let is_dir = |entry: &Entry| entry.kind == Kind::Directory;
        if is_dir(&lower.0) && !is_dir(&upper.0) {
            self.covered = Some(lower.0.path.clone());
        }
        let (one, other) = (&lower.0, &upper.0);
        let same_but_times = (one.mode, one.uid, one.gid, &one.xattrs)
            == (other.mode, other.uid, other.gid, &other.xattrs)
            && one.kind == other.kind;
        if is_dir(one) && is_dir(other) {
            let difference = self.put(Status::Changed, upper)?;
            return Ok(Some(Difference {
                passage: same_but_times,
                ..difference
            }));
        }
        if same_but_times && one.mtime == other.mtime {
            let same = match (&lower.1, &upper.1) {
                (Some(one), Some(other)) => self.same_content(one, other),
                _ => Ok(true),
            };
            let same = same.map_err(|source| WalkError::Content {
                path: other.path.clone(),
                source,
            })?;
            if same {
                return Ok(None);
            }
        }
        self.put(Status::Changed, upper).map(Some)
    }

    fn same_content(&mut self, one: &File, other: &File) -> Result<bool, Error> {
        let (first, second) = (one.metadata()?, other.metadata()?);
        if (first.dev(), first.ino()) == (second.dev(), second.ino()) {
            return Ok(true);
        }
        let [left, right] = &mut *self.buffers;
        let mut offset = 0;
        loop {
            let count = one.read_at(left, offset)?;
            // A file that has become shorter is a changed file.
            match other.read_exact_at(&mut right[..count], offset) {
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
                read => read?,
            }
            if left[..count] != right[..count] {
                return Ok(false);
            }
            if count == 0 {
                return Ok(other.read_at(&mut right[..1], offset)? == 0);
            }
            offset += count as u64;
        }
    }

    /// Builds the difference for a new or changed entry; further names of a file become hard links to its first.
    fn put(&mut self, status: Status, (mut entry, mut content): Found) -> Result<Difference, WalkError> {
        if let (Some(file), Some(links)) = (&content, &mut self.links) {
            let found = file.metadata().map_err(|source| WalkError::Content {
                path: entry.path.clone(),
                source,
            })?;
            if found.nlink() > 1 {
                let first = (links.entry((found.dev(), found.ino()))).or_insert_with(|| entry.path.clone());
                if *first != entry.path {
                    entry.kind = Kind::Hardlink {
                        target: first.clone(),
                    };
                    entry.xattrs.clear();
                    content = None;
                }
            }
        }
        Ok(Difference {
            status,
            change: Change::Add(entry),
            content,
            passage: false,
        })
    }
}

impl Iterator for Compare {
    type Item = Result<Difference, WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
