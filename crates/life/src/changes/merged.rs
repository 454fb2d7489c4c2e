//! A container's tree as it sees it: its image, with what it changed.

use super::differences::Differences;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::iter::Peekable;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use tote_archive::{Change, Entry, EntryPath, Kind, Walk, WalkError, walk};

/// Which names of the image's files are one file, where the directory does not say it: each with the first of them.
pub type Links = HashMap<EntryPath, EntryPath>;

/// Content of a file, which is read before the next entry is asked for.
pub type Content = Box<dyn Read>;

/// Changes in the order of their paths, with the contents of files.
pub type Changes = Box<dyn Iterator<Item = Result<(Change, Option<Content>), WalkError>>>;

/// Returns what of differences makes a tree.
pub fn changes(differences: Differences) -> Changes {
    Box::new(differences.map(|found| found.map(|found| (found.change, boxed(found.content)))))
}

fn boxed(content: Option<File>) -> Option<Content> {
    content.map(|file| Box::new(file) as Content)
}

/// The entries of a container's tree in the order of their paths, without the root itself.
#[expect(missing_debug_implementations, reason = "not all of its parts can be shown")]
pub struct Merged {
    image: Peekable<Walk>,
    changes: Peekable<Changes>,
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
    pub fn new(image: BorrowedFd<'_>, changes: Changes, links: Option<Links>) -> Self {
        Self {
            // The first name that a walk tells may be one that is gone.
            image: walk(image).without_links().peekable(),
            changes: changes.peekable(),
            hidden: None,
            links,
            told: HashMap::new(),
        }
    }

    fn step(&mut self) -> Result<Option<(Entry, Option<Content>)>, WalkError> {
        loop {
            let order = match (self.image.peek(), self.changes.peek()) {
                (None, None) => return Ok(None),
                (Some(Ok((below, _))), Some(Ok((change, _)))) => below.path.cmp(change.path()),
                (Some(_), None) | (Some(Err(_)), _) => std::cmp::Ordering::Less,
                (None | Some(Ok(_)), Some(_)) => std::cmp::Ordering::Greater,
            };
            let below = match order.is_le() {
                true => self.image.next().transpose()?,
                false => None,
            };
            if order.is_lt() {
                let shown = below.and_then(|(entry, content)| self.of_image(entry, content));
                if let Some((entry, content)) = shown {
                    return Ok(Some((entry, boxed(content))));
                }
                continue;
            }
            let Some((change, content)) = self.changes.next().transpose()? else {
                continue;
            };
            match change {
                Change::Add(entry) => {
                    if entry.kind != Kind::Directory {
                        self.hidden = Some(entry.path.clone());
                    }
                    return Ok(Some((entry, content)));
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
                // absence: the file comes twice instead of as a link
                let found = content?.metadata().ok().filter(|found| found.nlink() > 1)?;
                Some(Linked::Inode(found.dev(), found.ino()))
            }
        }
    }
}

impl Iterator for Merged {
    type Item = Result<(Entry, Option<Content>), WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
