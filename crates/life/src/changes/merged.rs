//! A container's tree as it sees it: its image, with what it changed.

use super::differences::Differences;
use std::collections::HashMap;
use std::fs::File;
use std::iter::Peekable;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use tote_archive::{Change, Entry, EntryPath, Kind, Walk, WalkError, walk};

/// Which names of the image's files are one file, where the directory does not say it: each with the first of them.
pub type Links = HashMap<EntryPath, EntryPath>;

/// The entries of a container's tree in the order of their paths, without the root itself.
#[expect(missing_debug_implementations, reason = "not all of its parts can be shown")]
pub struct Merged {
    image: Peekable<Walk>,
    changes: Peekable<Differences>,
    /// A path below which the image's files are hidden.
    hidden: Option<EntryPath>,
    links: Option<Links>,
    /// The first names that are still there.
    told: HashMap<Linked, EntryPath>,
}

/// A file of the image's that has several names.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Linked {
    /// By its first name.
    Name(EntryPath),
    /// By device and inode number.
    Inode(u64, u64),
}

impl Merged {
    /// `links` where the directory's own hard links are not the image's.
    pub fn new(image: BorrowedFd<'_>, changes: Differences, links: Option<Links>) -> Self {
        Self {
            // The first name that a walk tells may be one that is gone.
            image: walk(image).without_links().peekable(),
            changes: changes.peekable(),
            hidden: None,
            links,
            told: HashMap::new(),
        }
    }

    fn step(&mut self) -> Result<Option<(Entry, Option<File>)>, WalkError> {
        loop {
            let order = match (self.image.peek(), self.changes.peek()) {
                (None, None) => return Ok(None),
                (Some(Ok((below, _))), Some(Ok(change))) => below.path.cmp(change.change.path()),
                (Some(_), None) | (Some(Err(_)), _) => std::cmp::Ordering::Less,
                (None | Some(Ok(_)), Some(_)) => std::cmp::Ordering::Greater,
            };
            let below = match order.is_le() {
                true => self.image.next().transpose()?,
                false => None,
            };
            if order.is_lt() {
                let shown = below.and_then(|(entry, content)| self.of_image(entry, content));
                if shown.is_some() {
                    return Ok(shown);
                }
                continue;
            }
            let Some(found) = self.changes.next().transpose()? else {
                continue;
            };
            match found.change {
                Change::Add(entry) => {
                    if entry.kind != Kind::Directory {
                        self.hidden = Some(entry.path.clone());
                    }
                    return Ok(Some((entry, found.content)));
                }
                Change::Whiteout(path) | Change::Opaque(path) => self.hidden = Some(path),
            }
        }
    }

    fn of_image(&mut self, mut entry: Entry, content: Option<File>) -> Option<(Entry, Option<File>)> {
        let is_hidden = |hidden: &EntryPath| entry.path.starts_with(hidden);
        if entry.path.is_root() || self.hidden.as_ref().is_some_and(is_hidden) {
            return None;
        }
        let Some(linked) = self.linked(&entry, content.as_ref()) else {
            return Some((entry, content));
        };
        let told = self.told.entry(linked).or_insert_with(|| entry.path.clone());
        if *told == entry.path {
            return Some((entry, content));
        }
        entry.kind = Kind::Hardlink { target: told.clone() };
        entry.xattrs.clear();
        Some((entry, None))
    }

    fn linked(&self, entry: &Entry, content: Option<&File>) -> Option<Linked> {
        match &self.links {
            Some(links) => links.get(&entry.path).cloned().map(Linked::Name),
            None => {
                let found = content?.metadata().ok().filter(|found| found.nlink() > 1)?;
                Some(Linked::Inode(found.dev(), found.ino()))
            }
        }
    }
}

impl Iterator for Merged {
    type Item = Result<(Entry, Option<File>), WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
