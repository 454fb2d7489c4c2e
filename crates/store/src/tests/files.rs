//! Trees whose metadata are in a file.

use super::{TIME, Tar, add_image, add_layer, config, content_hash, files, listing, options};
use crate::fault::dying_after;
use crate::key::Key;
use crate::{Depth, Image, Opened, Patience, Store, StoreError, StoreOptions, Tree};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use tempfile::TempDir;
use tote_sys::MountRights;

fn file_options() -> StoreOptions {
    StoreOptions {
        overlays: Some(MountRights::Root),
        erofs_from: Some(0),
        ..options()
    }
}

fn with_files() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store"), file_options()).unwrap();
    (dir, store)
}

/// Makes the tree of an image; `None` where this process or this kernel cannot have it in a file.
fn tree_of(store: &Store, image: &Image) -> Option<Tree> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return None;
    }
    let tree = store.tree(image).unwrap();
    if tree.own_inodes().is_none_or(|own| own.fs.is_none()) {
        println!("skipped: needs Linux 6.16, with EROFS mounted from files");
        return None;
    }
    Some(tree)
}

fn file(tree: &Tree) -> PathBuf {
    tree.own_inodes().unwrap().tree.clone()
}

fn stat(view: &OwnedFd, path: &str) -> Stat {
    rustix::fs::statat(view, path, AtFlags::SYMLINK_NOFOLLOW).unwrap()
}

fn content(view: &OwnedFd, path: &str) -> std::io::Result<String> {
    let file = rustix::fs::openat(view, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    std::io::read_to_string(std::fs::File::from(file))
}

fn objects(store: &Store) -> usize {
    let shards = store.objects.dir.names().unwrap();
    let of = |shard: &String| store.objects.dir.enter(shard).unwrap().names().unwrap().len();
    shards.iter().map(of).sum()
}

fn layer() -> Vec<u8> {
    files()
        .symlink("d/up", "/../b")
        .entry(b'6', "pipe", 0o640, "", b"")
        .entry(b'5', "tmp/", 0o1777, "", b"")
        .end()
}

#[test]
fn an_image_is_one_file_and_every_file_of_it_an_inode() {
    let (_dir, store) = with_files();
    let image = add_image(&store, &[&layer()]).unwrap();
    let Some(tree) = tree_of(&store, &image) else {
        return;
    };
    assert_eq!(objects(&store), 3, "no object has a second copy or a second name");
    let parts = store.trees.enter(tree.chain().unwrap()).unwrap().names().unwrap();
    assert_eq!(parts.len(), 2, "{parts:?}");
    let view = tree.view().unwrap();
    let at = |path: &str| stat(&view, path);
    assert_eq!((at("a").st_ino, at("a").st_nlink), (at("c").st_ino, 2));
    assert_ne!(at("a").st_ino, at("b").st_ino);
    assert_eq!((at("b").st_nlink, at("empty").st_nlink), (1, 1));
    assert_eq!((at("b").st_size, at("b").st_mtime), (4, TIME as i64));
    assert_eq!(at("set-id").st_mode, 0o104_755);
    assert_eq!((at("tmp").st_mode, at("pipe").st_mode), (0o041_777, 0o010_640));
    for (path, expected) in [("a", "same"), ("l", "same"), ("set-id", "program"), ("empty", "")] {
        assert_eq!(content(&view, path).unwrap(), expected, "{path}");
    }
    // The same without a mount.
    let opened = |path: &str| match tree.open(path.as_bytes()).unwrap() {
        Opened::Content(file) => std::io::read_to_string(std::fs::File::from(file)).unwrap(),
        other => format!("{other:?}"),
    };
    for (path, expected) in [
        ("/a", "same"),
        ("l", "same"),
        ("d/up", "same"),
        ("empty", "Empty"),
        ("tmp", "NoFile"),
        ("pipe", "NoFile"),
        ("none", "Absent"),
        ("a/b", "Absent"),
    ] {
        assert_eq!(opened(path), expected, "{path}");
    }
    let links = store.links(&image, &tree).unwrap();
    assert_eq!(std::fs::read(links.join("b")).unwrap(), b"same");
    assert_eq!(store.damage_of_tree(&image).unwrap(), None);
}

#[test]
fn every_byte_of_the_file_is_checked_after_a_boot() {
    let (_dir, store) = with_files();
    let image = add_image(&store, &[&layer()]).unwrap();
    let Some(tree) = tree_of(&store, &image) else {
        return;
    };
    let path = file(&tree);
    drop(tree);
    let whole = std::fs::read(&path).unwrap();
    let doubted = || store.objects.replaced.store(true, Ordering::Relaxed);
    doubted();
    let (_, made) = store.make_tree(&image).unwrap();
    assert!(made.is_none(), "a whole one is kept");
    let mut damages = vec![
        Vec::new(),
        whole[..4096.min(whole.len() - 1)].to_vec(),
        [&*whole, b"x"].concat(),
    ];
    for at in [1024, 1200, 1500, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        damages.push(bytes);
    }
    for damaged in damages {
        std::fs::write(&path, damaged).unwrap();
        assert!(store.damage_of_tree(&image).unwrap().is_some());
        doubted();
        let (tree, made) = store.make_tree(&image).unwrap();
        assert!(made.is_some());
        assert_eq!(
            std::fs::read(file(&tree)).unwrap(),
            whole,
            "the same image is the same file"
        );
        assert_eq!(store.damage_of_tree(&image).unwrap(), None);
    }
    std::fs::remove_file(&path).unwrap();
    let (_, made) = store.make_tree(&image).unwrap();
    assert!(made.is_some(), "a lost file is noticed at once");
}

#[test]
fn a_lost_object_is_noticed_after_a_boot() {
    let (_dir, mut store) = with_files();
    let image = add_image(&store, &[&layer()]).unwrap();
    let Some(tree) = tree_of(&store, &image) else {
        return;
    };
    let Opened::Content(_) = tree.open(b"set-id").unwrap() else {
        panic!("it has a content")
    };
    drop(tree);
    let key = Key {
        content: content_hash(b"program"),
        ..Key::ZERO
    };
    let shard = store.objects.dir.enter(&key.name(0)[..2]).unwrap();
    std::fs::remove_file(shard.path().join(&shard.names().unwrap()[0])).unwrap();
    store.boot = "another boot".to_owned();
    let error = store.tree(&image).unwrap_err();
    assert!(
        matches!(error, StoreError::LostLayers { .. } | StoreError::Lost { .. }),
        "{error}"
    );
    let image = add_image(&store, &[&layer()]).unwrap();
    assert_eq!(
        content(&store.tree(&image).unwrap().view().unwrap(), "set-id").unwrap(),
        "program"
    );
}

#[test]
fn a_container_keeps_its_contents_without_the_image() {
    let (_dir, store) = with_files();
    let image = add_image(&store, &[&layer()]).unwrap();
    let Some(tree) = tree_of(&store, &image) else {
        return;
    };
    let view = tree.view().unwrap();
    let other = add_image(&store, &[&Tar::default().file("x", b"other").end()]).unwrap();
    drop(store.tree(&other).unwrap());
    assert!(store.remove_image(&image.id).unwrap().in_use);
    assert!(!store.remove_image(&other.id).unwrap().in_use);
    for _ in 0..2 {
        let swept = store.sweep(Patience::Endless).unwrap().unwrap();
        assert!(!swept.finished, "the tree is in use");
        assert_eq!(objects(&store), 2, "an empty file needs no object");
        assert_eq!(store.layers.names().unwrap().len(), 0);
    }
    // It was not opened before.
    assert_eq!(content(&view, "set-id").unwrap(), "program");
    drop((view, tree));
    let swept = store.sweep(Patience::Endless).unwrap().unwrap();
    assert!(swept.finished);
    assert_eq!((objects(&store), store.trees.names().unwrap().len()), (0, 0));
}

#[test]
fn a_tree_in_the_trash_keeps_its_contents_while_it_is_used() {
    let (_dir, store) = with_files();
    let image = add_image(&store, &[&layer()]).unwrap();
    let Some(tree) = tree_of(&store, &image) else {
        return;
    };
    let view = tree.view().unwrap();
    store.discard(&store.trees, tree.chain().unwrap()).unwrap();
    store.remove_image(&image.id).unwrap();
    store.sweep(Patience::Endless).unwrap().unwrap();
    assert_eq!(content(&view, "set-id").unwrap(), "program");
    drop(tree);
    assert!(store.sweep(Patience::Endless).unwrap().unwrap().finished);
    assert_eq!((objects(&store), store.trash.names().unwrap().len()), (0, 0));
}

#[test]
fn a_tree_keeps_its_contents_where_a_layer_is_damaged() {
    let (_dir, store) = with_files();
    let image = add_image(&store, &[&layer()]).unwrap();
    let Some(tree) = tree_of(&store, &image) else {
        return;
    };
    let layer = store.layers.path().join(&store.layers.names().unwrap()[0]);
    std::fs::write(layer.join("contents"), "half").unwrap();
    drop(tree);
    store.sweep(Patience::Endless).unwrap().unwrap();
    assert_eq!(objects(&store), 2);
    // A tree that cannot say what it needs stops the sweep while it is used, and no longer.
    let tree = store.tree(&image).unwrap();
    std::fs::write(file(&tree), "").unwrap();
    assert!(!store.sweep(Patience::Endless).unwrap().unwrap().finished);
    assert_eq!(objects(&store), 2);
    drop(tree);
    assert!(store.sweep(Patience::Endless).unwrap().unwrap().finished);
    assert_eq!(objects(&store), 0);
}

#[test]
fn trees_of_both_forms_are_used_as_they_are() {
    let (dir, store) = with_files();
    let image = add_image(&store, &[&layer()]).unwrap();
    if tree_of(&store, &image).is_none() {
        return;
    }
    store
        .discard(&store.trees, &store.tree_name(&image).unwrap())
        .unwrap();
    let path = dir.path().join("store");
    let open = |erofs_from| {
        let options = StoreOptions {
            erofs_from,
            ..file_options()
        };
        Store::open(&path, options).unwrap()
    };
    // It has one inode too few for a file.
    let inodes = store.model(&image).unwrap().inodes().count() as u64;
    let older = open(Some(inodes + 1)).tree(&image).unwrap();
    assert_eq!(older.own_inodes().unwrap().fs, None);
    let (newer, made) = store.make_tree(&image).unwrap();
    assert!(made.is_none() && newer.own_inodes() == older.own_inodes());
    store.objects.replaced.store(true, Ordering::Relaxed);
    let (newer, made) = store.make_tree(&image).unwrap();
    assert!(made.is_none() && newer.own_inodes() == older.own_inodes());
    drop((older, newer));
    // The other way about, a store that does not mount files has the tree made anew.
    store
        .discard(&store.trees, &store.tree_name(&image).unwrap())
        .unwrap();
    assert!(tree_of(&store, &image).is_some());
    let older = open(None).tree(&image).unwrap();
    assert_eq!(older.own_inodes().unwrap().fs, None);
    assert_eq!(content(&older.view().unwrap(), "a").unwrap(), "same");
}

/// Lists what a view shows, by copying it.
fn shown(view: &OwnedFd) -> Vec<String> {
    let name = format!("/proc/self/fd/{}/", std::os::fd::AsRawFd::as_raw_fd(view));
    listing(Path::new(&name))
}

#[test]
fn killed_at_any_step_it_is_whole_or_made_again() {
    let (_reference, reference) = with_files();
    let archive = Tar::default()
        .file("a", b"same")
        .file("d/b", b"other")
        .symlink("l", "a")
        .end();
    let image = add_image(&reference, &[&archive]).unwrap();
    let Some(tree) = tree_of(&reference, &image) else {
        return;
    };
    let expected = shown(&tree.view().unwrap());
    for steps in 0.. {
        let (_dir, mut store) = with_files();
        let (_, died) = dying_after(steps, || {
            let image = add_image(&store, &[&archive])?;
            let tree = store.tree(&image)?;
            drop(tree);
            store.remove_image(&image.id)?;
            store.sweep(Patience::Endless).map(drop)
        });
        store.boot = format!("another boot {steps}");
        add_layer(&store, &archive).unwrap();
        let again = store.ingest().unwrap().image(&config(&[&archive]), None).unwrap();
        let tree = store.tree(&again).unwrap();
        assert_eq!(shown(&tree.view().unwrap()), expected, "after {steps} steps");
        drop(tree);
        assert!(store.verify(Depth::Contents).unwrap().is_whole());
        store.remove_image(&again.id).unwrap();
        assert!(store.sweep(Patience::Endless).unwrap().unwrap().finished);
        let left = [&store.trees, &store.trash, &store.layers].map(|dir| dir.names().unwrap().len());
        assert_eq!((objects(&store), left), (0, [0; 3]), "after {steps} steps");
        if !died {
            assert!(steps > 20, "a life has many steps");
            return;
        }
    }
}

#[test]
fn what_the_kernel_would_refuse_in_a_directory_is_refused() {
    let (_dir, store) = with_files();
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let long = "n".repeat(300);
    let layer = Tar::default().symlink("short", &"t".repeat(99)).end();
    let image = add_image(&store, &[&layer]).unwrap();
    if tree_of(&store, &image).is_none() {
        return;
    }
    // A pax header gives the name, which does not fit into the field.
    let record = format!("path={long}\n");
    let record = format!("{} {record}", record.len() + 4);
    let layer = Tar::default()
        .entry(b'x', "pax", 0o644, "", record.as_bytes())
        .file("a", b"")
        .end();
    match add_image(&store, &[&layer]) {
        Ok(image) => {
            let error = store.tree(&image).unwrap_err();
            assert_eq!(error.errno(), Some(rustix::io::Errno::NAMETOOLONG), "{error}");
        }
        Err(error) => panic!("the layer is refused already: {error}"),
    }
    assert_eq!(
        store
            .trees
            .names()
            .unwrap()
            .iter()
            .filter(|name| name.starts_with(".new-"))
            .count(),
        0
    );
}
