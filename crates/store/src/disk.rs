//! An image in a single file, with the contents: the disk of virtual machines, which see no other file of the store.
//!
//! It is made when the first machine asks for it, and goes with the tree of the image. In contrast to the store's other files
//! it has no second form by which it could be checked, so it is on the disk of this machine before it gets its name.

use crate::StoreError;
use crate::dir::Dir;
use crate::erofs::{Output, Seen, check, impossible, uuid_of};
use crate::leased::Tree;
use crate::model::{Model, Node, ROOT};
use crate::objects::Objects;
use crate::store::Store;
use crate::stored_image::Image;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::Mode;
use std::io::{Error, ErrorKind, Write};
use std::path::PathBuf;
use tote_erofs::{Inode, Layout, Xattr};
use tote_sys::best_effort;

/// Name of the file in a tree's directory.
const DISK: &str = "disk.erofs";

/// Bytes that are read of a content at a time.
const CHUNK: usize = 256 << 10;

impl Tree {
    /// Returns the place where [`Store::disk`] makes that file.
    #[must_use]
    pub fn disk_path(&self) -> PathBuf {
        self.dir.join(DISK)
    }
}

impl Store {
    /// Returns the path of an image as the disk of a virtual machine, a file of EROFS that everyone may read who reaches it:
    /// made now unless an earlier command has asked for it. It stays as long as the tree.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn disk(&self, image: &Image, tree: &Tree) -> Result<PathBuf, StoreError> {
        self.add_to_tree(image, DISK, |chain, dir, model| {
            self.check_objects(image, &model)?;
            make(&model, chain, dir, &self.objects)
        })?;
        Ok(tree.disk_path())
    }
}

/// A model whose files have their data in the image, and so no attributes that lead to them.
struct Whole<'a>(Seen<'a>);

impl tote_erofs::Tree for Whole<'_> {
    fn inode(&self, number: usize) -> Inode<'_> {
        self.0.inode(number)
    }

    fn names<'a>(&'a self, number: usize, each: &mut dyn FnMut(&'a [u8], usize)) {
        self.0.names(number, each);
    }

    fn xattrs(&self, number: usize, each: &mut dyn FnMut(Xattr<'_>)) {
        let inode = self.0.0.inode(number);
        if matches!(inode.node, Node::Directory(_) | Node::File { .. }) {
            for (name, value) in &inode.attributes.xattrs {
                each(Xattr { name, value });
            }
        }
    }
}

fn make(model: &Model, chain: &str, tree: &Dir, objects: &Objects) -> Result<(), StoreError> {
    check(model, tree)?;
    let whole = Whole(Seen(model));
    let layout = Layout::with_data(&whole, ROOT, uuid_of(chain))
        .map_err(|error| impossible(tree.path().join(DISK), &error))?;
    let (file, unfinished) = tree.create_unfinished()?;
    let written = fill(&layout, model, &file, objects).map_err(|source| StoreError::Io {
        attempt: "write",
        path: tree.path().join(DISK),
        source,
    });
    let named = written.and_then(|()| {
        let named = tree.rename(&unfinished, tree, DISK);
        named.map_err(tree.failed("make", DISK))
    });
    if named.is_err() {
        best_effort(tree.unlink(&unfinished));
    }
    named
}

fn fill(layout: &Layout<'_>, model: &Model, file: &OwnedFd, objects: &Objects) -> std::io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut data = |number: usize, out: &mut dyn Write| {
        let Node::File { key, .. } = &model.inode(number).node else {
            return Err(ErrorKind::InvalidData.into());
        };
        let content = objects.dir.open_file(&key.name(0))?;
        loop {
            match rustix::io::retry_on_intr(|| rustix::io::read(content.as_fd(), &mut buffer))? {
                0 => return Ok::<_, Error>(()),
                length => out.write_all(&buffer[..length])?,
            }
        }
    };
    layout.write_with_data(Output(file), &mut data)?;
    rustix::fs::fchmod(file, Mode::from_raw_mode(0o444))?;
    rustix::fs::fdatasync(file)?;
    Ok(())
}
