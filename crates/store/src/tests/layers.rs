use super::{Tar, add_image, add_layer, digest, options, store};
use crate::intake::ReadBy;
use crate::{Limits, Slot, Store, StoreError};
use std::io::Read as _;

fn sample() -> Vec<u8> {
    let large: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    let tar = Tar::default()
        .dir("bin/")
        .file("bin/sh", b"shell")
        .file("bin/large", &large)
        .file("empty", b"");
    let mut bytes = tar.hardlink("bin/ash", "bin/sh").symlink("usr", "bin").end();
    bytes.extend_from_slice(b"what follows the end is a part of the digest, too");
    bytes
}

#[test]
fn a_layer_comes_out_as_it_came_in() {
    let (_dir, store) = store();
    let archive = sample();
    let layer = add_layer(&store, &archive).unwrap();
    assert_eq!(layer.diff_id, digest(&archive));
    assert_eq!((layer.sizes.files, layer.sizes.size), (3, 12_000_008));
    let mut again = Vec::new();
    let mut reader = store.layer_archive(&layer.diff_id).unwrap();
    assert_eq!(reader.size, archive.len() as u64);
    reader.read_to_end(&mut again).unwrap();
    assert!(again == archive);
}

#[test]
fn a_framing_of_several_frames_is_read_as_one() {
    let (dir, store) = store();
    let files = (0..500).map(|number| format!("directory/{number}"));
    let tar = files.fold(Tar::default(), |tar, name| tar.file(&name, name.as_bytes()));
    let archive = tar.end();
    let layer = add_layer(&store, &archive).unwrap();
    let framing = format!("store/layers/{}/framing", layer.diff_id.hex());
    let framing = std::fs::read(dir.path().join(framing)).unwrap();
    let frames = framing
        .windows(4)
        .filter(|bytes| *bytes == [0x28, 0xb5, 0x2f, 0xfd]);
    assert!(frames.count() > 2);
    let mut again = Vec::new();
    let mut reader = store.layer_archive(&layer.diff_id).unwrap();
    reader.read_to_end(&mut again).unwrap();
    assert!(again == archive);
}

#[test]
fn the_parser_and_the_reading_thread_compute_the_same_digest() {
    let noise: Vec<u8> = (0..500_000_u32)
        .flat_map(|at| at.wrapping_mul(40503).to_le_bytes())
        .collect();
    let tar = Tar::default()
        .sparse("holes", 70_000, 4096, &noise[..3000])
        .sparse("large holes", 9_000_000, 512, &noise[..1_900_001])
        .file("odd", &noise[..1_500_001]);
    let archive = [tar.file("small", &noise[..65]).end(), sample()].concat();
    let ways = [
        (ReadBy::Thread, false),
        (ReadBy::Thread, true),
        (ReadBy::Others, true),
    ];
    let added = ways.map(|(by, hashes)| {
        let (_dir, store) = store();
        let (layer, contents) = take_in(&store, &archive, by, hashes);
        for stored in &contents {
            let file = store.objects.dir.open_file(&stored.key.name(0)).unwrap();
            assert_eq!(crate::key::content_hash(&file).unwrap(), stored.key.content);
        }
        let contents: Vec<_> = contents.iter().map(|stored| stored.to_bytes()).collect();
        (layer, contents)
    });
    assert_eq!(added[0].0.diff_id, digest(&archive));
    assert_eq!(added[0].1.len(), 4);
    assert!(added[0] == added[1] && added[0] == added[2]);
}

fn take_in(
    store: &Store,
    archive: &[u8],
    by: ReadBy,
    hashes: bool,
) -> (crate::Layer, Vec<crate::layer::Stored>) {
    let (dir, _) = store.layers.make_unfinished().unwrap();
    let input = (archive, Limits::default(), by);
    let layer = crate::intake::take_in(store, &dir, None, input, hashes);
    (layer.unwrap(), crate::layer::contents(&dir).unwrap())
}

/// Files that keep pieces of many chunks of the archive, and bytes between and behind them that belong to no file: the side
/// that reads must never wait for a side that waits for it.
#[test]
fn reading_and_writing_never_wait_for_each_other() {
    let noise: Vec<u8> = (0..300_000_u32)
        .flat_map(|at| at.wrapping_mul(40503).to_le_bytes())
        .collect();
    let mut tar = Tar::default();
    for number in 0..40 {
        let comment = format!("700018 comment={}\n", "x".repeat(700_002));
        let comment = tar.entry(b'x', "pax", 0o644, "", comment.as_bytes());
        let small = comment.file(&format!("small-{number}"), b"x");
        tar = small.file(&format!("large-{number}"), &noise[..900_000 + number]);
    }
    let mut archive = tar.end();
    archive.resize(archive.len() + 5_000_000, 0);
    for by in [ReadBy::Thread, ReadBy::Others] {
        let (_dir, store) = store();
        let (layer, contents) = take_in(&store, &archive, by, true);
        assert_eq!(layer.diff_id, digest(&archive));
        assert_eq!(contents.len(), 80);
    }
}

#[test]
fn what_is_there_is_not_written_again() {
    let (_dir, store) = store();
    let first = add_layer(&store, &sample()).unwrap();
    assert_eq!(
        first.sizes.written + 3,
        first.sizes.size,
        "the text of a symbolic link"
    );
    // Another archive with the same files.
    let mut other = sample();
    other.extend_from_slice(b"!");
    let second = add_layer(&store, &other).unwrap();
    assert_ne!(first.diff_id, second.diff_id);
    assert_eq!(second.sizes.written, 0);
}

#[test]
fn another_content_than_announced_is_refused() {
    let (_dir, store) = store();
    let (expected, forged) = (sample(), Tar::default().file("evil", b"x").end());
    let ingest = store.ingest().unwrap();
    let Slot::Vacant(vacancy) = ingest.layer(&digest(&expected)).unwrap() else {
        panic!("it is not there")
    };
    let error = ingest.fill(vacancy, &*forged, Limits::default()).unwrap_err();
    assert!(matches!(error, StoreError::WrongLayer(_)), "{error}");
    assert!(store.layer(&digest(&expected)).unwrap().is_none());
    assert!(store.layer(&digest(&forged)).unwrap().is_none());
}

#[test]
fn a_broken_archive_leaves_no_layer() {
    let (_dir, store) = store();
    let archive = sample();
    for length in [100, 700, 1500, 2_000_000, archive.len() - 1] {
        let cut = &archive[..length];
        let ingest = store.ingest().unwrap();
        let Slot::Vacant(vacancy) = ingest.layer(&digest(&archive)).unwrap() else {
            panic!("it is not there")
        };
        ingest.fill(vacancy, cut, Limits::default()).unwrap_err();
    }
    assert_eq!(
        store
            .layers
            .names()
            .unwrap()
            .iter()
            .filter(|name| !name.starts_with(".lock-"))
            .count(),
        0
    );
}

#[test]
fn two_pulls_of_one_layer_share_the_work() {
    let (dir, store) = store();
    let other = Store::open(&dir.path().join("store"), options()).unwrap();
    let archive = sample();
    let (ingest, id) = (store.ingest().unwrap(), digest(&archive));
    let Slot::Vacant(vacancy) = ingest.layer(&id).unwrap() else {
        panic!("it is not there")
    };
    std::thread::scope(|scope| {
        let second = scope.spawn(|| matches!(other.ingest().unwrap().layer(&id).unwrap(), Slot::Present(_)));
        ingest.fill(vacancy, &*archive, Limits::default()).unwrap();
        assert!(second.join().unwrap(), "the second waits, and finds it there");
    });
}

#[test]
fn many_at_once() {
    let (dir, _) = store();
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let path = dir.path().join("store");
            scope.spawn(move || {
                let store = Store::open(&path, options()).unwrap();
                let mut tar = Tar::default();
                for number in 0..50u8 {
                    tar = tar.file(&format!("f{number}"), &[number; 5000]);
                }
                // The same file is in different layers.
                add_layer(&store, &tar.file("own", &[thread]).end()).unwrap();
            });
        }
    });
    let store = Store::open(&dir.path().join("store"), options()).unwrap();
    let objects: usize = store
        .objects
        .dir
        .names()
        .unwrap()
        .iter()
        .map(|shard| store.objects.dir.enter(shard).unwrap().names().unwrap().len())
        .sum();
    assert_eq!(objects, 50 + 8);
}

#[test]
fn large_files_of_an_image_are_taken_as_they_are() {
    let (_dir, store) = store();
    let image = add_image(&store, &[&sample()]).unwrap();
    let ingest = store.ingest().unwrap();
    ingest.expect(&image).unwrap();
    let large: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    let add = |tar: Tar| ingest.add_layer(&*tar.end(), Limits::default());
    let same = add(Tar::default().file("bin/large", &large)).unwrap();
    assert_eq!((same.sizes.files, same.sizes.written), (1, 0));
    // With other attributes it is another object of the same bytes.
    let other = add(Tar::default().entry(b'0', "bin/large", 0o755, "", &large)).unwrap();
    assert_eq!((other.sizes.files, other.sizes.written), (1, 12_000_000));
    let mut out = Vec::new();
    let mut archive = store.layer_archive(&other.diff_id).unwrap();
    archive.read_to_end(&mut out).unwrap();
    assert_eq!(digest(&out), other.diff_id);
    // At another path, and with another size, it is any file.
    let moved = add(Tar::default().file("large", &large)).unwrap();
    assert_eq!(moved.sizes.written, 0);
    let longer = [&large[..], b"x"].concat();
    assert_eq!(
        add(Tar::default().file("bin/large", &longer))
            .unwrap()
            .sizes
            .written,
        12_000_001
    );
    // A file that is not what the image's layers say is told, since its bytes are gone.
    let mut changed = large.clone();
    changed[5] ^= 1;
    let error = add(Tar::default().file("bin/large", &changed)).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    // Without the expectation it is a file as any other.
    drop(ingest);
    let ingest = store.ingest().unwrap();
    let layer = ingest.add_layer(
        &*Tar::default().file("bin/large", &changed).end(),
        Limits::default(),
    );
    assert_eq!(layer.unwrap().sizes.written, 12_000_000);
}
