//! A tree for overlayfs in a single file: an image of EROFS with everything but the contents.
//!
//! It takes the place of `inodes/` and `contents/` where the process may mount it. Making it is one write, where those
//! take an inode, two attributes and a link for each file of an image; and its removal frees a single inode. No name in it needs to fit into an inode of the file system below, so the attributes name
//! the objects themselves, and the layer with the contents is `objects/`: the image needs no links.
//!
//! Therefore the objects of a tree in use stay as long as it is used, also without its image: see [`crate::held`].

use crate::StoreError;
use crate::dir::{Dir, write_all};
use crate::error::is_shown;
use crate::inodes::{CONTENTS, Names, beginning};
use crate::key::{Attributes, Key};
use crate::model::{Model, Node, Number, ROOT};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::{ErrorKind, Read as _, Write};
use std::path::{Path, PathBuf};
use tote_archive::Timestamp;
use tote_erofs::{Found, Image, Inode, Layout, LayoutError, ReadError, Tree, Xattr};
use tote_sys::MountRights;

/// Name of the file in a tree's directory.
pub(crate) const IMAGE: &str = "image.erofs";

/// Kind of file system, as in `/proc/filesystems`.
pub(crate) const FS: &str = "erofs";

/// Attribute of each file that has contents elsewhere; the same for all of them.
const METACOPY: Xattr<'static> = Xattr {
    name: NAMES.metacopy.as_bytes(),
    value: b"",
};

/// Only root of the machine mounts such a file.
const NAMES: Names = Names::of(MountRights::Root);

/// A model as EROFS can hold it.
#[derive(Debug)]
pub(crate) struct Seen<'a>(pub(crate) &'a Model);

impl Seen<'_> {
    /// True for a node that overlayfs would take for the mark of a removed file.
    fn is_left_out(&self, number: Number) -> bool {
        is_whiteout(&self.0.inode(number).node)
    }
}

impl Tree for Seen<'_> {
    fn inode(&self, number: usize) -> Inode<'_> {
        let inode = self.0.inode(number);
        let Attributes {
            mode,
            uid,
            gid,
            mtime,
            ..
        } = &inode.attributes;
        let Timestamp { secs, nanos } = *mtime;
        Inode {
            mode: u16::try_from(mode & 0o7777).unwrap_or_default(),
            uid: *uid,
            gid: *gid,
            secs,
            nanos,
            node: match &inode.node {
                Node::Directory(_) => tote_erofs::Node::Directory,
                Node::File { size, .. } => tote_erofs::Node::File(*size),
                Node::Symlink(target) => tote_erofs::Node::Symlink(target),
                Node::Device { block, major, minor } => tote_erofs::Node::Device {
                    block: *block,
                    major: *major,
                    minor: *minor,
                },
                Node::Fifo => tote_erofs::Node::Fifo,
            },
        }
    }

    fn names<'a>(&'a self, number: usize, each: &mut dyn FnMut(&'a [u8], usize)) {
        if let Node::Directory(children) = &self.0.inode(number).node {
            for (name, child) in children {
                if !self.is_left_out(child.inode) {
                    each(name, child.inode);
                }
            }
        }
    }

    fn xattrs(&self, number: usize, each: &mut dyn FnMut(Xattr<'_>)) {
        let inode = self.0.inode(number);
        // As in a directory on disk, other kinds have none.
        if !matches!(inode.node, Node::Directory(_) | Node::File { .. }) {
            return;
        }
        for (name, value) in &inode.attributes.xattrs {
            each(Xattr { name, value });
        }
        if let Node::File { key, size: 1.. } = &inode.node {
            each(METACOPY);
            each(Xattr {
                name: NAMES.redirect.as_bytes(),
                value: redirect(key).as_bytes(),
            });
        }
    }
}

/// The path of an object, with `objects/` as the root.
fn redirect(key: &Key) -> String {
    let mut path = String::with_capacity(104);
    path.push('/');
    key.push_name(&mut path);
    path
}

/// Places a model; `chain` is the name of its tree.
fn layout<'a>(seen: &'a Seen<'_>, chain: &str, tree: &Path) -> Result<Layout<'a>, StoreError> {
    Layout::of(seen, ROOT, uuid_of(chain), &[METACOPY]).map_err(|error| impossible(tree.join(IMAGE), &error))
}

/// Returns the name of the file system of a tree.
pub(crate) fn uuid_of(chain: &str) -> [u8; 16] {
    let mut uuid = [0; 16];
    // A tree without layers has another name than the digest of some.
    if crate::key::parse_hex(chain.get(..32).unwrap_or_default(), &mut uuid).is_none() {
        uuid = *b"tote: no layers\0";
    }
    uuid
}

/// Builds the error of a tree that the format cannot hold.
pub(crate) fn impossible(path: PathBuf, error: &LayoutError) -> StoreError {
    let errno = match error {
        LayoutError::Name(_) | LayoutError::Target => Errno::NAMETOOLONG,
        LayoutError::Xattr(_) | LayoutError::Xattrs => Errno::TOOBIG,
        LayoutError::Size | LayoutError::Blocks => Errno::FBIG,
    };
    StoreError::io("make", path, errno)
}

/// Makes the file in a tree that has none, and gives the number of device nodes that it leaves out.
pub(crate) fn make(model: &Model, chain: &str, tree: &Dir) -> Result<u64, StoreError> {
    check(model, tree)?;
    let seen = Seen(model);
    let layout = layout(&seen, chain, tree.path())?;
    let file = tree.create(IMAGE, 0o600).map_err(tree.failed("make", IMAGE))?;
    let written = layout.write(Output(&file));
    written.map_err(|source| failed("write", tree, source))?;
    Ok(model.inodes().filter(|inode| is_whiteout(&inode.node)).count() as u64)
}

fn is_whiteout(node: &Node) -> bool {
    matches!(
        node,
        Node::Device {
            block: false,
            major: 0,
            minor: 0
        }
    )
}

/// Refuses what the kernel would refuse of an ordinary tree, but not of this one: the highest number as an id, and lists of
/// rights that it cannot read.
pub(crate) fn check(model: &Model, tree: &Dir) -> Result<(), StoreError> {
    for inode in model.inodes() {
        let Attributes { uid, gid, xattrs, .. } = &inode.attributes;
        if *uid == u32::MAX || *gid == u32::MAX {
            return Err(StoreError::Owner {
                path: tree.path().join(IMAGE),
                uid: *uid,
                gid: *gid,
                source: Errno::INVAL,
            });
        }
        let is_wrong = |(name, value): &(Vec<u8>, Vec<u8>)| name.starts_with(b"system.") && !is_acl(value);
        if xattrs.iter().any(is_wrong) {
            let failed = tree.failed("set extended attributes of a file in", IMAGE);
            return Err(failed(Errno::INVAL));
        }
    }
    Ok(())
}

/// True for a list of rights as setxattr(2) takes it, see acl(5).
fn is_acl(value: &[u8]) -> bool {
    /// Version of the format, as in linux/posix_acl_xattr.h.
    const VERSION: [u8; 4] = [2, 0, 0, 0];
    let Some(entries) = value.strip_prefix(&VERSION) else {
        return false;
    };
    let (entries, rest) = entries.as_chunks::<8>();
    let is_entry = |entry: &[u8; 8]| {
        matches!(u16::from_le_bytes([entry[0], entry[1]]), 1 | 2 | 4 | 8 | 16 | 32)
            && u16::from_le_bytes([entry[2], entry[3]]) <= 7
    };
    rest.is_empty() && entries.iter().all(is_entry)
}

fn failed(attempt: &'static str, tree: &Dir, source: std::io::Error) -> StoreError {
    StoreError::Io {
        attempt,
        path: tree.path().join(IMAGE),
        source,
    }
}

/// A file that is written as all files of the store are.
pub(crate) struct Output<'a>(pub(crate) &'a OwnedFd);

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        write_all(self.0, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// True if the file has every byte that it would be written with.
pub(crate) fn is_whole(model: &Model, chain: &str, tree: &Dir) -> Result<bool, StoreError> {
    let file = match tree.open_file(IMAGE) {
        Ok(file) => std::fs::File::from(file),
        Err(Errno::NOENT | Errno::LOOP) => return Ok(false),
        Err(errno) => return Err(tree.failed("open", IMAGE)(errno)),
    };
    let seen = Seen(model);
    let layout = layout(&seen, chain, tree.path())?;
    let length = file
        .metadata()
        .map_err(|source| failed("look at", tree, source))?;
    if length.len() != layout.size() {
        return Ok(false);
    }
    match layout.write(Compared(file)) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::IsADirectory) => Ok(false),
        Err(source) => Err(failed("read", tree, source)),
    }
}

/// A file that must have what is written to it.
struct Compared(std::fs::File);

impl Write for Compared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut found = vec![0; bytes.len()];
        self.0.read_exact(&mut found)?;
        if found == bytes {
            Ok(bytes.len())
        } else {
            Err(ErrorKind::UnexpectedEof.into())
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whether the kernel shows such a file, asked with one of a single content. An older kernel mounts no file, and one that has
/// no EROFS nothing of it; neither does the kernel with a store on a file system that EROFS cannot read from.
pub(crate) fn can_be_shown(tree: &Dir) -> Result<bool, StoreError> {
    const PROBE: &str = "probe";
    tree.make(PROBE, 0o700).map_err(tree.failed("make", PROBE))?;
    let shown = || {
        let probe = tree.enter(PROBE)?;
        probe
            .make(CONTENTS, 0o700)
            .map_err(probe.failed("make", CONTENTS))?;
        let contents = probe.enter(CONTENTS)?;
        let key = Key::ZERO;
        let name = key.name(0);
        contents
            .make(&name[..2], 0o700)
            .map_err(contents.failed("make", ""))?;
        let content = contents
            .create(&name, 0o600)
            .map_err(contents.failed("make", &name))?;
        write_all(&content, b"x").map_err(contents.failed("write", &name))?;
        make(&Model::of_one_file(key, 1), "", &probe)?;
        let image = probe.path().join(IMAGE);
        let read = mount(&image, contents.path()).and_then(|view| beginning(view.as_fd(), b"file"));
        is_shown(&image, read.map(|read| read == b"x"))
    };
    let shown = shown();
    tree.remove_tree(PROBE)?;
    shown
}

/// True if the kernel shows the first content of a whole tree.
pub(crate) fn show(model: &Model, tree: &Path, objects: &Dir) -> Result<bool, StoreError> {
    let mut paths = model.paths();
    let first = paths.find_map(|(path, inode)| match &inode.node {
        Node::File { key, size: 1.. } => Some((path, *key)),
        _ => None,
    });
    let image = tree.join(IMAGE);
    let shown = mount(&image, objects.path()).and_then(|view| match first {
        None => Ok(true),
        Some((path, key)) => {
            let shown = beginning(view.as_fd(), path.as_bytes())?;
            Ok(beginning(objects.as_fd(), key.name(0).as_bytes())? == shown)
        }
    });
    is_shown(&image, shown)
}

/// Mounts such a file over the contents, read-only and attached nowhere.
pub(crate) fn mount(image: &Path, contents: &Path) -> Result<OwnedFd, Errno> {
    let names = mount_names(image)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let contents = rustix::fs::open(contents, flags, Mode::empty())?;
    tote_sys::overlay_of(names.as_fd(), contents.as_fd())
}

/// Mounts such a file alone: its files read as zeros.
pub(crate) fn mount_names(image: &Path) -> Result<OwnedFd, Errno> {
    let file = rustix::fs::open(image, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    tote_sys::file_mount(c"erofs", file.as_fd())
}

/// Opens the file of a tree, to look into it without a mount.
pub(crate) fn open(tree: &Dir) -> Result<Option<Image>, StoreError> {
    let file = match tree.open_file(IMAGE) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(tree.failed("open", IMAGE)(errno)),
    };
    let opened = Image::open(file.into());
    opened.map(Some).map_err(|error| unreadable(tree.path(), error))
}

/// Builds the error of a file that cannot be read.
pub(crate) fn unreadable(tree: &Path, error: ReadError) -> StoreError {
    let path = tree.join(IMAGE);
    match error {
        ReadError::Damaged(reason) => StoreError::damaged(path, reason),
        ReadError::Io(source) => StoreError::Io {
            attempt: "read",
            path,
            source,
        },
    }
}

/// Path of the object with the content of a file; `None` if the file has none.
pub(crate) fn object(image: &Image, file: &Found) -> Result<Option<String>, ReadError> {
    let Some(value) = image.xattr(file, NAMES.redirect.as_bytes())? else {
        return Ok(None);
    };
    let path = String::from_utf8(value).ok();
    let path = path.as_deref().and_then(|path| path.strip_prefix('/'));
    path.filter(|path| Key::of_name(path).is_some())
        .map(|path| Some(path.to_owned()))
        .ok_or(ReadError::Damaged("a file leads to no object"))
}
