//! Trees with other owners.

use super::crash::{left, remove};
use super::{TIME, Tar, add_image, files, listing, options};
use crate::fault::dying_after;
use crate::{Depth, Patience, Shift, Shifted, Store, StoreOptions};
use rustix::fs::{Mode, OFlags};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;
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

fn quiet(_: usize, _: usize) {}

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
        let told = Mutex::new(Vec::new());
        let tell = |done, of| told.lock().unwrap().push((done, of));
        store.shift(&image, &shifted, shift, &tell).unwrap();
        // One file has two names.
        assert_eq!(told.into_inner().unwrap(), [(1, 4), (2, 4), (3, 4), (4, 4)]);
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
        store.shift(&image, &shifted, shift, &quiet).unwrap();
        assert_eq!(at("b").ino(), before);
        // Others have owners of their own.
        let other = Shift::keeping(5, 6).unwrap();
        store.shift(&image, &tree.shifted(other), other, &quiet).unwrap();
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
        store.shift(&image, &shifted, shift, &quiet).unwrap();
        assert_eq!(store.damage_of_tree(&image).unwrap(), None);
        let copies = tree.shifted_copies(shift);
        store.shift(&image, &copies, shift, &quiet).unwrap();
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
                store.shift(&image, part, shift, &quiet).unwrap();
            }
        }
    }
}

/// A maker that is killed at any step leaves nothing that another takes for a whole tree, and nothing that stays.
#[test]
fn killed_while_making() {
    for overlays in [None, Some(own_rights())] {
        let shift = Shift::keeping(7, 8).unwrap();
        let make = |store: &Store| {
            let layer = Tar::default()
                .dir("bin/")
                .file("bin/a", b"same")
                .hardlink("bin/c", "bin/a");
            let image = add_image(store, &[&layer.file("d", b"4").end()]).unwrap();
            let shifted = store.tree(&image).unwrap().shifted(shift);
            (image, shifted)
        };
        let (_reference_dir, reference) = store(overlays);
        let (image, shifted) = make(&reference);
        reference.shift(&image, &shifted, shift, &quiet).unwrap();
        let expected = listing(&shifted.path);
        let mut steps = 0;
        loop {
            let (dir, store) = store(overlays);
            let (image, shifted) = make(&store);
            let (result, died) = dying_after(steps, || store.shift(&image, &shifted, shift, &quiet));
            assert!(died || result.is_ok(), "step {steps}: {result:?}");
            if !died {
                break;
            }
            drop(store);
            let options = StoreOptions {
                overlays,
                ..options()
            };
            let store = Store::open(&dir.path().join("store"), options).unwrap();
            if steps % 2 == 0 {
                store.sweep(Patience::Endless).unwrap();
            }
            store.shift(&image, &shifted, shift, &quiet).unwrap();
            assert_eq!(listing(&shifted.path), expected, "step {steps}");
            assert!(store.verify(Depth::Contents).unwrap().is_whole(), "step {steps}");
            remove(&store, &image).unwrap();
            assert_eq!(left(&store), Vec::<String>::new(), "step {steps}");
            steps += 1;
        }
        assert!(steps > 10, "{steps}");
    }
}

/// Copies take space of their own, which belongs to their image; empty files do not.
#[test]
fn copies_are_counted() {
    let (_dir, store) = store(None);
    let image = add_image(
        &store,
        &[&Tar::default().file("a", &[1; 8192]).hardlink("b", "a").end()],
    )
    .unwrap();
    let other = add_image(&store, &[&Tar::default().file("c", &[2; 4096]).end()]).unwrap();
    let usage = || store.usage(&|id| *id == image.id).unwrap();
    let unique = |usage: &crate::Usage, id| {
        let part = usage.images.iter().find(|part| part.id == id).unwrap();
        (part.unique, part.shared)
    };
    let before = usage();
    assert_eq!((before.stored, before.active), (12288, 8192));
    let tree = store.tree(&image).unwrap();
    for kept in [3, 4] {
        let shift = Shift::keeping(kept, kept).unwrap();
        store
            .shift(&image, &tree.shifted_copies(shift), shift, &quiet)
            .unwrap();
    }
    let after = usage();
    let of = rustix::fs::statfs(store.root.path()).unwrap().f_type;
    if matches!(u64::try_from(of), Ok(0x9123_683e | 0x5846_5342)) {
        println!("skipped: needs a file system whose copies take space");
        return;
    }
    assert_eq!((after.stored, after.active), (12288 + 2 * 8192, 3 * 8192));
    assert_eq!(unique(&after, image.id), (3 * 8192, 0));
    assert_eq!(unique(&after, other.id), unique(&before, other.id));
    // A tree that is gone has none.
    let chain = store.tree_name(&image).unwrap();
    drop(tree);
    std::fs::rename(store.trees.path().join(&chain), store.trees.path().join("aside")).unwrap();
    assert_eq!(usage().stored, before.stored);
    assert!(matches!(store.copies_of(&image), Ok(0)));
}
