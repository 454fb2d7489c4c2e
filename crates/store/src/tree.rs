//! An image as an ordinary directory of hard links to objects.
//!
//! Two files that share an object share an inode. Between images that is the purpose. Within an image it would be
//! visible, and dangerous: `cp -a` of two empty files would make a single file of two names, and a write to one
//! would change the other. So each inode of an image is an inode of its tree: the second of equal files is a link
//! to a second copy of the object, and so on. Trees share these copies too. They are also used when an object has
//! as many links as its file system allows.

use crate::StoreError;
use crate::dir::{Dir, as_path};
use crate::fault::step;
use crate::key::{Attributes, Key, Owners};
use crate::model::{Inode, Model, Node, Number, ROOT};
use crate::objects::{Objects, is_unchanged, set_xattrs, times};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tote_archive::EntryPath;

/// A maker of the regular files of a tree.
pub(crate) trait Files {
    /// Makes a file under a name that is free in a directory; `path` is for messages.
    fn make(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        content: (&Key, u64),
        attributes: &Attributes,
        path: &Path,
    ) -> Result<(), StoreError>;
}

/// Makes the tree of a model in an empty directory. Returns the number of device nodes that could not be made.
pub(crate) fn make(
    owned: (&Objects, Owners),
    model: &Model,
    root: &Dir,
    files: &mut dyn Files,
) -> Result<u64, StoreError> {
    let site = Site::new(owned, model, root);
    let mut maker = site.maker(files);
    maker.fill(root.as_fd(), ROOT, &mut root.path().to_owned(), &mut Vec::new())?;
    Ok(site.left_out.into_inner())
}

/// The place of a tree that is being made; several threads may work there.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    objects: &'a Objects,
    owners: Owners,
    model: &'a Model,
    root: &'a Dir,
    /// Number of names of each inode.
    names: Vec<u32>,
    /// Path of the name that was made first, below the root, for each inode with several names.
    first_names: Mutex<HashMap<Number, Vec<u8>>>,
    left_out: AtomicU64,
}

impl<'a> Site<'a> {
    pub(crate) fn new((objects, owners): (&'a Objects, Owners), model: &'a Model, root: &'a Dir) -> Self {
        Self {
            objects,
            owners,
            model,
            root,
            names: model.name_counts(),
            first_names: Mutex::default(),
            left_out: AtomicU64::new(0),
        }
    }

    pub(crate) fn root(&self) -> &'a Dir {
        self.root
    }

    /// Counts a device node that could not be made. Every container has a `/dev` of its own, which covers those there.
    fn note_left_out(&self, path: &Path) {
        let inside = path.strip_prefix(self.root.path()).unwrap_or(path);
        if !inside.starts_with("dev") {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of device nodes outside `/dev` that could not be made so far.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Makes what lies below a directory that is there, and then sets the directory's attributes. `path` is its path below
    /// the root.
    pub(crate) fn fill(&self, number: Number, path: &[u8], files: &mut dyn Files) -> Result<(), StoreError> {
        let (dir, mut full) = self.open(path)?;
        self.maker(files)
            .fill(dir.as_fd(), number, &mut full, &mut path.to_vec())
    }

    /// Makes the entries of a directory that are no directories.
    pub(crate) fn make_entries(
        &self,
        number: Number,
        path: &[u8],
        files: &mut dyn Files,
    ) -> Result<(), StoreError> {
        let (dir, mut full) = self.open(path)?;
        let is_directory = |number| matches!(self.model.inode(number).node, Node::Directory(_));
        self.maker(files)
            .make_some(dir.as_fd(), number, &mut full, &mut path.to_vec(), &|number| {
                !is_directory(number)
            })
    }

    /// Sets the attributes of a directory, when all its entries are made.
    pub(crate) fn finish_dir(&self, number: Number, path: &[u8]) -> Result<(), StoreError> {
        let (dir, full) = self.open(path)?;
        finish_dir(
            self.objects,
            dir.as_fd(),
            &self.model.inode(number).attributes,
            &full,
        )
    }

    fn open(&self, path: &[u8]) -> Result<(OwnedFd, PathBuf), StoreError> {
        let (name, full) = match path {
            b"" => (b".".as_slice(), self.root.path().to_owned()),
            path => (path, self.root.path().join(as_path(path))),
        };
        let opened = rustix::fs::openat(self.root, name, DIRECTORY, Mode::empty());
        match opened {
            Ok(dir) => Ok((dir, full)),
            Err(errno) => Err(StoreError::io("open", full, errno)),
        }
    }

    fn maker<'m>(&'m self, files: &'m mut dyn Files) -> Maker<'m> {
        Maker { site: self, files }
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Makes a directory that gets its attributes later.
pub(crate) fn make_dir(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    step().and_then(|()| rustix::fs::mkdirat(dir, name, Mode::RWXU))
}

/// A maker of files that are links to objects.
#[derive(Debug)]
pub(crate) struct LinkedFiles<'a> {
    objects: &'a Objects,
    /// Number of the next copy to link, for each object.
    copies: HashMap<Key, u32>,
}

impl<'a> LinkedFiles<'a> {
    pub(crate) fn new(objects: &'a Objects) -> Self {
        Self {
            objects,
            copies: HashMap::new(),
        }
    }
}

impl Files for LinkedFiles<'_> {
    fn make(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        (key, size): (&Key, u64),
        attributes: &Attributes,
        path: &Path,
    ) -> Result<(), StoreError> {
        let copy = self.copies.entry(*key).or_default();
        loop {
            if *copy > 0 {
                self.objects.copy(key, *copy, size, attributes)?;
            }
            let linked = self.objects.dir.link(&key.name(*copy), dir, name);
            *copy += 1;
            match linked {
                Ok(()) => return Ok(()),
                Err(Errno::MLINK) => {}
                Err(errno) => return Err(StoreError::io("link", path.to_owned(), errno)),
            }
        }
    }
}

/// A thread's work in a [`Site`].
struct Maker<'a> {
    site: &'a Site<'a>,
    files: &'a mut dyn Files,
}

impl Maker<'_> {
    /// Makes the content of a directory, and then sets the directory's attributes. `path` is its path in the tree.
    fn fill(
        &mut self,
        dir: BorrowedFd<'_>,
        number: Number,
        path: &mut PathBuf,
        below: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        self.make_some(dir, number, path, below, &|_| true)?;
        let attributes = &self.site.model.inode(number).attributes;
        finish_dir(self.site.objects, dir, attributes, path)
    }

    /// Makes those entries of a directory that are `wanted`.
    fn make_some(
        &mut self,
        dir: BorrowedFd<'_>,
        number: Number,
        path: &mut PathBuf,
        below: &mut Vec<u8>,
        wanted: &dyn Fn(Number) -> bool,
    ) -> Result<(), StoreError> {
        let Node::Directory(children) = &self.site.model.inode(number).node else {
            return Ok(());
        };
        for (name, child) in children.iter().filter(|(_, child)| wanted(child.inode)) {
            let length = below.len();
            if length > 0 {
                below.push(b'/');
            }
            below.extend_from_slice(name);
            path.push(as_path(name));
            self.make(dir, name, child.inode, path, below)?;
            path.pop();
            below.truncate(length);
        }
        Ok(())
    }

    fn make(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        number: Number,
        path: &mut PathBuf,
        below: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let inode = self.site.model.inode(number);
        if let Node::Directory(_) = inode.node {
            let made =
                make_dir(dir, name).and_then(|()| rustix::fs::openat(dir, name, DIRECTORY, Mode::empty()));
            let sub = made.map_err(|errno| StoreError::io("make", path.clone(), errno))?;
            return self.fill(sub.as_fd(), number, path, below);
        }
        if self.site.names[number] < 2 {
            return self.make_inode(dir, name, inode, path).map(drop);
        }
        // Another thread that comes to a further name meanwhile waits for the inode.
        let site = self.site;
        let mut first_names = site.first_names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = first_names.get(&number) {
            let linked = step()
                .and_then(|()| rustix::fs::linkat(site.root, first.as_slice(), dir, name, AtFlags::empty()));
            match linked {
                Ok(()) => return Ok(()),
                // The file system allows no further links to this inode: further names become another inode.
                Err(Errno::MLINK) => {}
                Err(errno) => return Err(StoreError::io("link", path.clone(), errno)),
            }
        }
        if self.make_inode(dir, name, inode, path)? {
            first_names.insert(number, below.clone());
        }
        Ok(())
    }

    /// Makes a file or node, but not a directory; returns whether it could.
    fn make_inode(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        inode: &Inode,
        path: &Path,
    ) -> Result<bool, StoreError> {
        match &inode.node {
            Node::File { key, size } => self
                .files
                .make(dir, name, (key, *size), &inode.attributes, path)
                .map(|()| true),
            _ => self.site.make_node(dir, name, inode, path),
        }
    }
}

impl Site<'_> {
    /// Makes a symbolic link, a device node or a pipe; returns whether it could.
    fn make_node(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        inode: &Inode,
        path: &Path,
    ) -> Result<bool, StoreError> {
        let failed = |attempt| move |errno| StoreError::io(attempt, path.to_owned(), errno);
        let attributes = &inode.attributes;
        let (kind, device) = match &inode.node {
            Node::Symlink(target) => {
                let made = step().and_then(|()| rustix::fs::symlinkat(target.as_slice(), dir, name));
                made.map_err(failed("make"))?;
                return self.finish_node(dir, name, attributes, path).map(|()| true);
            }
            Node::Device { block, major, minor } => {
                let kind = if *block {
                    FileType::BlockDevice
                } else {
                    FileType::CharacterDevice
                };
                // Overlayfs would take device 0, 0 for a whiteout.
                if self.owners == Owners::Caller || (!*block && (*major, *minor) == (0, 0)) {
                    self.note_left_out(path);
                    return Ok(false);
                }
                (kind, rustix::fs::makedev(*major, *minor))
            }
            _ => (FileType::Fifo, 0),
        };
        let mode = Mode::from_raw_mode(attributes.mode);
        match step().and_then(|()| rustix::fs::mknodat(dir, name, kind, mode, device)) {
            Ok(()) => {}
            // A user namespace cannot create devices.
            Err(Errno::PERM) if kind != FileType::Fifo => {
                self.note_left_out(path);
                return Ok(false);
            }
            Err(errno) => return Err(failed("make")(errno)),
        }
        self.finish_node(dir, name, attributes, path)?;
        // No other process works in this directory, so the name still leads to the new node.
        let set = step().and_then(|()| rustix::fs::chmodat(dir, name, mode, AtFlags::empty()));
        set.map_err(failed("set the mode of"))?;
        Ok(true)
    }

    fn finish_node(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        attributes: &Attributes,
        path: &Path,
    ) -> Result<(), StoreError> {
        self.objects.set_owner(attributes, path, |uid, gid| {
            rustix::fs::chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
        })?;
        step()
            .and_then(|()| rustix::fs::utimensat(dir, name, &times(attributes), AtFlags::SYMLINK_NOFOLLOW))
            .map_err(|errno| StoreError::io("set the times of", path.to_owned(), errno))
    }
}

fn finish_dir(
    objects: &Objects,
    dir: BorrowedFd<'_>,
    attributes: &Attributes,
    path: &Path,
) -> Result<(), StoreError> {
    let failed = |attempt| move |errno| StoreError::io(attempt, path.to_owned(), errno);
    objects.set_owner(attributes, path, |uid, gid| rustix::fs::fchown(dir, uid, gid))?;
    set_xattrs(dir, attributes).map_err(failed("set extended attributes of"))?;
    let mode = Mode::from_raw_mode(attributes.mode);
    step()
        .and_then(|()| rustix::fs::fchmod(dir, mode))
        .map_err(failed("set the mode of"))?;
    step()
        .and_then(|()| rustix::fs::futimens(dir, &times(attributes)))
        .map_err(failed("set the times of"))
}

/// Checks all entries of a tree that was made of a model, and returns the path of an entry that is not as it was
/// made. `has_content` checks the content of a file whose metadata match.
pub(crate) fn damaged(
    model: &Model,
    root: BorrowedFd<'_>,
    has_content: &dyn Fn(&[u8], &Key, &Stat) -> bool,
) -> Option<EntryPath> {
    let is_damaged = |path: &EntryPath, inode: &Inode| {
        let name = match path.as_bytes() {
            b"" => b".",
            name => name,
        };
        let stat = match rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Device nodes that cannot be made are left out.
            Err(Errno::NOENT) => return !matches!(inode.node, Node::Device { .. }),
            Err(_) => return true,
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        match &inode.node {
            Node::Directory(_) => {
                kind != FileType::Directory || stat.st_mode & 0o7777 != inode.attributes.mode
            }
            // absence: what cannot be examined counts as damaged
            Node::Symlink(target) => !rustix::fs::readlinkat(root, name, Vec::new())
                .is_ok_and(|found| found.as_bytes() == target.as_slice()),
            Node::Device { block: true, .. } => kind != FileType::BlockDevice,
            Node::Device { block: false, .. } => kind != FileType::CharacterDevice,
            Node::File { key, size } => {
                !is_unchanged(&stat, *size, &inode.attributes) || !has_content(name, key, &stat)
            }
            _ => kind != FileType::Fifo,
        }
    };
    let mut paths = model.paths();
    paths
        .find(|(path, inode)| is_damaged(path, inode))
        .map(|(path, _)| path)
}

/// True if an entry is a link to an object, or to a further copy with its content. False, for example, if the
/// object was lost and written again.
pub(crate) fn is_object(
    objects: &Objects,
    key: &Key,
    found: &Stat,
    dir: BorrowedFd<'_>,
    name: &[u8],
) -> bool {
    let object = objects.dir.stat(&key.name(0));
    if object.is_ok_and(|object| (object.st_dev, object.st_ino) == (found.st_dev, found.st_ino)) {
        return true;
    }
    if found.st_size == 0 {
        return true;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // absence: what cannot be examined counts as damaged
    rustix::fs::openat(dir, name, flags, Mode::empty())
        .is_ok_and(|file| crate::key::has_hash(&file, &key.content).unwrap_or(false))
}
