//! Trees with other owners.

use super::{TIME, add_image, files, options};
use crate::{Patience, Shift, Shifted, Store, StoreOptions};
use rustix::fs::{Mode, OFlags};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use tote_sys::MountRights;

/// A store whose trees are empty files where the kernel shows these, or else, and with `None`, files with contents.
fn store(overlays: Option<MountRights>) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        overlays,
        ..options()
    };
    let store = Store::open(&dir.path().join("store"), options).unwrap();
    (dir, store)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn own_rights() -> MountRights {
    if is_root() {
        MountRights::Root
    } else {
        MountRights::None
    }
}

fn read(shifted: &Shifted, name: &str) -> Vec<u8> {
    let view = shifted.view().unwrap();
    let file = rustix::fs::openat(&view, name, OFlags::RDONLY, Mode::empty()).unwrap();
    let mut bytes = vec![0; 64];
    let length = rustix::io::read(file, &mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

#[test]
fn owners_are_shifted_and_contents_are_not_written_again() {
    for overlays in [None, Some(own_rights())] {
        let (_dir, store) = store(overlays);
        let image = add_image(&store, &[&files().end()]).unwrap();
        let tree = store.tree(&image).unwrap();
        let shift = Shift::keeping(1000, 0).unwrap();
        let shifted = tree.shifted(shift);
        assert_eq!(shifted.own_inodes.is_some(), tree.own_inodes().is_some());
        store.shift(&image, &shifted, shift).unwrap();
        let at = |name: &str| shifted.path.join(name).symlink_metadata().unwrap();
        if is_root() {
            assert_eq!((at("b").uid(), at("b").gid()), (1, 0));
            assert_eq!((at("").uid(), at("l").uid()), (1, 1));
        }
        assert_eq!((at("a").ino(), at("a").nlink()), (at("c").ino(), 2));
        assert_eq!((at("b").size(), at("b").mtime()), (4, TIME as i64));
        assert_eq!(at("set-id").mode(), 0o104_755);
        assert_eq!(read(&shifted, "b").len(), 4);
        if shifted.own_inodes.is_some() {
            assert_eq!(at("b").blocks(), 0);
        }
        // A second time it is there, with the same files.
        let before = at("b").ino();
        store.shift(&image, &shifted, shift).unwrap();
        assert_eq!(at("b").ino(), before);
        // Others have owners of their own.
        let other = Shift::keeping(5, 6).unwrap();
        store.shift(&image, &tree.shifted(other), other).unwrap();
        assert_ne!(tree.shifted(other).path, shifted.path);
        goes_with_the_image(&store, &image, tree, &shifted.path);
    }
}

fn goes_with_the_image(store: &Store, image: &crate::Image, tree: crate::Tree, path: &Path) {
    drop(tree);
    store.remove_image(&image.id).unwrap();
    store.sweep(Patience::Endless).unwrap();
    assert!(path.symlink_metadata().is_err());
    assert_eq!(store.trees.names().unwrap(), Vec::<String>::new());
    assert_eq!(store.trash.names().unwrap(), Vec::<String>::new());
}

#[test]
fn what_is_damaged_is_made_again() {
    for overlays in [None, Some(own_rights())] {
        let (dir, store) = store(overlays);
        let image = add_image(&store, &[&files().end()]).unwrap();
        let shift = Shift::keeping(7, 7).unwrap();
        let tree = store.tree(&image).unwrap();
        let shifted = tree.shifted(shift);
        store.shift(&image, &shifted, shift).unwrap();
        assert_eq!(store.damage_of_tree(&image).unwrap(), None);
        let copies = tree.shifted_copies(shift);
        store.shift(&image, &copies, shift).unwrap();
        drop(tree);
        for (boot, part) in ["second", "third"].into_iter().zip([&shifted, &copies]) {
            std::fs::remove_file(part.path.join("b")).unwrap();
            let damage = store.damage_of_tree(&image).unwrap();
            assert_eq!(damage.as_deref(), Some("/b is not as it was made"));
            // Another boot: the tree is looked through before its first use.
            let options = StoreOptions {
                overlays,
                ..options()
            };
            let mut again = Store::open(&dir.path().join("store"), options).unwrap();
            again.boot = boot.to_owned();
            let tree = again.tree(&image).unwrap();
            assert!(part.path.symlink_metadata().is_err(), "the tree is a new one");
            drop(tree);
            for part in [&shifted, &copies] {
                store.shift(&image, part, shift).unwrap();
            }
        }
    }
}
