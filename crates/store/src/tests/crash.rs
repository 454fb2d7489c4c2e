//! The store works after dying at any step.

use super::{Tar, add_image, listing, options, store};
use crate::fault::dying_after;
use crate::{Depth, Image, Limits, Patience, Slot, Store, StoreError};
use tote_image::Reference;

pub(super) fn layers() -> [Vec<u8>; 2] {
    let large = vec![7; (1 << 20) + 5];
    let below = Tar::default()
        .dir("bin/")
        .file("bin/a", b"same")
        .file("bin/b", b"same")
        .hardlink("bin/c", "bin/a")
        .file("large", &large)
        .entry(b'0', "no-mode", 0, "", b"hidden")
        .symlink("l", "bin");
    let above = Tar::default().file("bin/.wh.b", b"").file("bin/d", b"4");
    [below.end(), above.end()]
}

pub(super) fn name() -> Reference {
    Reference::parse("example").unwrap()
}

/// Adds an image with all steps of an addition.
fn add(store: &Store) -> Result<Image, StoreError> {
    let [below, above] = layers();
    let image = add_image(store, &[&below, &above])?;
    store.ingest()?.tag(&name(), &image.id)?;
    store.tree(&image)?;
    Ok(image)
}

/// Removes an image and sweeps.
pub(super) fn remove(store: &Store, image: &Image) -> Result<(), StoreError> {
    match store.remove_image(&image.id) {
        Ok(_) | Err(StoreError::NoImage(_)) => {}
        Err(error) => return Err(error),
    }
    store.sweep(Patience::Endless).map(|_| ())
}

/// Lists files and directories of the whole store except its fixed ones.
pub(super) fn left(store: &Store) -> Vec<String> {
    let mut left = listing(store.root.path());
    left.retain(|line| {
        let name = line.split(' ').next().unwrap_or_default();
        let is_shard = name.starts_with("objects/") && name.len() == "objects/ab".len();
        !is_shard && !["objects", "layers", "images", "names", "trees", "trash", "lock"].contains(&name)
    });
    left
}

#[test]
fn killed_while_adding() {
    let (_reference_dir, reference) = store();
    let expected = listing(reference.tree(&add(&reference).unwrap()).unwrap().path());
    let mut steps = 0;
    loop {
        let (dir, store) = store();
        let (result, died) = dying_after(steps, || add(&store));
        assert!(died || result.is_ok(), "step {steps}: {result:?}");
        if !died {
            break;
        }
        drop(store);
        let store = Store::open(&dir.path().join("store"), options()).unwrap();
        // A sweep in between must not remove anything that is needed; every other run has one.
        if steps % 2 == 0 {
            store.sweep(Patience::Endless).unwrap();
        }
        let image = add(&store).unwrap_or_else(|error| panic!("step {steps}: {error}"));
        assert_eq!(
            listing(store.tree(&image).unwrap().path()),
            expected,
            "step {steps}"
        );
        assert!(store.verify(Depth::Contents).unwrap().is_whole(), "step {steps}");
        remove(&store, &image).unwrap();
        assert_eq!(left(&store), Vec::<String>::new(), "step {steps}");
        steps += 1;
    }
    assert!(steps > 50, "{steps}");
}

#[test]
fn killed_while_removing() {
    let mut steps = 0;
    loop {
        let (dir, store) = store();
        let other = add_image(&store, &[&layers()[0]]).unwrap();
        let expected = listing(store.tree(&other).unwrap().path());
        let image = add(&store).unwrap();
        let (result, died) = dying_after(steps, || remove(&store, &image));
        assert!(died || result.is_ok(), "step {steps}: {result:?}");
        drop(store);
        let store = Store::open(&dir.path().join("store"), options()).unwrap();
        assert_eq!(
            listing(store.tree(&other).unwrap().path()),
            expected,
            "step {steps}"
        );
        assert!(store.verify(Depth::Contents).unwrap().is_whole(), "step {steps}");
        remove(&store, &image).unwrap();
        remove(&store, &other).unwrap();
        assert_eq!(left(&store), Vec::<String>::new(), "step {steps}");
        if !died {
            break;
        }
        steps += 1;
    }
    assert!(steps > 10, "{steps}");
}

/// Simulates a power cut: files whose content never reached the disk are empty.
fn cut_power(store: &mut Store, which: &str) {
    store.boot = "another boot".to_owned();
    for shard in store.objects.dir.names().unwrap() {
        let shard = store.objects.dir.enter(&shard).unwrap();
        for name in shard.names().unwrap() {
            if name.contains(which) {
                std::fs::File::options()
                    .write(true)
                    .open(shard.path().join(name))
                    .unwrap()
                    .set_len(0)
                    .unwrap();
            }
        }
    }
}

#[test]
fn a_power_cut_is_noticed() {
    let (_dir, mut store) = store();
    let image = add(&store).unwrap();
    let expected = listing(store.tree(&image).unwrap().path());
    cut_power(&mut store, "nothing at all");
    let (tree, made) = store.make_tree(&image).unwrap();
    assert!(made.is_none(), "nothing was lost");
    assert_eq!(listing(tree.path()), expected);
    drop(tree);
    cut_power(&mut store, "-");
    store.boot = "a third one".to_owned();
    let error = store.tree(&image).unwrap_err();
    assert!(
        matches!(error, StoreError::Lost { count, .. } if count > 2),
        "{error}"
    );
    // Adding the image once more repairs everything.
    let image = add(&store).unwrap();
    assert_eq!(listing(store.tree(&image).unwrap().path()), expected);
    assert!(store.verify(Depth::Contents).unwrap().is_whole());
}

#[test]
fn only_a_tree_is_lost() {
    let (_dir, mut store) = store();
    let image = add(&store).unwrap();
    let tree = store.tree(&image).unwrap();
    let expected = listing(tree.path());
    std::fs::remove_file(tree.path().join("bin/d")).unwrap();
    drop(tree);
    store.boot = "another boot".to_owned();
    let (tree, made) = store.make_tree(&image).unwrap();
    assert!(made.is_some());
    assert_eq!(listing(tree.path()), expected);
}

#[test]
fn damage_is_found_and_repaired() {
    let (_dir, store) = store();
    let image = add(&store).unwrap();
    let expected = listing(store.tree(&image).unwrap().path());
    let shard = store
        .objects
        .dir
        .enter(&store.objects.dir.names().unwrap()[0])
        .unwrap();
    let object = shard.path().join(&shard.names().unwrap()[0]);
    let size = object.metadata().unwrap().len();
    let time = object.metadata().unwrap().modified().unwrap();
    std::fs::write(&object, vec![0xee; usize::try_from(size).unwrap()]).unwrap();
    std::fs::File::open(&object).unwrap().set_modified(time).unwrap();
    assert!(
        store.verify(Depth::Sizes).unwrap().is_whole(),
        "sizes do not show it"
    );
    let verified = store.verify(Depth::Contents).unwrap();
    assert_eq!(verified.damaged.len(), 1);
    let damage = verified.damaged.values().next().unwrap();
    assert!(damage.images.contains(&image.id));
    let archives = layers();
    let repaired = store.repair(&verified, |ingest, diff_id| {
        let archive = archives
            .iter()
            .find(|archive| super::digest(archive) == *diff_id)
            .unwrap();
        match ingest.layer(diff_id)? {
            Slot::Present(_) => panic!("it was to be made again"),
            Slot::Vacant(vacancy) => ingest.fill(vacancy, &**archive, Limits::default()).map(|_| ()),
        }
    });
    repaired.unwrap_or_else(|error: StoreError| panic!("{error}"));
    assert!(store.verify(Depth::Contents).unwrap().is_whole());
    assert_eq!(listing(store.tree(&image).unwrap().path()), expected);
}
