//! The names of a root, in memory.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// Maximum number of symbolic links on a path, as in path_resolution(7).
const LINKS: usize = 40;

/// Object in a [`Tree`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory,
    /// A regular file of this size in bytes.
    File(u64),
    /// A symbolic link with this text.
    Link(Box<[u8]>),
    /// A device or FIFO.
    Special,
}

/// The names of a root. Paths are relative to the root, with neither a leading slash nor `.` and `..`.
///
/// A large root need not be read whole. Directories may be added unread; those whose names a question needed are told by
/// [`Tree::take_asked`]. A caller reads these and asks again; once no directory was asked for, the answer is that of the whole root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    nodes: BTreeMap<Box<[u8]>, Node>,
    unread: BTreeSet<Box<[u8]>>,
    asked: RefCell<BTreeSet<Box<[u8]>>>,
}

/// Object at the end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Its path without symbolic links.
    pub(crate) path: Box<[u8]>,
    /// Links on the way, in the order in which they were followed.
    pub(crate) links: Vec<Box<[u8]>>,
}

impl Tree {
    /// Adds an object, or replaces it.
    pub fn insert(&mut self, path: &[u8], node: Node) {
        if !path.is_empty() {
            self.nodes.insert(path.into(), node);
        }
    }

    /// Adds a directory whose names are not known yet.
    pub fn insert_unread(&mut self, path: &[u8]) {
        self.insert(path, Node::Directory);
        self.unread.insert(path.into());
    }

    /// Returns the unread directories that were asked for since the last call. They count as read from now on.
    pub fn take_asked(&mut self) -> Vec<Box<[u8]>> {
        let asked: Vec<_> = std::mem::take(self.asked.get_mut()).into_iter().collect();
        for dir in &asked {
            self.unread.remove(dir);
        }
        asked
    }

    /// Notes that a path was looked for and is not there: its nearest directory may be unread.
    fn miss(&self, path: &[u8]) {
        if self.unread.is_empty() {
            return;
        }
        let mut dir = parent(path);
        while !dir.is_empty() && !self.nodes.contains_key(dir) {
            dir = parent(dir);
        }
        if self.unread.contains(dir) {
            self.asked.borrow_mut().insert(dir.into());
        }
    }

    /// Returns the object of that path; its last component is not followed, and those before must be directories.
    #[must_use]
    pub fn get(&self, path: &[u8]) -> Option<&Node> {
        match path {
            [] => Some(&Node::Directory),
            path => {
                let found = self.nodes.get(path);
                if found.is_none() {
                    self.miss(path);
                }
                found
            }
        }
    }

    /// Iterates over all objects but the root, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Node)> {
        self.nodes.iter().map(|(path, node)| (&**path, node))
    }

    /// Follows the links of a path but for the last component, and returns where it lies; `None` if nothing is there.
    #[must_use]
    pub fn real(&self, path: &[u8]) -> Option<Box<[u8]>> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let (dir, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (b"".as_slice(), path),
        };
        if matches!(name, b"" | b"." | b"..") {
            return None;
        }
        let dir = self.resolve(dir)?.path;
        let real = join(&dir, name);
        (self.get(&dir) == Some(&Node::Directory) && self.get(&real).is_some()).then(|| real.into())
    }

    /// Follows a path, also its last component; `None` if it leads nowhere in this root.
    #[must_use]
    pub fn target(&self, path: &[u8]) -> Option<Box<[u8]>> {
        self.resolve(path).map(|found| found.path)
    }

    /// True if something is in a directory.
    #[must_use]
    pub fn has_below(&self, dir: &[u8]) -> bool {
        let prefix = [dir, b"/"].concat();
        self.beginning(&prefix).next().is_some()
    }

    /// Iterates over the objects whose paths begin with these bytes.
    pub(crate) fn beginning<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a Node)> {
        self.beginning_in(prefix, &|_| true)
    }

    /// Iterates over the objects whose paths begin with these bytes, where only directories count that `is_wanted`.
    pub(crate) fn beginning_in<'a>(
        &'a self,
        prefix: &'a [u8],
        is_wanted: &dyn Fn(&[u8]) -> bool,
    ) -> impl Iterator<Item = (&'a [u8], &'a Node)> {
        self.miss(&join(prefix, b"x"));
        self.miss(prefix);
        let unread = self
            .unread
            .range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|dir| dir.starts_with(prefix))
            .filter(|dir| is_wanted(dir));
        self.asked.borrow_mut().extend(unread.cloned());
        self.nodes
            .range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded))
            .map(|(path, node)| (&**path, node))
            .take_while(move |(path, _)| path.starts_with(prefix))
    }

    /// Iterates over the objects below a directory.
    pub(crate) fn below(&self, dir: &[u8]) -> Vec<Box<[u8]>> {
        let prefix = match dir {
            [] => Vec::new(),
            dir => [dir, b"/"].concat(),
        };
        self.beginning(&prefix).map(|(path, _)| path.into()).collect()
    }

    /// Follows a path, also its last component. `None` if it leads nowhere in this root.
    pub(crate) fn resolve(&self, path: &[u8]) -> Option<Resolved> {
        self.follow(b"", path)
    }

    /// Follows the text of a link in the directory `from`, or any path that is relative to it.
    pub(crate) fn follow(&self, from: &[u8], path: &[u8]) -> Option<Resolved> {
        let mut here: Vec<u8> = match path.first() {
            Some(b'/') => Vec::new(),
            _ => from.to_vec(),
        };
        let mut links = Vec::new();
        let mut rest: VecDeque<Box<[u8]>> = names(path).collect();
        while let Some(name) = rest.pop_front() {
            match &*name {
                b"." => continue,
                b".." => {
                    here.truncate(parent(&here).len());
                    continue;
                }
                _ => {}
            }
            let next = join(&here, &name);
            match self.get(&next)? {
                Node::Directory => here = next,
                Node::Link(target) => {
                    links.push(next.into_boxed_slice());
                    if links.len() > LINKS {
                        return None;
                    }
                    if target.first() == Some(&b'/') {
                        here.clear();
                    }
                    for name in names(target).collect::<Vec<_>>().into_iter().rev() {
                        rest.push_front(name);
                    }
                }
                Node::File(_) | Node::Special => {
                    return rest.is_empty().then(|| Resolved {
                        path: next.into(),
                        links,
                    });
                }
            }
        }
        Some(Resolved {
            path: here.into(),
            links,
        })
    }
}

impl<'a> FromIterator<(&'a str, Node)> for Tree {
    fn from_iter<T: IntoIterator<Item = (&'a str, Node)>>(iter: T) -> Self {
        let mut tree = Self::default();
        for (path, node) in iter {
            tree.insert(path.as_bytes(), node);
        }
        tree
    }
}

fn names(path: &[u8]) -> impl Iterator<Item = Box<[u8]>> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .map(Into::into)
}

/// Joins a name to a directory.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir {
        [] => name.to_vec(),
        dir => [dir, b"/", name].concat(),
    }
}

/// Returns the directory of a path; that of the root is the root.
pub(crate) fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => &path[..slash],
        None => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(target: &str) -> Node {
        Node::Link(target.as_bytes().into())
    }

    #[test]
    fn links_are_followed_inside() {
        let tree = Tree::from_iter([
            ("bin", link("usr/bin")),
            ("usr", Node::Directory),
            ("usr/bin", Node::Directory),
            ("usr/bin/sh", link("dash")),
            ("usr/bin/dash", Node::File(1)),
            ("usr/bin/up", link("../../../../../bin/sh")),
            ("usr/bin/loop", link("loop")),
            ("usr/bin/out", link("/etc/passwd")),
        ]);
        for (path, found) in [
            ("/bin/sh", Some(("usr/bin/dash", &["bin", "usr/bin/sh"][..]))),
            ("usr/bin/dash", Some(("usr/bin/dash", &[]))),
            (
                "bin/up",
                Some(("usr/bin/dash", &["bin", "usr/bin/up", "bin", "usr/bin/sh"])),
            ),
            ("bin/../bin/./sh", Some(("usr/bin/dash", &["bin", "usr/bin/sh"]))),
            ("/bin/loop", None),
            ("/bin/out", None),
            ("/bin/dash/x", None),
            ("/", Some(("", &[]))),
        ] {
            let resolved = tree.resolve(path.as_bytes()).map(|found| {
                let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
                (
                    text(&found.path),
                    found.links.iter().map(|link| text(link)).collect::<Vec<_>>(),
                )
            });
            let found = found.map(|(path, links)| {
                (
                    path.to_owned(),
                    links.iter().map(ToString::to_string).collect::<Vec<_>>(),
                )
            });
            assert_eq!(resolved, found, "{path}");
        }
    }
}
