//! A second tree for overlayfs, in which every file has an inode of its own.
//!
//! The files of the first tree are links to objects, and a container could see that: in link counts that no image
//! has, for which cron(8) and logrotate(8) refuse a file, and in an inode number that changes at the first write,
//! because overlayfs records no origin for a file with several links. So overlayfs gets this tree: its files are
//! empty and have owner, mode, times, attributes and names of the image's. Two attributes of overlayfs's own name
//! the file of `contents/` that holds the content, which is a link to the object. All containers of all images
//! still read a single inode of the object, so that its pages are in memory once.
//!
//! The names in `contents/` are numbers: an attribute of up to 24 bytes fits into ext4's inode, a longer one would
//! take a block for each file.

use crate::StoreError;
use crate::dir::{Dir, write_all};
use crate::error::is_shown;
use crate::fault::step;
use crate::key::{Attributes, Key};
use crate::model::{Model, Node};
use crate::objects::Objects;
use crate::tree::{self, Files, LinkedFiles};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, Stat, XattrFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use tote_archive::EntryPath;
use tote_sys::{ContentOverlay, MountRights};

/// The directory of empty files, and that of what they contain.
pub(crate) const INODES: &str = "inodes";
pub(crate) const CONTENTS: &str = "contents";

/// The contents of a model in the order of `contents/`, where their names are numbers; empty files have none.
#[derive(Debug)]
pub(crate) struct Numbers<'a> {
    of: HashMap<Key, usize>,
    contents: Vec<Numbered<'a>>,
}

/// A content with its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbered<'a> {
    number: usize,
    key: &'a Key,
    size: u64,
    attributes: &'a Attributes,
}

impl<'a> Numbers<'a> {
    /// Numbers the contents in the image's order, so that each making of the tree gives the same numbers.
    pub(crate) fn of(model: &'a Model) -> Self {
        let mut numbers = Self {
            of: HashMap::new(),
            contents: Vec::new(),
        };
        for inode in model.inodes() {
            if let Node::File {
                key,
                size: size @ 1..,
            } = &inode.node
            {
                let number = numbers.contents.len();
                numbers.of.entry(*key).or_insert_with(|| {
                    numbers.contents.push(Numbered {
                        number,
                        key,
                        size: *size,
                        attributes: &inode.attributes,
                    });
                    number
                });
            }
        }
        numbers
    }

    pub(crate) fn contents(&self) -> &[Numbered<'a>] {
        &self.contents
    }

    fn name(&self, key: &Key) -> Option<String> {
        self.of.get(key).map(usize::to_string)
    }
}

/// Links objects by their numbers in the directory of contents.
pub(crate) fn link_contents(
    objects: &Objects,
    contents: &[Numbered<'_>],
    dir: &Dir,
) -> Result<(), StoreError> {
    let mut links = LinkedFiles::new(objects);
    for content in contents {
        let name = content.number.to_string();
        let path = dir.path().join(&name);
        let file = (content.key, content.size);
        links.make(dir.as_fd(), name.as_bytes(), file, content.attributes, &path)?;
    }
    Ok(())
}

/// Names of overlayfs's attributes, which depend on the rights of the mount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) redirect: &'static str,
    pub(crate) metacopy: &'static str,
}

impl Names {
    pub(crate) const fn of(rights: MountRights) -> Self {
        match rights {
            MountRights::Root => Self {
                redirect: "trusted.overlay.redirect",
                metacopy: "trusted.overlay.metacopy",
            },
            MountRights::NamespaceRoot | MountRights::None => Self {
                redirect: "user.overlay.redirect",
                metacopy: "user.overlay.metacopy",
            },
        }
    }
}

/// A maker of files without content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmptyFiles<'a> {
    objects: &'a Objects,
    numbers: &'a Numbers<'a>,
    names: Names,
}

impl Files for EmptyFiles<'_> {
    fn make(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        (key, size): (&Key, u64),
        attributes: &Attributes,
        path: &Path,
    ) -> Result<(), StoreError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = step()
            .and_then(|()| rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR))
            .and_then(|file| self.describe(&file, key, size).map(|()| file));
        let file = made.map_err(|errno| StoreError::io("make", path.to_owned(), errno))?;
        self.objects.set_attributes(&file, attributes, path)
    }
}

impl<'a> EmptyFiles<'a> {
    pub(crate) fn new(objects: &'a Objects, numbers: &'a Numbers<'a>, rights: MountRights) -> Self {
        Self {
            objects,
            numbers,
            names: Names::of(rights),
        }
    }

    fn describe(&self, file: &OwnedFd, key: &Key, size: u64) -> Result<(), Errno> {
        match self.numbers.name(key) {
            Some(name) => lead_to(file, &name, size, self.names),
            None => Ok(()),
        }
    }
}

/// Gives an empty file the size of its content, and overlayfs's attributes that say which one that is.
fn lead_to(file: &OwnedFd, content: &str, size: u64, names: Names) -> Result<(), Errno> {
    step()?;
    rustix::fs::ftruncate(file, size)?;
    let redirect = format!("/{content}");
    rustix::fs::fsetxattr(file, names.redirect, redirect.as_bytes(), XattrFlags::CREATE)?;
    rustix::fs::fsetxattr(file, names.metacopy, &[], XattrFlags::CREATE)
}

/// Whether the file system and the kernel, asked with one file, can have a tree with inodes of its own. A kernel that is too
/// old for this refuses to mount or to open the file.
pub(crate) fn can_be_shown(tree: &Dir, rights: MountRights) -> Result<bool, StoreError> {
    const PROBE: &str = "probe";
    let shown = || {
        let probe = make_dir(tree, PROBE)?;
        let (inodes, contents) = (make_dir(&probe, INODES)?, make_dir(&probe, CONTENTS)?);
        let content = contents
            .create("0", 0o600)
            .map_err(contents.failed("make", "0"))?;
        write_all(&content, b"x").map_err(contents.failed("write", "0"))?;
        let file = inodes
            .create("file", 0o600)
            .map_err(inodes.failed("make", "file"))?;
        let described = lead_to(&file, "0", 1, Names::of(rights));
        described.map_err(inodes.failed("describe", "file"))?;
        let read = mount(probe.path(), rights).and_then(|mounted| beginning(mounted.as_fd(), b"file"));
        is_shown(probe.path(), read.map(|read| read == b"x"))
    };
    let shown = match shown() {
        Err(error) if matches!(StoreError::errno(&error), Some(Errno::OPNOTSUPP | Errno::PERM)) => Ok(false),
        shown => shown,
    };
    tree.remove_tree(PROBE)?;
    shown
}

/// Makes a directory in that of a tree.
pub(crate) fn make_dir(tree: &Dir, name: &str) -> Result<Dir, StoreError> {
    tree.make(name, 0o700).map_err(tree.failed("make", name))?;
    tree.enter(name)
}

/// True if a tree has at least one of the two directories, complete or not.
pub(crate) fn are_there(tree: &Dir) -> bool {
    tree.has(INODES) || tree.has(CONTENTS)
}

/// Removes both directories.
pub(crate) fn forget(tree: &Dir) -> Result<(), StoreError> {
    tree.remove_tree(INODES)?;
    tree.remove_tree(CONTENTS)
}

/// True if the kernel shows the content of a file, tried with a single mount. A kernel that is too old for this
/// refuses to mount or to open the file.
pub(crate) fn show(model: &Model, tree: &Dir, rights: MountRights) -> Result<bool, StoreError> {
    let mut paths = model.paths();
    // The first content has the first number.
    let Some((path, _)) = paths.find(|(_, inode)| matches!(inode.node, Node::File { size: 1.., .. })) else {
        return Ok(true);
    };
    let shown = mount(tree.path(), rights).and_then(|mounted| {
        let shown = beginning(mounted.as_fd(), path.as_bytes())?;
        let content = format!("{CONTENTS}/0");
        Ok(beginning(tree.as_fd(), content.as_bytes())? == shown)
    });
    is_shown(tree.path(), shown)
}

/// Mounts both directories of a tree as one, read-only and attached nowhere.
pub(crate) fn mount(tree: &Path, rights: MountRights) -> Result<OwnedFd, Errno> {
    let c_string = |text: &[u8]| CString::new(text).map_err(|_| Errno::INVAL);
    tote_sys::overlay(&ContentOverlay {
        dir: &c_string(tree.as_os_str().as_bytes())?,
        layer: &c_string(INODES.as_bytes())?,
        contents: &c_string(CONTENTS.as_bytes())?,
        rights,
    })
}

/// The name in `contents/` of what an empty file contains, for whom the file is open; `None` of one that contains nothing.
pub(crate) fn content_name(file: impl AsFd, rights: MountRights) -> Result<Option<String>, Errno> {
    let mut value = [0; 32];
    let length = match rustix::fs::fgetxattr(file, Names::of(rights).redirect, &mut value[..]) {
        Err(Errno::NODATA) => return Ok(None),
        length => length?,
    };
    let name = value[..length].strip_prefix(b"/").unwrap_or_default();
    let is_number = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    match str::from_utf8(name) {
        Ok(name) if is_number => Ok(Some(name.to_owned())),
        _ => Err(Errno::IO),
    }
}

/// Reads the beginning of a file.
pub(crate) fn beginning(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let mut bytes = vec![0; 4096];
    let length = rustix::io::read(file, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Returns the path of an entry, in either directory, that is not as it was made.
pub(crate) fn damaged(
    objects: &Objects,
    model: &Model,
    tree: &Dir,
    rights: MountRights,
) -> Result<Option<EntryPath>, StoreError> {
    if !(tree.has(INODES) && tree.has(CONTENTS)) {
        return Ok(Some(EntryPath::root()));
    }
    let (contents, inodes) = (tree.enter(CONTENTS)?, tree.enter(INODES)?);
    let numbers = Numbers::of(model);
    let redirect = |name: &[u8]| {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&inodes, name, flags, Mode::empty())?;
        content_name(file, rights)
    };
    let leads = |name: &[u8], key: &Key, file: &Stat| {
        let Some(number) = numbers.name(key) else {
            return true;
        };
        let is_there = contents.stat(&number).is_ok_and(|stat| {
            let is_like = |file: &Stat| (file.st_mode, file.st_size, file.st_mtime);
            is_like(&stat) == is_like(file)
                && tree::is_object(objects, key, &stat, contents.as_fd(), number.as_bytes())
        });
        is_there && redirect(name).is_ok_and(|name| name.is_some_and(|name| name == number))
    };
    Ok(tree::damaged(model, inodes.as_fd(), &leads))
}
