use super::{Tar, add_image, add_layer, digest, store};
use crate::{Broken, Depth, Image, ImageIndex, Patience, Store, StoreError};
use tote_image::media_type::{OCI_CONFIG, OCI_MANIFEST};
use tote_image::{Descriptor, Digest, Index, Manifest, Platform, Reference};

/// Adds an image of one file for that architecture.
fn image_for(store: &Store, architecture: &str) -> Image {
    let layer = Tar::default().file("a", architecture.as_bytes()).end();
    let ingest = store.ingest().unwrap();
    add_layer(store, &layer).unwrap();
    let config = format!(
        r#"{{"os":"linux","architecture":"{architecture}","rootfs":{{"type":"layers","diff_ids":["{}"]}}}}"#,
        digest(&layer)
    );
    ingest.image(config.as_bytes(), None).unwrap()
}

fn entry(image: &Image) -> Descriptor {
    let mut entry = Descriptor::new(OCI_CONFIG, image.id, image.config.bytes().len() as u64);
    entry.platform = Some(image.config.value().platform());
    entry
}

fn platform(text: &str) -> Platform {
    text.parse().unwrap()
}

/// Adds an index with an attestation and two images, of which each machine runs at most one.
fn index(store: &Store) -> (ImageIndex, Image, Image) {
    let (one, two) = (image_for(store, "riscv64"), image_for(store, "s390x"));
    let blobs = [b"{}".to_vec(), br#"{"subject":[]}"#.to_vec()];
    let [config, statement] = [&blobs[0], &blobs[1]]
        .map(|blob| Descriptor::new("application/json", digest(blob), blob.len() as u64));
    let manifest = Manifest::oci(config, vec![statement]).to_json();
    let mut remark = Descriptor::new(OCI_MANIFEST, digest(&manifest), manifest.len() as u64);
    remark.platform = Some(platform("unknown/unknown"));
    let index = Index::oci(vec![entry(&one), entry(&two), remark]);
    let [config, statement] = blobs;
    let added = store
        .ingest()
        .unwrap()
        .index(&index, &[manifest, config, statement]);
    (added.unwrap(), one, two)
}

#[test]
fn a_name_of_an_index_means_the_image_of_a_platform() {
    let (_dir, store) = store();
    let (index, one, two) = index(&store);
    let name = Reference::parse("a:1").unwrap();
    assert_eq!(store.ingest().unwrap().tag(&name, &index.id).unwrap(), None);
    assert_eq!(store.find("a:1").unwrap(), index.id);
    assert_eq!(store.find(&index.id.hex()[..20]).unwrap(), index.id);
    // Neither image runs here, so the first is selected.
    for text in ["a:1", &index.id.to_string()] {
        assert_eq!(store.resolve(text).unwrap(), one.id);
    }
    let asked = |text: &str| store.image_of(&index.id, Some(&platform(text))).unwrap();
    assert_eq!(asked("linux/s390x"), Some(two.id));
    assert_eq!(asked("linux/amd64"), None);
    assert_eq!(asked("unknown/unknown"), None, "an attestation is no image");
    assert_eq!(store.image_of(&one.id, None).unwrap(), Some(one.id));
    assert_eq!(store.images().unwrap().len(), 2);
    let indexes = store.indexes().unwrap();
    assert_eq!(indexes.len(), 1);
    assert_eq!(indexes[0].images().collect::<Vec<_>>(), [one.id, two.id]);
    let (manifest, blobs) = store.documents_of(&index.id, &index.index.manifests[2]).unwrap();
    assert_eq!(manifest.value().layers.len() + 1, blobs.len());
    // The name is given to an image again.
    assert_eq!(
        store.ingest().unwrap().tag(&name, &one.id).unwrap(),
        Some(index.id)
    );
    assert_eq!(store.find("a:1").unwrap(), one.id);
}

#[test]
fn this_machines_image_is_the_usual_one() {
    let (_dir, store) = store();
    let other = image_for(&store, "s390x");
    let own = add_image(&store, &[&Tar::default().file("a", b"1").end()]).unwrap();
    let mut entries = vec![entry(&other), entry(&own)];
    entries[1].platform = Some(Platform::host());
    let index = store.ingest().unwrap().index(&Index::oci(entries), &[]).unwrap();
    assert_eq!(index.usual(), Some(own.id));
    let empty = store
        .ingest()
        .unwrap()
        .index(&Index::oci(Vec::new()), &[])
        .unwrap();
    assert!(matches!(
        store.resolve(&empty.id.to_string()),
        Err(StoreError::EmptyIndex(_))
    ));
}

#[test]
fn a_sweep_keeps_an_index_and_its_end_leaves_the_images() {
    let (_dir, store) = store();
    let (index, one, two) = index(&store);
    let name = Reference::parse("a:1").unwrap();
    store.ingest().unwrap().tag(&name, &index.id).unwrap();
    store.sweep(Patience::Endless).unwrap();
    assert_eq!(store.find("a:1").unwrap(), index.id);
    assert!(store.verify(Depth::Contents).unwrap().is_whole());
    let removed = store.remove_image(&index.id).unwrap();
    assert_eq!((removed.names, removed.layers), (vec![name], Vec::new()));
    store.sweep(Patience::Endless).unwrap();
    assert!(store.indexes().unwrap().is_empty());
    for image in [one, two] {
        assert_eq!(store.image(&image.id).unwrap().id, image.id);
    }
    assert!(matches!(store.index(&index.id), Err(StoreError::NoImage(_))));
}

#[test]
fn an_index_with_a_lost_image_or_document_is_not_whole() {
    let (_dir, store) = store();
    let (index, one, _) = index(&store);
    let broken = |store: &Store| store.verify(Depth::Sizes).unwrap().broken;
    let document = index.index.manifests[2].digest.hex();
    let path = store.root.path().join("images").join(index.id.hex());
    let bytes = std::fs::read(path.join(&document)).unwrap();
    std::fs::write(path.join(&document), "{").unwrap();
    assert_eq!(broken(&store), [Broken::Index(index.id, Vec::new())]);
    std::fs::write(path.join(&document), bytes).unwrap();
    assert_eq!(broken(&store), []);
    store.remove_image(&one.id).unwrap();
    assert_eq!(broken(&store), [Broken::Index(index.id, Vec::new())]);
    // An image that is added again is complete.
    image_for(&store, "riscv64");
    assert_eq!(broken(&store), []);
}

#[test]
fn a_damaged_index_counts_as_damaged_and_is_replaced() {
    let (_dir, store) = store();
    let (index, ..) = index(&store);
    let path = store.root.path().join("images").join(index.id.hex());
    std::fs::write(path.join("index.json"), "").unwrap();
    assert!(matches!(store.index(&index.id), Err(StoreError::Damaged { .. })));
    assert_eq!(store.damaged_images().unwrap(), [index.id]);
    assert!(store.indexes().unwrap().is_empty());
    self::index(&store);
    assert_eq!(store.damaged_images().unwrap(), [] as [Digest; 0]);
}

#[test]
fn an_index_names_only_images_that_are_there() {
    let (_dir, store) = store();
    let gone = Descriptor::new(OCI_CONFIG, digest(b"gone"), 4);
    let error = store.ingest().unwrap().index(&Index::oci(vec![gone]), &[]);
    assert!(matches!(error, Err(StoreError::NoImage(_))));
}
