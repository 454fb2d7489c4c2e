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
//! take a block for each file. Where the file system keeps the name of an object without a block, and the tree is root's, no
//! `contents/` is made: the attributes name the objects themselves, as those of a tree in a file do ([`crate::erofs`]).

use crate::StoreError;
use crate::dir::{Dir, write_all};
use crate::error::is_shown;
use crate::fault::step;
use crate::key::{Attributes, Key};
use crate::model::{Model, Node};
use crate::objects::Objects;
use crate::tree::{self, Files, LinkedFiles};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, XattrFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use tote_archive::{CreationMask, EntryPath};
use tote_sys::{ContentOverlay, MountRights, best_effort};

/// The directory of empty files, and that of what they contain, for trees that have one.
pub(crate) const INODES: &str = "inodes";
pub(crate) const CONTENTS: &str = "contents";

/// Path of the directory of all objects from that of a tree.
const OBJECTS: &str = "../../objects";

/// Place of the contents of a tree's empty files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `contents/`, where their names are numbers.
    Contents,
    /// The directory of all objects.
    Objects,
}

impl Place {
    /// Returns the place that the directories in a tree show.
    pub(crate) fn of(tree: &Dir) -> Self {
        match tree.has(CONTENTS) {
            true => Self::Contents,
            false => Self::Objects,
        }
    }

    /// Path from the directory of a tree.
    fn path(self) -> &'static str {
        match self {
            Self::Contents => CONTENTS,
            Self::Objects => OBJECTS,
        }
    }
}

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

    fn number(&self, key: &Key) -> Option<usize> {
        self.of.get(key).copied()
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
#[derive(Clone, Debug)]
pub(crate) struct EmptyFiles<'a> {
    objects: &'a Objects,
    /// `None` if the files lead to objects.
    numbers: Option<&'a Numbers<'a>>,
    names: Names,
    mask: CreationMask,
    /// The path that the last file leads to, in memory that is used again for the next.
    redirect: String,
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
        let is_made_with_mode = self.is_made_with_mode(attributes);
        let mode = if is_made_with_mode { attributes.mode } else { 0o600 };
        let made = step()
            .and_then(|()| rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(mode)))
            .and_then(|file| self.describe(&file, key, size).map(|()| file));
        let file = made.map_err(|errno| StoreError::io("make", path.to_owned(), errno))?;
        match is_made_with_mode {
            true => self.objects.set_all_but_mode(&file, attributes, path),
            false => self.objects.set_attributes(&file, attributes, path),
        }
    }
}

impl<'a> EmptyFiles<'a> {
    /// Makes files below `root` that lead to what `numbers` has.
    pub(crate) fn new(
        objects: &'a Objects,
        root: &Dir,
        numbers: Option<&'a Numbers<'a>>,
        rights: MountRights,
    ) -> Self {
        Self {
            objects,
            numbers,
            names: Names::of(rights),
            mask: CreationMask::below(root.as_fd()),
            redirect: String::new(),
        }
    }

    /// True if a file that is created with its mode keeps it. An extended attribute, an ACL, could change it; and without the right
    /// to write, the attributes that lead to the content cannot be set.
    fn is_made_with_mode(&self, attributes: &Attributes) -> bool {
        let is_writable = attributes.mode & 0o200 != 0;
        self.mask.leaves(attributes.mode) && is_writable && attributes.xattrs.is_empty()
    }

    fn describe(&mut self, file: &OwnedFd, key: &Key, size: u64) -> Result<(), Errno> {
        self.redirect.clear();
        self.redirect.push('/');
        match push_content(&mut self.redirect, self.numbers, key, size) {
            true => lead_to(file, &self.redirect, size, self.names),
            false => Ok(()),
        }
    }
}

/// Appends the name of a file's content, which is a number or the name of an object. Returns false for an empty file, which has none.
fn push_content(text: &mut String, numbers: Option<&Numbers<'_>>, key: &Key, size: u64) -> bool {
    match numbers {
        Some(numbers) => match numbers.number(key) {
            // Writing to a String cannot fail.
            Some(number) => best_effort(write!(text, "{number}")),
            None => return false,
        },
        None if size == 0 => return false,
        None => key.push_name(text),
    }
    true
}

/// Gives an empty file the size of its content, and overlayfs's attributes that say which one that is: the one at `redirect`, a path that
/// begins with a slash.
fn lead_to(file: &OwnedFd, redirect: &str, size: u64, names: Names) -> Result<(), Errno> {
    step()?;
    rustix::fs::ftruncate(file, size)?;
    rustix::fs::fsetxattr(file, names.redirect, redirect.as_bytes(), XattrFlags::CREATE)?;
    rustix::fs::fsetxattr(file, names.metacopy, &[], XattrFlags::CREATE)
}

/// Asks the file system and the kernel with one file whether they can have a tree with inodes of its own, and where its contents are to
/// be. A kernel that is too old for this refuses to mount or to open the file.
pub(crate) fn can_be_shown(tree: &Dir, rights: MountRights) -> Result<Option<Place>, StoreError> {
    const PROBE: &str = "probe";
    // For others than root, `contents/` also keeps the objects of other images out of a container's reach.
    let name = match rights {
        MountRights::Root => Key::ZERO.name(0),
        MountRights::NamespaceRoot | MountRights::None => "0".to_owned(),
    };
    let shown = || {
        let probe = make_dir(tree, PROBE)?;
        let (inodes, contents) = (make_dir(&probe, INODES)?, make_dir(&probe, CONTENTS)?);
        if let Some((shard, _)) = name.split_once('/') {
            make_dir(&contents, shard)?;
        }
        let content = contents.create(&name, 0o600);
        let content = content.map_err(contents.failed("make", &name))?;
        write_all(&content, b"x").map_err(contents.failed("write", &name))?;
        let file = inodes
            .create("file", 0o600)
            .map_err(inodes.failed("make", "file"))?;
        let described = lead_to(&file, &format!("/{name}"), 1, Names::of(rights));
        described.map_err(inodes.failed("describe", "file"))?;
        let stat = rustix::fs::fstat(&file).map_err(inodes.failed("look at", "file"))?;
        let read = mount(probe.path(), Place::Contents, rights)
            .and_then(|mounted| beginning(mounted.as_fd(), b"file"));
        let is_short = stat.st_blocks == 0 && rights == MountRights::Root;
        let place = if is_short { Place::Objects } else { Place::Contents };
        is_shown(probe.path(), read.map(|read| read == b"x")).map(|shown| shown.then_some(place))
    };
    let shown = match shown() {
        Err(error) if matches!(StoreError::errno(&error), Some(Errno::OPNOTSUPP | Errno::PERM)) => Ok(None),
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
    let place = Place::of(tree);
    let first = model.paths().find_map(|(path, inode)| match &inode.node {
        Node::File { key, size: 1.. } => Some((path, *key)),
        _ => None,
    });
    let Some((path, key)) = first else {
        return Ok(true);
    };
    let shown = mount(tree.path(), place, rights).and_then(|mounted| {
        let shown = beginning(mounted.as_fd(), path.as_bytes())?;
        // The first content has the first number.
        let name = match place {
            Place::Contents => "0".to_owned(),
            Place::Objects => key.name(0),
        };
        let content = format!("{}/{name}", place.path());
        Ok(beginning(tree.as_fd(), content.as_bytes())? == shown)
    });
    is_shown(tree.path(), shown)
}

/// Mounts the empty files of a tree with their contents, read-only and attached nowhere.
pub(crate) fn mount(tree: &Path, place: Place, rights: MountRights) -> Result<OwnedFd, Errno> {
    mount_part(tree, INODES, place, rights)
}

/// Mounts so the empty files in that directory of a tree.
pub(crate) fn mount_part(
    tree: &Path,
    part: &str,
    place: Place,
    rights: MountRights,
) -> Result<OwnedFd, Errno> {
    let c_string = |text: &[u8]| CString::new(text).map_err(|_| Errno::INVAL);
    tote_sys::overlay(&ContentOverlay {
        dir: &c_string(tree.as_os_str().as_bytes())?,
        layer: &c_string(part.as_bytes())?,
        contents: &c_string(place.path().as_bytes())?,
        rights,
    })
}

/// The name of what an empty file contains, at the place of the contents, for whom the file is open; `None` of one that contains nothing.
pub(crate) fn content_name(file: impl AsFd, rights: MountRights) -> Result<Option<String>, Errno> {
    let mut value = [0; 128];
    let length = match rustix::fs::fgetxattr(file, Names::of(rights).redirect, &mut value[..]) {
        Err(Errno::NODATA) => return Ok(None),
        length => length?,
    };
    let name = value[..length].strip_prefix(b"/").unwrap_or_default();
    let is_number = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    match str::from_utf8(name) {
        Ok(name) if is_number || Key::of_name(name).is_some() => Ok(Some(name.to_owned())),
        _ => Err(Errno::IO),
    }
}

/// Collects the keys of the objects that the empty files of a tree lead to. Those with `contents/` have links to what they need.
pub(crate) fn objects_of(tree: &Dir) -> Result<Vec<Key>, StoreError> {
    let mut keys = Vec::new();
    if tree.has(INODES) && Place::of(tree) == Place::Objects {
        let inodes = tree.enter(INODES)?;
        collect(inodes.as_fd(), &mut keys).map_err(|errno| match errno {
            Errno::IO => StoreError::damaged(inodes.path().to_owned(), "a file leads to no object"),
            errno => inodes.failed("read", "")(errno),
        })?;
    }
    Ok(keys)
}

fn collect(dir: BorrowedFd<'_>, keys: &mut Vec<Key>) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut directories = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match FileType::from_raw_mode(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode) {
            FileType::Directory => directories.push(name.to_owned()),
            FileType::RegularFile => {
                let file = rustix::fs::openat(dir, name, flags, Mode::empty())?;
                let content = content_name(file, MountRights::Root)?;
                keys.extend(content.as_deref().and_then(Key::of_name));
            }
            _ => {}
        }
    }
    // No more than one descriptor is open for each level of the tree.
    directories.into_iter().try_for_each(|name| {
        let below = rustix::fs::openat(dir, name, flags | OFlags::DIRECTORY, Mode::empty())?;
        collect(below.as_fd(), keys)
    })
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

/// Returns the path of an entry, or of its content, that is not as it was made, in that directory of empty files.
pub(crate) fn damaged(
    objects: &Objects,
    model: &Model,
    (tree, part): (&Dir, &str),
    rights: MountRights,
) -> Result<Option<EntryPath>, StoreError> {
    if !tree.has(part) {
        return Ok(Some(EntryPath::root()));
    }
    let inodes = tree.enter(part)?;
    let place = Place::of(tree);
    let numbers = (place == Place::Contents).then(|| Numbers::of(model));
    let entered = match place {
        Place::Contents => Some(tree.enter(CONTENTS)?),
        Place::Objects => None,
    };
    let contents = entered.as_ref().unwrap_or(&objects.dir);
    let redirect = |name: &[u8]| {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&inodes, name, flags, Mode::empty())?;
        content_name(file, rights)
    };
    let leads = |name: &[u8], key: &Key, file: &Stat| {
        let (mut content, size) = (String::new(), u64::try_from(file.st_size).unwrap_or_default());
        if !push_content(&mut content, numbers.as_ref(), key, size) {
            return true;
        }
        // absence: what cannot be examined counts as damaged, and the image is made again
        let is_there = contents.stat(&content).is_ok_and(|stat| {
            let is_like = |file: &Stat| (file.st_mode, file.st_size, file.st_mtime);
            is_like(&stat) == is_like(file)
                && tree::is_object(objects, key, &stat, contents.as_fd(), content.as_bytes())
        });
        is_there && redirect(name).is_ok_and(|name| name.is_some_and(|name| name == content))
    };
    Ok(tree::damaged(model, inodes.as_fd(), &leads))
}
