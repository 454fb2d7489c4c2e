//! Trees of empty files, and what is known of the layers that they are made of.

use super::{TIME, Tar, add_image, config, digest, files, options, store};
use crate::inodes::Names;
use crate::leased::OwnInodes;
use crate::model::Model;
use crate::recent::{Changes, Recent};
use crate::{Limits, Patience, Store, StoreOptions};
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use tote_archive::{Change, Entry, EntryPath, Kind};
use tote_sys::MountRights;

fn inode(path: &Path) -> u64 {
    path.symlink_metadata().unwrap().ino()
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Directories of two file systems: that of temporary files, and one that keeps long attributes without a block, where it is mounted.
fn file_systems() -> [PathBuf; 2] {
    [std::env::temp_dir(), "/dev/shm".into()]
}

/// The files at the place of a tree's contents.
fn contents(own: &OwnInodes) -> Vec<PathBuf> {
    let files = |dir: &Path| -> Vec<PathBuf> {
        let entries = dir.read_dir().unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let (directories, mut found): (Vec<_>, Vec<_>) = files(&own.contents)
        .into_iter()
        .partition(|path| path.symlink_metadata().unwrap().is_dir());
    found.extend(directories.iter().flat_map(|dir| files(dir)));
    found
}

/// The file with this content.
fn content_file(own: &OwnInodes, content: &[u8]) -> PathBuf {
    let mut found = contents(own).into_iter();
    found
        .find(|path| std::fs::read(path).unwrap() == content)
        .unwrap()
}

fn with_inodes() -> (tempfile::TempDir, Store) {
    with_inodes_in(&std::env::temp_dir())
}

fn with_inodes_in(parent: &Path) -> (tempfile::TempDir, Store) {
    let rights = if rustix::process::geteuid().is_root() {
        MountRights::Root
    } else {
        MountRights::None
    };
    let options = StoreOptions {
        overlays: Some(rights),
        ..options()
    };
    let dir = tempfile::tempdir_in(parent).unwrap();
    let store = Store::open(&dir.path().join("store"), options).unwrap();
    (dir, store)
}

#[test]
fn every_file_of_an_image_has_an_inode_of_its_own() {
    file_systems()
        .iter()
        .for_each(|parent| has_inodes_of_its_own(parent));
}

fn has_inodes_of_its_own(parent: &Path) {
    let (_dir, store) = with_inodes_in(parent);
    let layer = files().end();
    let image = add_image(&store, &[&layer]).unwrap();
    let tree = store.tree(&image).unwrap();
    let Some(own) = tree.own_inodes() else {
        println!("skipped: needs Linux 6.16, and extended attributes of overlayfs");
        return;
    };
    let at = |name: &str| own.tree.join(name).symlink_metadata().unwrap();
    assert_eq!((at("a").ino(), at("a").nlink()), (at("c").ino(), 2));
    assert_eq!((at("b").nlink(), at("empty").nlink()), (1, 1));
    assert_eq!((at("b").size(), at("b").mtime()), (4, TIME as i64));
    assert_eq!(
        at("b").blocks(),
        0,
        "the content is elsewhere, the attributes in the inode"
    );
    assert_eq!(at("set-id").mode(), 0o104_755);
    assert!(at("l").is_symlink());
    // There are two contents: the empty file needs none.
    let has_links = is_there(&own.tree.with_file_name("contents"));
    assert_eq!(contents(own).len(), if has_links { 2 } else { 3 });
    let program = content_file(own, b"program");
    assert_eq!(program.metadata().unwrap().nlink(), if has_links { 2 } else { 1 });
    assert_eq!(store.damage_of_tree(&image).unwrap(), None);
    for path in [own.tree.join("b"), own.tree.join("l"), program] {
        let hidden = path.with_file_name(".new-hidden");
        std::fs::rename(&path, &hidden).unwrap();
        assert!(store.damage_of_tree(&image).unwrap().is_some(), "{path:?}");
        std::fs::rename(&hidden, &path).unwrap();
    }
    assert_eq!(store.damage_of_tree(&image).unwrap(), None);
    // A file that leads to the content of another one.
    let file = std::fs::File::open(own.tree.join("b")).unwrap();
    let other = std::fs::File::open(own.tree.join("set-id")).unwrap();
    let redirect = Names::of(own.rights).redirect;
    let mut value = [0; 128];
    let length = rustix::fs::fgetxattr(&other, redirect, &mut value[..]).unwrap();
    rustix::fs::fsetxattr(&file, redirect, &value[..length], XattrFlags::REPLACE).unwrap();
    assert!(store.damage_of_tree(&image).unwrap().is_some());
}

/// A file is created with its mode where it keeps that: this process's umask and a default ACL of the directory must not show.
#[test]
fn files_have_their_modes_whatever_new_files_get() {
    // Version 2: all rights for the owner, none for its group and others.
    let acl: Vec<u8> = [2_u32.to_le_bytes().as_slice()]
        .into_iter()
        .chain([
            [1, 0, 7, 0, 255, 255, 255, 255].as_slice(),
            &[4, 0, 0, 0, 255, 255, 255, 255],
            &[32, 0, 0, 0, 255, 255, 255, 255],
        ])
        .flatten()
        .copied()
        .collect();
    let modes = [
        0o644, 0o666, 0o755, 0o777, 0o444, 0o400, 0o200, 0o600, 0o4755, 0o2711,
    ];
    let layer = modes.iter().fold(Tar::default(), |tar, mode| {
        tar.entry(b'0', &format!("{mode:o}"), *mode, "", b"content")
    });
    let layer = layer.end();
    for default_acl in [None, Some(&acl)] {
        let (dir, store) = with_inodes();
        if let Some(acl) = default_acl {
            let trees = dir.path().join("store/trees");
            match rustix::fs::setxattr(&trees, "system.posix_acl_default", acl, XattrFlags::CREATE) {
                Err(Errno::OPNOTSUPP) => return println!("skipped: needs a file system with ACLs"),
                set => set.unwrap(),
            }
        }
        let tree = store.tree(&add_image(&store, &[&layer]).unwrap()).unwrap();
        let Some(own) = tree.own_inodes() else {
            println!("skipped: needs Linux 6.16, and extended attributes of overlayfs");
            return;
        };
        // Without privilege the store itself must be able to read the files.
        let readable = if rustix::process::geteuid().is_root() {
            0
        } else {
            0o400
        };
        for mode in modes {
            let made = own.tree.join(format!("{mode:o}")).symlink_metadata().unwrap();
            assert_eq!(made.mode() & 0o7777, mode | readable, "{mode:o}");
        }
    }
}

#[test]
fn objects_that_a_tree_leads_to_stay_while_it_is_used() {
    for parent in file_systems() {
        let (_dir, store) = with_inodes_in(&parent);
        let archive = Tar::default().file("d/e/a", b"first").file("b", b"").end();
        let image = add_image(&store, &[&archive]).unwrap();
        let tree = store.tree(&image).unwrap();
        let Some(own) = tree.own_inodes() else {
            println!("skipped: needs Linux 6.16, and extended attributes of overlayfs");
            return;
        };
        let view = tree.view().unwrap();
        assert!(store.remove_image(&image.id).unwrap().in_use);
        for _ in 0..2 {
            assert!(!store.sweep(Patience::Endless).unwrap().unwrap().finished);
        }
        assert_eq!(store.layers.names().unwrap().len(), 0);
        // It was not opened before.
        let seen = rustix::fs::openat(&view, "d/e/a", OFlags::RDONLY, Mode::empty()).unwrap();
        let seen = std::io::read_to_string(std::fs::File::from(seen)).unwrap();
        assert_eq!(seen, "first", "in {}", parent.display());
        // A tree that cannot say what it needs keeps everything.
        if own.contents == store.objects.dir.path() {
            let file = std::fs::File::open(own.tree.join("d/e/a")).unwrap();
            let redirect = Names::of(own.rights).redirect;
            rustix::fs::fsetxattr(&file, redirect, b"/../a", XattrFlags::REPLACE).unwrap();
            assert!(!store.sweep(Patience::Endless).unwrap().unwrap().finished);
            assert_eq!(contents(own).len(), 1);
        }
        drop((view, tree));
        assert!(store.sweep(Patience::Endless).unwrap().unwrap().finished);
        let left = [&store.trees, &store.trash, &store.objects.dir].map(|dir| dir.names().unwrap());
        let files = |shard: &String| store.objects.dir.enter(shard).unwrap().names().unwrap().len();
        assert_eq!((left[0].len(), left[1].len()), (0, 0));
        assert_eq!(left[2].iter().map(files).sum::<usize>(), 0);
    }
}

#[test]
fn a_tree_is_made_of_what_was_just_taken_in() {
    let (_dir, store) = store();
    let lower = Tar::default()
        .dir("d/")
        .file("d/a", b"first")
        .entry(b'0', "set-id", 0o4755, "", b"program")
        .sparse("holes", 3 << 20, 1 << 20, b"stored")
        .file("large", &vec![7; 2 << 20])
        .end();
    let upper = Tar::default()
        .file("d/.wh.a", b"")
        .hardlink("again", "set-id")
        .symlink("l", "large")
        .entry(b'5', "tmp/", 0o1777, "", b"")
        .file("tmp/.wh..wh..opq", b"")
        .end();
    let ingest = store.ingest().unwrap();
    let take_in = || {
        for layer in [&lower, &upper] {
            ingest.add_layer(&**layer, Limits::default()).unwrap();
        }
        ingest.image(&config(&[&lower, &upper]), None).unwrap()
    };
    let image = take_in();
    let inodes = |model: &Model| -> Vec<_> {
        let paths = model.paths();
        paths.map(|(path, inode)| (path, inode.clone())).collect()
    };
    let records = store.layers.enter(&digest(&lower).hex()).unwrap();
    std::fs::rename(records.path().join("framing"), records.path().join("away")).unwrap();
    let known = inodes(&store.model(&image).unwrap());
    // A second time there are only the records.
    assert!(store.model(&image).is_err());
    std::fs::rename(records.path().join("away"), records.path().join("framing")).unwrap();
    let read = inodes(&store.model(&image).unwrap());
    assert_eq!(known, read);
    assert_eq!(known.len(), 8);
    // Nothing is left in memory when the addition ends.
    take_in();
    drop(ingest);
    assert!(store.recent.take(&digest(&lower)).is_none());
}

#[test]
fn too_many_changes_are_not_kept() {
    let recent = Recent::default();
    let layer = |count: usize, target: usize| {
        let mut changes = Changes::default();
        for _ in 0..count {
            let target = vec![b'x'; target];
            let path = EntryPath::parse(b"link").unwrap();
            changes.push(Change::Add(Entry::new(path, Kind::Symlink { target })), None);
        }
        changes
    };
    let [first, second, third] = [1, 2, 3].map(|byte| tote_image::Digest::sha256([byte; 32]));
    recent.keep(first, layer(100_000, 1));
    recent.keep(second, layer(100_000, 1));
    recent.keep(third, layer(33, 1 << 20));
    assert!(recent.take(&second).is_none() && recent.take(&third).is_none());
    assert_eq!(recent.take(&first).unwrap().iter().count(), 100_000);
    recent.keep(third, layer(31, 1 << 20));
    assert_eq!(recent.take(&third).unwrap().iter().count(), 31);
}

#[test]
fn a_tree_with_inodes_of_its_own_gets_links_to_objects_when_somebody_asks_for_them() {
    let (_dir, store) = with_inodes();
    let layer = Tar::default()
        .file("d/a", b"same")
        .file("b", b"same")
        .file("empty", b"")
        .end();
    let image = add_image(&store, &[&layer]).unwrap();
    let tree = store.tree(&image).unwrap();
    if tree.own_inodes().is_none() {
        println!("skipped: needs Linux 6.16, and extended attributes of overlayfs");
        return;
    }
    assert!(!is_there(&tree.links_path()), "nobody has asked");
    let content = |name: &str| {
        let file = std::fs::File::open(tree.path().join(name)).unwrap();
        let content = std::fs::File::from(tree.content_of(file.into()).unwrap());
        std::io::read_to_string(content).unwrap()
    };
    assert_eq!((content("d/a").as_str(), content("empty").as_str()), ("same", ""));
    let view = tree.view().unwrap();
    let seen = rustix::fs::openat(&view, "d/a", OFlags::RDONLY, Mode::empty()).unwrap();
    assert_eq!(
        std::io::read_to_string(std::fs::File::from(seen)).unwrap(),
        "same"
    );
    // What a killed command was making goes with the next sweep.
    let left = tree.path().with_file_name(".new-1-1");
    std::fs::create_dir(&left).unwrap();
    store.sweep(Patience::Endless).unwrap();
    assert!(!is_there(&left));
    for _ in 0..2 {
        let links = store.links(&image, &tree).unwrap();
        assert_eq!(std::fs::read(links.join("d/a")).unwrap(), b"same");
        assert_ne!(inode(&links.join("d/a")), inode(&links.join("b")));
    }
    assert_eq!(store.damage_of_tree(&image).unwrap(), None);
    // Damaged, they make the whole tree anew, without them.
    std::fs::remove_file(tree.links_path().join("b")).unwrap();
    assert!(store.damage_of_tree(&image).unwrap().is_some());
    store.objects.replaced.store(true, Ordering::Relaxed);
    let new = store.tree(&image).unwrap();
    assert!(new.own_inodes().is_some() && !is_there(&new.links_path()));
    assert_eq!(store.damage_of_tree(&image).unwrap(), None);
}

#[test]
fn a_tree_of_an_older_build_is_used_as_it_is() {
    let (dir, store) = with_inodes();
    let image = add_image(&store, &[&Tar::default().file("a", b"first").end()]).unwrap();
    let tree = store.tree(&image).unwrap();
    if tree.own_inodes().is_none() {
        println!("skipped: needs Linux 6.16, and extended attributes of overlayfs");
        return;
    }
    // Builds until November 2026 made these with each tree.
    store.links(&image, &tree).unwrap();
    let before = inode(tree.path());
    drop(tree);
    for boot in ["this", "another"] {
        if boot == "another" {
            store.objects.replaced.store(true, Ordering::Relaxed);
        }
        let tree = store.tree(&image).unwrap();
        assert_eq!(inode(tree.path()), before, "in {boot} boot");
        assert!(is_there(&tree.links_path()));
    }
    // A store of a kernel that shows no such trees has the links.
    drop(store);
    let store = Store::open(&dir.path().join("store"), options()).unwrap();
    let tree = store.tree(&image).unwrap();
    assert!(tree.own_inodes().is_none() && tree.path() == tree.links_path());
}

#[test]
fn a_tree_in_use_stays_as_it_is_when_it_is_looked_through() {
    let (_dir, store) = with_inodes();
    let layer = Tar::default().file("a", b"first").end();
    let image = add_image(&store, &[&layer]).unwrap();
    let used = store.tree(&image).unwrap();
    let Some(own) = used.own_inodes() else {
        println!("skipped: needs Linux 6.16, and extended attributes of overlayfs");
        return;
    };
    let before = inode(&own.tree);
    // After an object was replaced, every tree is checked before its next use, in the same boot.
    store.objects.replaced.store(true, Ordering::Relaxed);
    let again = store.tree(&image).unwrap();
    assert_eq!(again.own_inodes(), Some(own));
    assert_eq!(inode(&own.tree), before);
    // A damaged tree is replaced by another one, and stays in the trash while it is in use.
    std::fs::remove_file(own.tree.join("a")).unwrap();
    store.objects.replaced.store(true, Ordering::Relaxed);
    let new = store.tree(&image).unwrap();
    assert_eq!(new.own_inodes(), Some(own));
    assert_ne!(inode(&own.tree), before);
    assert_eq!(store.damage_of_tree(&image).unwrap(), None);
}
