//! Where the files of an image are on disk.

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The file on disk that has the name of a file of an image, given a directory of the store's `trees/`: all names are in
/// one file where the kernel can mount that.
pub(super) fn name_of(tree: &Path, path: &str) -> PathBuf {
    let all = tree.join(IMAGE);
    if all.exists() {
        return all;
    }
    let inodes = tree.join("inodes");
    let names = if inodes.exists() {
        inodes
    } else {
        tree.join("root")
    };
    names.join(path)
}

/// The file with all names of an image.
pub(super) const IMAGE: &str = "image.erofs";

/// Mounts the names of an image that are in a file, attached nowhere.
fn mounted(file: &Path) -> Result<OwnedFd> {
    let context = fsopen("erofs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", file)?;
    fsconfig_set_flag(&context, "ro")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// The file on disk that has the content of a file of an image, given a directory of the store's `trees/`: it is elsewhere
/// where files have inodes of their own.
pub(super) fn content_of(tree: &Path, path: &str) -> Result<PathBuf> {
    let name = name_of(tree, path);
    let is_image = name.ends_with(IMAGE);
    let store = tree.ancestors().nth(2).context("a tree is in the store")?;
    let objects = store.join("objects");
    let (file, contents) = if is_image {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(mounted(&name)?, path, flags, Mode::empty())?;
        (file, objects)
    } else {
        let own = tree.join("contents");
        let contents = if own.exists() { own } else { objects };
        (OwnedFd::from(fs::File::open(&name)?), contents)
    };
    for attribute in ["trusted.overlay.redirect", "user.overlay.redirect"] {
        let mut value = [0; 256];
        if let Ok(length) = rustix::fs::fgetxattr(&file, attribute, &mut value[..]) {
            return Ok(contents.join(str::from_utf8(&value[..length])?.trim_start_matches('/')));
        }
    }
    ensure!(!is_image, "{path} has no content");
    Ok(name)
}
