//! Division of a tree among threads.
//!
//! Large directories are made first, without entries. Each subtree below them is then a part, and so are their own files;
//! the attributes of these directories, among them the times that each new entry changes, come last.

use crate::StoreError;
use crate::model::{Model, Node, Number, ROOT};
use crate::tree::{Files, Site, make_dir};
use rustix::fd::AsFd as _;

/// Number of parts that a tree is divided into, roughly: enough that no thread waits for long at the end.
const PARTS: usize = 16;
/// Maximum length of a part's path: it is opened by that path, and an archive may nest directories deeper than the kernel
/// can be told at once.
const LONGEST: usize = 1024;
/// Minimum number of names in a subtree that is divided.
const LEAST: usize = 64;

/// A part of a tree, with its path below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A directory with everything in it.
    Subtree(Number, Vec<u8>),
    /// The entries of a directory that are no directories.
    Entries(Number, Vec<u8>),
}

impl Part {
    /// Makes the part.
    pub(crate) fn make(&self, site: &Site<'_>, files: &mut dyn Files) -> Result<(), StoreError> {
        match self {
            Self::Subtree(number, path) => site.fill(*number, path, files),
            Self::Entries(number, path) => site.make_entries(*number, path, files),
        }
    }
}

/// A divided tree.
#[derive(Debug, Default)]
pub(crate) struct Divided {
    pub(crate) parts: Vec<Part>,
    /// The directories that are divided, each before those below it.
    large: Vec<(Number, Vec<u8>)>,
}

impl Divided {
    pub(crate) fn of(model: &Model) -> Self {
        let sizes = Sizes::of(model);
        let mut divided = Self::default();
        let most = (sizes.of[ROOT] / PARTS).max(LEAST);
        let mut open = vec![(ROOT, Vec::new())];
        while let Some((number, path)) = open.pop() {
            let Node::Directory(children) = &model.inode(number).node else {
                continue;
            };
            if sizes.of[number] <= most || path.len() > LONGEST {
                divided.parts.push(Part::Subtree(number, path));
                continue;
            }
            divided.parts.push(Part::Entries(number, path.clone()));
            for (name, child) in children {
                if matches!(model.inode(child.inode).node, Node::Directory(_)) {
                    let mut below = path.clone();
                    if !below.is_empty() {
                        below.push(b'/');
                    }
                    below.extend_from_slice(name);
                    open.push((child.inode, below));
                }
            }
            divided.large.push((number, path));
        }
        divided
    }

    /// Makes the directories of all parts.
    pub(crate) fn begin(&self, site: &Site<'_>) -> Result<(), StoreError> {
        let subtrees = self.parts.iter().filter_map(|part| match part {
            Part::Subtree(_, path) => Some(path),
            Part::Entries(..) => None,
        });
        let large = self.large.iter().map(|(_, path)| path);
        for path in large.chain(subtrees).filter(|path| !path.is_empty()) {
            let made = make_dir(site.root().as_fd(), path);
            made.map_err(|errno| {
                StoreError::io("make", site.root().path().join(crate::dir::as_path(path)), errno)
            })?;
        }
        Ok(())
    }

    /// Sets the attributes of the directories that were divided.
    pub(crate) fn finish(&self, site: &Site<'_>) -> Result<(), StoreError> {
        let mut from_below = self.large.iter().rev();
        from_below.try_for_each(|(number, path)| site.finish_dir(*number, path))
    }
}

/// Number of names at and below each directory.
struct Sizes {
    of: Vec<usize>,
}

impl Sizes {
    fn of(model: &Model) -> Self {
        let mut directories = vec![(ROOT, ROOT)];
        let mut at = 0;
        let mut of = Vec::new();
        // Each directory comes after the one that it is in.
        while let Some((number, _)) = directories.get(at).copied() {
            at += 1;
            if of.len() <= number {
                of.resize(number + 1, 0);
            }
            if let Node::Directory(children) = &model.inode(number).node {
                of[number] = children.len();
                directories.extend(
                    children
                        .values()
                        .filter(|child| matches!(model.inode(child.inode).node, Node::Directory(_)))
                        .map(|child| (child.inode, number)),
                );
            }
        }
        for (number, above) in directories.into_iter().skip(1).rev() {
            of[above] += of[number];
        }
        Self { of }
    }
}

#[cfg(test)]
mod tests {
    use super::{Divided, Part};
    use crate::key::Owners;
    use crate::model::Model;
    use tote_archive::{Change, Entry, EntryPath, Kind, Timestamp};

    fn model(paths: &[String]) -> Model {
        let mut model = Model::new(Owners::Caller);
        for path in paths {
            let entry = Entry {
                path: EntryPath::parse(path.as_bytes()).unwrap(),
                kind: Kind::Fifo,
                mode: 0o644,
                uid: 0,
                gid: 0,
                mtime: Timestamp::default(),
                xattrs: Vec::new(),
            };
            model.apply(0, &Change::Add(entry), None).unwrap();
        }
        model
    }

    #[test]
    fn large_directories_are_divided() {
        let small = model(&(0..60).map(|n| format!("a/{n}")).collect::<Vec<_>>());
        assert_eq!(Divided::of(&small).parts, [Part::Subtree(0, Vec::new())]);

        let paths = (0..3000).map(|n| format!("usr/{}/{n}", n % 30));
        let large = model(&paths.chain(["usr/x".to_owned()]).collect::<Vec<_>>());
        let divided = Divided::of(&large);
        let subtrees = divided
            .parts
            .iter()
            .filter(|part| matches!(part, Part::Subtree(..)));
        assert_eq!((subtrees.count(), divided.parts.len()), (30, 32));
        assert_eq!(divided.large.len(), 2);

        // However deep it is, no path is too long for one call.
        let deep = "directory/".repeat(400);
        let deep = model(&(0..300).map(|n| format!("{deep}{n}")).collect::<Vec<_>>());
        let longest = Divided::of(&deep).parts.into_iter().map(|part| match part {
            Part::Subtree(_, path) | Part::Entries(_, path) => path.len(),
        });
        assert!(longest.max().unwrap() < 1100);
    }
}
