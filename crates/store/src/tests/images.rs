use super::{Tar, add_image, add_layer, config, store};
use crate::{Store, StoreError};
use tote_image::Reference;

#[test]
fn names_and_ids() {
    let (_dir, store) = store();
    let one = add_image(&store, &[&Tar::default().file("a", b"1").end()]).unwrap();
    let two = add_image(&store, &[&Tar::default().file("a", b"2").end()]).unwrap();
    let ingest = store.ingest().unwrap();
    let name = Reference::parse("example.org/some/thing:1.0").unwrap();
    assert_eq!(ingest.tag(&name, &one.id).unwrap(), None);
    assert_eq!(ingest.tag(&name, &one.id).unwrap(), None);
    assert_eq!(store.resolve("example.org/some/thing:1.0").unwrap(), one.id);
    assert_eq!(store.resolve(&one.id.hex()[..20]).unwrap(), one.id);
    assert_eq!(store.resolve(&two.id.to_string()).unwrap(), two.id);
    assert_eq!(ingest.tag(&name, &two.id).unwrap(), Some(one.id));
    assert_eq!(store.names().unwrap(), [(name.clone(), two.id)]);
    assert!(matches!(store.resolve("nothing"), Err(StoreError::NoImage(_))));
    assert!(matches!(
        store.resolve("../../etc/passwd"),
        Err(StoreError::NoImage(_))
    ));
    let asked = |name: &Reference| Store::is_named(store.root.path(), name);
    assert!(asked(&name));
    assert!(!asked(&Reference::parse("nothing").unwrap()));
    let file = store.root.path().join("names/example.org%some%thing:1.0");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, "").unwrap();
    assert!(!asked(&name), "a power cut has emptied it");
    std::fs::write(&file, whole).unwrap();
    assert!(store.untag(&name).unwrap());
    assert!(!asked(&name));
    assert!(!store.untag(&name).unwrap());
    assert_eq!(store.images().unwrap().len(), 2);
}

#[test]
fn an_image_that_cannot_be_read_is_not_left_out() {
    use rustix::fs::{CWD, FileType, Mode};
    let (_dir, store) = store();
    let image = add_image(&store, &[&Tar::default().file("a", b"1").end()]).unwrap();
    let config = store.root.path().join("images").join(image.id.hex());
    let config = config.join("config.json");
    let aside = config.with_extension("aside");
    std::fs::rename(&config, &aside).unwrap();
    // open(2) of a socket fails, as that of a file may fail with EMFILE or EIO.
    rustix::fs::mknodat(CWD, &config, FileType::Socket, Mode::RUSR, 0).unwrap();
    assert!(matches!(store.images(), Err(StoreError::Io { .. })));
    std::fs::remove_file(&config).unwrap();
    assert_eq!(store.images().unwrap().len(), 0, "a damaged one is left out");
    std::fs::rename(&aside, &config).unwrap();
    assert_eq!(store.images().unwrap().len(), 1);
}

#[test]
fn long_names() {
    let (_dir, store) = store();
    let image = add_image(&store, &[&Tar::default().end()]).unwrap();
    let name = Reference::parse(&format!(
        "example.org/{}:{}",
        "a/".repeat(110) + "b",
        "t".repeat(128)
    ))
    .unwrap();
    store.ingest().unwrap().tag(&name, &image.id).unwrap();
    assert_eq!(store.named(&name).unwrap(), Some(image.id));
    assert_eq!(store.names().unwrap(), [(name, image.id)]);
}

#[test]
fn an_image_needs_its_layers() {
    let (_dir, store) = store();
    let layer = Tar::default().end();
    let error = store
        .ingest()
        .unwrap()
        .image(&config(&[&layer]), None)
        .unwrap_err();
    assert!(matches!(error, StoreError::NoLayer(_)), "{error}");
}

#[test]
fn a_configuration_is_what_its_digest_says() {
    let (_dir, store) = store();
    let image = add_image(&store, &[&Tar::default().file("a", b"1").end()]).unwrap();
    let dir = store.images.enter(&image.id.hex()).unwrap();
    dir.write("config.json", b"{}").unwrap();
    assert!(matches!(store.image(&image.id), Err(StoreError::Damaged { .. })));
    // Adding the same image once more repairs it.
    add_image(&store, &[&Tar::default().file("a", b"1").end()]).unwrap();
    assert_eq!(store.image(&image.id).unwrap().id, image.id);
}

#[test]
fn blobs_come_with_the_manifest() {
    let (_dir, store) = store();
    let layer = Tar::default().file("a", b"1").end();
    add_layer(&store, &layer).unwrap();
    let blob = super::digest(b"compressed");
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{{"digest":"{blob}","size":1}},"layers":[{{"mediaType":"m","digest":"{blob}","size":10}}]}}"#
    );
    let image = store
        .ingest()
        .unwrap()
        .image(&config(&[&layer]), Some(manifest.as_bytes()))
        .unwrap();
    let blobs = store.blobs(&super::digest(&layer)).unwrap();
    assert_eq!(blobs.len(), 1);
    assert_eq!((blobs[0].digest, blobs[0].size), (blob, 10));
    assert_eq!(
        store.manifest(&image.id).unwrap().unwrap().bytes(),
        manifest.as_bytes()
    );
}

#[test]
fn many_may_add_the_same_image_at_once() {
    let (_dir, store) = store();
    for round in 0..20u8 {
        let layer = Tar::default().file("round", &[round]).end();
        add_layer(&store, &layer).unwrap();
        let config = config(&[&layer]);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| store.ingest().unwrap().image(&config, None).unwrap());
            }
        });
    }
    assert_eq!(store.images().unwrap().len(), 20);
}
