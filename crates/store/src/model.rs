//! A tree in memory: the result of an image's layers. The module is pure and does not access the disk.

use crate::key::{Attributes, Key, Owners};
use std::collections::{BTreeMap, VecDeque};
use tote_archive::{Change, Entry, EntryPath, Kind, Shift, Timestamp};

/// Maximum depth of a tree: making it needs an open descriptor for each level.
const DEPTH: usize = 512;
/// Maximum number of symbolic links on a path, as in path_resolution(7).
const LINKS: usize = 40;

/// Index of an inode.
pub(crate) type Number = usize;

/// Index of the root.
pub(crate) const ROOT: Number = 0;

/// All inodes that a tree has, or had before later layers were applied.
#[derive(Debug)]
pub(crate) struct Model {
    inodes: Vec<Inode>,
    owners: Owners,
    /// The directory of the entry that was added last, with its path: most entries follow one beside them. `None` once that path
    /// may lead elsewhere.
    beside: Option<(Vec<u8>, Number)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) attributes: Attributes,
    pub(crate) node: Node,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Directory(BTreeMap<Box<[u8]>, Child>),
    File { key: Key, size: u64 },
    Symlink(Vec<u8>),
    Device { block: bool, major: u32, minor: u32 },
    Fifo,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) inode: Number,
    /// Number of the layer that put it there, counted from below.
    layer: usize,
}

/// Reason why a change cannot be applied.
pub(crate) type Reason = &'static str;

impl Model {
    pub(crate) fn new(owners: Owners) -> Self {
        let root = Inode {
            attributes: Attributes {
                mode: 0o755,
                ..Attributes::default()
            },
            node: Node::Directory(BTreeMap::new()),
        };
        Self {
            inodes: vec![root],
            owners,
            beside: None,
        }
    }

    /// A tree of a single file of the name `file`.
    pub(crate) fn of_one_file(key: Key, size: u64) -> Self {
        let mut model = Self::new(Owners::Image);
        let inode = model.push(Inode {
            attributes: Attributes::default(),
            node: Node::File { key, size },
        });
        let name = b"file".as_slice().into();
        model.children(ROOT).insert(name, Child { inode, layer: 0 });
        model
    }

    pub(crate) fn inode(&self, number: Number) -> &Inode {
        &self.inodes[number]
    }

    fn children(&mut self, number: Number) -> &mut BTreeMap<Box<[u8]>, Child> {
        // Only directories are asked for their children; any other node becomes an empty directory.
        let node = &mut self.inodes[number].node;
        if !matches!(node, Node::Directory(_)) {
            *node = Node::Directory(BTreeMap::new());
        }
        match node {
            Node::Directory(children) => children,
            _ => unreachable!("made a directory above"),
        }
    }

    fn child(&self, number: Number, name: &[u8]) -> Option<Child> {
        match &self.inodes[number].node {
            Node::Directory(children) => children.get(name).copied(),
            _ => None,
        }
    }

    fn is_dir(&self, number: Number) -> bool {
        matches!(self.inodes[number].node, Node::Directory(_))
    }

    /// Applies a change of a layer. `content` is that of a regular file.
    pub(crate) fn apply(
        &mut self,
        layer: usize,
        change: &Change,
        content: Option<(Key, u64)>,
    ) -> Result<(), Reason> {
        match change {
            Change::Add(entry) => self.add(layer, entry, content),
            Change::Whiteout(path) => {
                self.beside = None;
                if let Some((parent, name)) = path.split_last()
                    && let Some(parent) = self.find_dir(parent)?
                {
                    self.hide(parent, name, layer);
                }
                Ok(())
            }
            Change::Opaque(path) => {
                self.beside = None;
                if let Some(dir) = self.find_dir(path.as_bytes())? {
                    self.hide_children(dir, layer);
                }
                Ok(())
            }
        }
    }

    fn add(&mut self, layer: usize, entry: &Entry, content: Option<(Key, u64)>) -> Result<(), Reason> {
        let attributes = Attributes::of(entry, self.owners);
        let Some((parent, name)) = entry.path.split_last() else {
            // The root is a directory, whatever a layer says.
            if matches!(entry.kind, Kind::Directory) {
                self.inodes[ROOT].attributes = attributes;
            }
            return Ok(());
        };
        let dir = match &self.beside {
            Some((path, dir)) if path == parent => *dir,
            _ => {
                let dir = self.make_dirs(parent, layer, entry.mtime)?;
                self.beside = Some((parent.to_vec(), dir));
                dir
            }
        };
        let old = self.child(dir, name);
        let inode = match (&entry.kind, old) {
            // An existing directory is kept, with its content.
            (Kind::Directory, Some(old)) if self.is_dir(old.inode) => {
                self.inodes[old.inode].attributes = attributes;
                old.inode
            }
            (Kind::Hardlink { target }, _) => self.link_target(target)?,
            (kind, _) => {
                let node = match kind {
                    Kind::Directory | Kind::Hardlink { .. } => Node::Directory(BTreeMap::new()),
                    Kind::File { .. } => {
                        let (key, size) = content.ok_or("a file without content")?;
                        Node::File { key, size }
                    }
                    Kind::Symlink { target } => Node::Symlink(target.clone()),
                    Kind::Character { major, minor } => Node::Device {
                        block: false,
                        major: *major,
                        minor: *minor,
                    },
                    Kind::Block { major, minor } => Node::Device {
                        block: true,
                        major: *major,
                        minor: *minor,
                    },
                    Kind::Fifo => Node::Fifo,
                };
                self.push(Inode { attributes, node })
            }
        };
        // A replaced directory or symbolic link may be on the way to the directory.
        if old.is_some_and(|old| old.inode != inode) {
            self.beside = None;
        }
        self.children(dir).insert(name.into(), Child { inode, layer });
        Ok(())
    }

    fn push(&mut self, inode: Inode) -> Number {
        self.inodes.push(inode);
        self.inodes.len() - 1
    }

    fn link_target(&self, target: &EntryPath) -> Result<Number, Reason> {
        let (parent, name) = target.split_last().ok_or("a hard link to the root directory")?;
        let dir = self
            .find_dir(parent)?
            .ok_or("a hard link to a file that is not there")?;
        let child = self
            .child(dir, name)
            .ok_or("a hard link to a file that is not there")?;
        if self.is_dir(child.inode) {
            return Err("a hard link to a directory");
        }
        Ok(child.inode)
    }

    fn hide(&mut self, dir: Number, name: &[u8], layer: usize) {
        let Some(child) = self.child(dir, name) else {
            return;
        };
        if self.is_dir(child.inode) {
            self.hide_children(child.inode, layer);
            // A directory of lower layers is kept if this layer has put something into it.
            if matches!(&self.inodes[child.inode].node, Node::Directory(children) if !children.is_empty()) {
                return;
            }
        }
        if child.layer < layer {
            self.children(dir).remove(name);
        }
    }

    /// Removes the entries that lower layers have put into a directory.
    fn hide_children(&mut self, dir: Number, layer: usize) {
        let names: Vec<_> = self.children(dir).keys().cloned().collect();
        for name in names {
            self.hide(dir, &name, layer);
        }
    }

    /// Finds the directory of that path.
    fn find_dir(&self, path: &[u8]) -> Result<Option<Number>, Reason> {
        let mut walk = Walk::new(path);
        while let Some(name) = walk.next_name() {
            let Some(child) = self.child(walk.here(), &name) else {
                return Ok(None);
            };
            match &self.inodes[child.inode].node {
                Node::Directory(_) => walk.enter(child.inode)?,
                Node::Symlink(target) => walk.follow(target)?,
                _ => return Ok(None),
            }
        }
        Ok(Some(walk.here()))
    }

    /// Finds the directory of that path and creates missing parts: archives may leave out parent directories.
    fn make_dirs(&mut self, path: &[u8], layer: usize, mtime: Timestamp) -> Result<Number, Reason> {
        let mut walk = Walk::new(path);
        while let Some(name) = walk.next_name() {
            let here = walk.here();
            let child = self.child(here, &name);
            match child.map(|child| (child.inode, &self.inodes[child.inode].node)) {
                Some((inode, Node::Directory(_))) => walk.enter(inode)?,
                Some((_, Node::Symlink(target))) => walk.follow(target)?,
                _ => {
                    let attributes = Attributes {
                        mode: 0o755,
                        mtime,
                        ..Attributes::default()
                    };
                    let inode = self.push(Inode {
                        attributes,
                        node: Node::Directory(BTreeMap::new()),
                    });
                    self.children(here).insert(name, Child { inode, layer });
                    walk.enter(inode)?;
                }
            }
        }
        Ok(walk.here())
    }

    /// Gives all inodes the owners that they need on disk to be the image's own in that namespace.
    pub(crate) fn shift(&mut self, shift: Shift) {
        for inode in &mut self.inodes {
            let attributes = &mut inode.attributes;
            shift.to_usual(&mut attributes.uid, &mut attributes.gid, &mut attributes.xattrs);
        }
    }

    /// Counts the names of each inode.
    pub(crate) fn name_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.inodes.len()];
        let mut open = vec![ROOT];
        while let Some(number) = open.pop() {
            if let Node::Directory(children) = &self.inodes[number].node {
                for child in children.values() {
                    counts[child.inode] += 1;
                    if self.is_dir(child.inode) {
                        open.push(child.inode);
                    }
                }
            }
        }
        counts
    }

    /// Iterates over every path with its inode: each directory before its content, sorted by name.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (EntryPath, &Inode)> {
        let mut open = vec![(EntryPath::root(), ROOT)];
        std::iter::from_fn(move || {
            let (path, number) = open.pop()?;
            if let Node::Directory(children) = &self.inodes[number].node {
                for (name, child) in children.iter().rev() {
                    if let Ok(path) = path.join(name) {
                        open.push((path, child.inode));
                    }
                }
            }
            Some((path, &self.inodes[number]))
        })
    }

    /// Iterates over the contents of the files, once for each file, however many names it has.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Key> {
        let named = self.inodes.iter().zip(self.name_counts());
        named.filter_map(|(inode, names)| match &inode.node {
            Node::File { key, .. } if names > 0 => Some(key),
            _ => None,
        })
    }

    /// Iterates over the inodes in the same order, once for each name. For many inodes, building paths would take
    /// longer than the rest.
    pub(crate) fn inodes(&self) -> impl Iterator<Item = &Inode> {
        let mut open = vec![ROOT];
        std::iter::from_fn(move || {
            let number = open.pop()?;
            if let Node::Directory(children) = &self.inodes[number].node {
                open.extend(children.values().rev().map(|child| child.inode));
            }
            Some(&self.inodes[number])
        })
    }
}

/// A walk along a path that never leaves the tree.
struct Walk {
    /// Directories from the root to the present one.
    above: Vec<Number>,
    rest: VecDeque<Box<[u8]>>,
    links: usize,
}

impl Walk {
    fn new(path: &[u8]) -> Self {
        let rest = path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
            .map(Into::into)
            .collect();
        Self {
            above: vec![ROOT],
            rest,
            links: 0,
        }
    }

    fn here(&self) -> Number {
        self.above.last().copied().unwrap_or(ROOT)
    }

    /// Returns the next name that is a child of the present directory.
    fn next_name(&mut self) -> Option<Box<[u8]>> {
        loop {
            let name = self.rest.pop_front()?;
            match &*name {
                b"" | b"." => {}
                b".." => {
                    if self.above.len() > 1 {
                        self.above.pop();
                    }
                }
                _ => return Some(name),
            }
        }
    }

    fn enter(&mut self, number: Number) -> Result<(), Reason> {
        self.above.push(number);
        if self.above.len() > DEPTH {
            Err("the tree is too deep")
        } else {
            Ok(())
        }
    }

    fn follow(&mut self, target: &[u8]) -> Result<(), Reason> {
        self.links += 1;
        if self.links > LINKS {
            return Err("too many symbolic links on the way");
        }
        if target.starts_with(b"/") {
            self.above.truncate(1);
        }
        for name in target.split(|byte| *byte == b'/').rev() {
            self.rest.push_front(name.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Model;
    use crate::key::Owners;
    use tote_archive::{Change, Entry, EntryPath, Kind, Timestamp};

    fn path(path: &str) -> EntryPath {
        EntryPath::parse(path.as_bytes()).unwrap()
    }

    fn add(name: &str, kind: Kind) -> Change {
        Change::Add(Entry {
            path: path(name),
            kind,
            mode: 0o644,
            uid: 0,
            gid: 0,
            mtime: Timestamp::default(),
            xattrs: Vec::new(),
        })
    }

    fn link(target: &str) -> Kind {
        Kind::Symlink {
            target: target.into(),
        }
    }

    fn paths(layers: &[&[Change]]) -> Vec<String> {
        let mut model = Model::new(Owners::Image);
        for (number, layer) in layers.iter().enumerate() {
            for change in *layer {
                model.apply(number, change, None).unwrap();
            }
        }
        let paths = model.paths().map(|(path, _)| path.to_string());
        paths.collect()
    }

    /// Entries after another one of their directory, whose path leads elsewhere meanwhile.
    #[test]
    fn an_entry_lands_where_its_path_leads_now() {
        let (x, y) = (add("d/x", Kind::Fifo), add("d/y", Kind::Fifo));
        let replaced = [
            add("e", Kind::Directory),
            x.clone(),
            add("d", link("e")),
            y.clone(),
        ];
        assert_eq!(paths(&[&replaced]), ["/", "/d", "/e", "/e/y"]);
        let turned = [add("d", link("e")), x.clone(), add("d", link("f")), y.clone()];
        assert_eq!(
            paths(&[&turned[..3], &turned[3..]]),
            ["/", "/d", "/e", "/e/x", "/f", "/f/y"]
        );
        let itself = [
            add("d", link(".")),
            x.clone(),
            add("d/d", Kind::Directory),
            y.clone(),
        ];
        assert_eq!(paths(&[&itself]), ["/", "/d", "/d/y", "/x"]);
        let hidden = [x, Change::Whiteout(path("d")), y];
        assert_eq!(paths(&[&hidden[..1], &hidden[1..]]), ["/", "/d", "/d/y"]);
    }
}
