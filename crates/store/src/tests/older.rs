//! Stores of before the end of November 2026, in which objects are named by the SHA-256 of their content.

use super::crash::{left, name, remove};
use super::{Tar, add_layer, config, digest, listing, options, store};
use crate::key::{Key, file_sha256};
use crate::layer::{CONTENTS, LayerRecord, SIZES};
use crate::{Depth, Image, Store};
use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use tempfile::TempDir;

/// Files of which one is large, one has holes, and two have one content.
fn archive() -> Vec<u8> {
    let large: Vec<u8> = (0..400_000_u32).flat_map(u32::to_le_bytes).collect();
    let tar = Tar::default()
        .file("a", b"same")
        .file("b", b"same")
        .file("large", &large);
    tar.sparse("holes", 70_000, 4096, &large[..3000]).end()
}

/// Names the objects of a store as an older tote has named them, and opens it in another boot.
fn of_older_tote(store: Store) -> Store {
    let mut older = HashMap::new();
    let layers = store.layers.names().unwrap();
    for layer in layers.iter().map(|layer| store.layers.enter(layer).unwrap()) {
        let mut contents = crate::layer::contents(&layer).unwrap();
        for stored in &mut contents {
            let key = stored.key;
            stored.key = *older.entry(key).or_insert_with(|| renamed(&store, &key));
        }
        let bytes: Vec<u8> = contents.iter().flat_map(|stored| stored.to_bytes()).collect();
        layer.write(CONTENTS, &bytes).unwrap();
        let record = LayerRecord {
            contents: None,
            ..crate::layer::record(&layer).unwrap()
        };
        layer.write(SIZES, &serde_json::to_vec(&record).unwrap()).unwrap();
    }
    let mut again = Store::open(store.root.path(), options()).unwrap();
    again.boot = format!("after {}", store.boot);
    again
}

/// Gives an object its older name, and returns the key of that.
fn renamed(store: &Store, key: &Key) -> Key {
    let objects = &store.objects.dir;
    let file = objects.open_file(&key.name(0)).unwrap();
    let older = Key {
        content: file_sha256(&file).unwrap(),
        ..*key
    };
    assert_ne!(older, *key);
    let name = older.name(0);
    fs::create_dir_all(objects.path().join(&name[..2])).unwrap();
    objects.rename(&key.name(0), objects, &name).unwrap();
    older
}

/// Makes such a store with an image that has a name.
fn with_image() -> (TempDir, Store, Image) {
    let (dir, store) = store();
    let image = {
        let ingest = store.ingest().unwrap();
        add_layer(&store, &archive()).unwrap();
        let image = ingest.image(&config(&[&archive()]), None).unwrap();
        ingest.tag(&name(), &image.id).unwrap();
        image
    };
    (dir, of_older_tote(store), image)
}

#[test]
fn they_are_right() {
    let (_dir, store, image) = with_image();
    let (_new_dir, new) = super::store();
    let expected = super::add_image(&new, &[&archive()]).unwrap();
    let expected = listing(new.tree(&expected).unwrap().path());
    let layer = store.layer(&digest(&archive())).unwrap();
    assert!(layer.is_some(), "it is read once after a boot, and right");
    let verified = store.verify(Depth::Contents).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
    assert_eq!(verified.objects, 3);
    assert_eq!(listing(store.tree(&image).unwrap().path()), expected);
    let mut again = Vec::new();
    let mut reader = store.layer_archive(&digest(&archive())).unwrap();
    reader.read_to_end(&mut again).unwrap();
    assert!(again == archive());
    let verified = store.verify(Depth::Contents).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
}

#[test]
fn their_damage_is_found() {
    let (_dir, store, image) = with_image();
    let layer = store.layers.enter(&digest(&archive()).hex()).unwrap();
    let contents = crate::layer::contents(&layer).unwrap();
    let large = contents.iter().max_by_key(|stored| stored.size).unwrap();
    let object = store.objects.dir.path().join(large.key.name(0));
    let mut content = fs::read(&object).unwrap();
    content[1_000_000] ^= 1;
    fs::write(&object, content).unwrap();
    let verified = store.verify(Depth::Contents).unwrap();
    assert_eq!(verified.damaged.len(), 1, "{verified:?}");
    assert!(verified.damaged[&large.key.name(0)].images.contains(&image.id));
    assert!(store.layer(&digest(&archive())).unwrap().is_none());
}

#[test]
fn they_go_with_their_image_and_others_stay() {
    let (_dir, store, image) = with_image();
    // Another archive with the same files.
    let mut other = archive();
    other.extend_from_slice(b"!");
    let layer = add_layer(&store, &other).unwrap();
    assert_eq!(
        layer.sizes.written + 4,
        layer.sizes.size,
        "named anew, they are other objects"
    );
    let newer = store.ingest().unwrap().image(&config(&[&other]), None).unwrap();
    remove(&store, &image).unwrap();
    let verified = store.verify(Depth::Contents).unwrap();
    assert!(verified.is_whole() && verified.objects == 3, "{verified:?}");
    remove(&store, &newer).unwrap();
    assert_eq!(left(&store), Vec::<String>::new());
}
