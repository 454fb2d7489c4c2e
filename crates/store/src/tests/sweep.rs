use super::{Tar, add_image, add_layer, digest, listing, store};
use crate::gap::STORE;
use crate::lock::Lock;
use crate::{Depth, Patience, Store};
use std::time::{Duration, Instant};
use tote_image::Reference;

fn objects(store: &Store) -> usize {
    let shards = store.objects.dir.names().unwrap();
    shards
        .iter()
        .map(|shard| store.objects.dir.enter(shard).unwrap().names().unwrap().len())
        .sum()
}

#[test]
fn what_no_image_needs_goes() {
    let (_dir, store) = store();
    let base = Tar::default().file("base", b"base").end();
    let one = add_image(
        &store,
        &[
            &base,
            &Tar::default().file("one", b"one").file("two", b"one").end(),
        ],
    )
    .unwrap();
    let two = add_image(&store, &[&base, &Tar::default().file("two", b"two").end()]).unwrap();
    drop((store.tree(&one).unwrap(), store.tree(&two).unwrap()));
    assert_eq!(objects(&store), 4, "three contents, and a second copy of one");
    store
        .ingest()
        .unwrap()
        .tag(&Reference::parse("one").unwrap(), &one.id)
        .unwrap();
    let removed = store.remove_image(&one.id).unwrap();
    assert_eq!(removed.names.len(), 1);
    assert_eq!(removed.layers.len(), 1, "the other one is used still");
    assert!(!removed.in_use && store.has_garbage());
    let swept = store.sweep(Patience::Endless).unwrap().unwrap();
    assert!(swept.finished && !store.has_garbage());
    assert_eq!((swept.objects, swept.layers), (2, 1));
    assert_eq!(objects(&store), 2);
    assert_eq!(store.trash.names().unwrap().len(), 0);
    assert_eq!(store.trees.names().unwrap().len(), 1);
    assert!(store.verify(Depth::Contents).unwrap().is_whole());
    assert_eq!(listing(store.tree(&two).unwrap().path()).len(), 2);
}

#[test]
fn what_the_killed_leave_is_garbage() {
    let (_dir, store) = store();
    let archive = Tar::default().file("a", b"1").end();
    let ingest = store.ingest_at_once().unwrap();
    add_layer(&store, &archive).unwrap();
    assert!(store.has_marks() && !store.has_garbage());
    assert_eq!(store.sweep(Patience::Until(Instant::now())).unwrap(), None);
    assert!(store.has_marks(), "it is alive");
    drop(ingest);
    assert!(
        !store.has_marks() && !store.has_garbage(),
        "what ends is no garbage"
    );
    // As if a killed process had left only this mark.
    drop(store.root.create_numbered(crate::dir::ADDING).unwrap());
    let swept = store.sweep(Patience::Until(Instant::now())).unwrap().unwrap();
    assert!(!swept.finished && store.has_garbage() && !store.has_marks());
    let swept = store.sweep(Patience::Endless).unwrap().unwrap();
    assert!(swept.finished && !store.has_garbage());
    assert_eq!(objects(&store), 0);
}

#[test]
fn nothing_goes_while_something_is_added() {
    let (_dir, store) = store();
    let archive = Tar::default().file("a", b"1").end();
    let ingest = store.ingest().unwrap();
    add_layer(&store, &archive).unwrap();
    assert_eq!(store.sweep(Patience::Until(Instant::now())).unwrap(), None);
    drop(ingest);
    assert!(store.sweep(Patience::Endless).unwrap().unwrap().finished);
    assert!(
        store.layer(&digest(&archive)).unwrap().is_none(),
        "no image has it"
    );
}

#[test]
fn a_tree_in_use_stays() {
    let (_dir, store) = store();
    let image = add_image(&store, &[&Tar::default().file("a", b"1").end()]).unwrap();
    let tree = store.tree(&image).unwrap();
    assert!(store.remove_image(&image.id).unwrap().in_use);
    assert!(!store.sweep(Patience::Endless).unwrap().unwrap().finished);
    assert_eq!(std::fs::read(tree.path().join("a")).unwrap(), b"1");
    drop(tree);
    assert!(store.sweep(Patience::Endless).unwrap().unwrap().finished);
    assert_eq!(store.trees.names().unwrap().len(), 0);
}

#[test]
fn a_sweep_without_time_leaves_the_rest() {
    let (_dir, store) = store();
    let image = add_image(
        &store,
        &[&Tar::default().file("d/a", b"1").file("d/b", b"2").end()],
    )
    .unwrap();
    drop(store.tree(&image).unwrap());
    store.remove_image(&image.id).unwrap();
    let swept = store.sweep(Patience::Until(Instant::now())).unwrap().unwrap();
    assert!(!swept.finished && store.has_garbage());
    let later = Patience::Until(Instant::now() + Duration::from_secs(60));
    assert!(store.sweep(later).unwrap().unwrap().finished);
    assert_eq!(objects(&store), 0);
}

#[test]
fn sizes() {
    let (_dir, store) = store();
    // Contents of whole blocks, so that their length is the space they take.
    let base = Tar::default().file("base", &[1; 4096]).end();
    let one = Tar::default().file("one", &[2; 4096]).end();
    // A file that the other image has in another layer.
    let two = Tar::default()
        .file("elsewhere", &[2; 4096])
        .file("two", &[3; 4096])
        .end();
    add_image(&store, &[&base, &one]).unwrap();
    let image = add_image(&store, &[&base, &two]).unwrap();
    let usage = store.usage(&|_| false).unwrap();
    assert_eq!((usage.copied, usage.layered, usage.stored), (20480, 16384, 12288));
    let part = usage.images.iter().find(|part| part.id == image.id).unwrap();
    assert_eq!((part.size, part.shared, part.unique), (12288, 8192, 4096));
}

/// True if a process waits for a lock on the file of this inode number.
fn is_waited_for(inode: u64) -> bool {
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let of_file = format!(":{inode} ");
    locks
        .lines()
        .any(|line| line.contains("->") && line.contains(&of_file))
}

#[test]
fn an_image_that_is_removed_meanwhile_is_not_lost() {
    let (_dir, store) = store();
    let image = add_image(&store, &[&Tar::default().file("a", b"1").end()]).unwrap();
    // Simulate a sweep after that image's removal: its object is gone already.
    let sweep = Lock::exclusive(&store.root, STORE).unwrap();
    let inode = rustix::fs::fstat(&sweep.file).unwrap().st_ino;
    let shard = store.objects.dir.names().unwrap().remove(0);
    store.objects.dir.remove_tree(&shard).unwrap();
    let found = std::thread::scope(|scope| {
        let verification = scope.spawn(|| store.verify(Depth::Sizes));
        while !verification.is_finished() && !is_waited_for(inode) {
            std::thread::yield_now();
        }
        store.remove_image(&image.id).unwrap();
        drop(sweep);
        verification.join().unwrap().unwrap()
    });
    assert!(found.is_whole(), "{found:?}");
}
