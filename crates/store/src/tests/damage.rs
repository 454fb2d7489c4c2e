//! Damage by a power cut to each kind of file, and its repair.

use super::crash::{layers, left, name, remove};
use super::{Tar, add_layer, config, content_hash, digest, listing, options, store};
use crate::{Broken, Depth, Image, Limits, Patience, Slot, Store, StoreError};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tote_image::{Descriptor, Manifest, media_type};

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Empty,
    Half,
    Zeros,
    Garbage,
    Missing,
    /// The name leads to another inode, as may happen without a journal.
    Directory,
    Link,
}

const CUTS: [Cut; 7] = [
    Cut::Empty,
    Cut::Half,
    Cut::Zeros,
    Cut::Garbage,
    Cut::Missing,
    Cut::Directory,
    Cut::Link,
];

impl Cut {
    fn make(self, path: &Path) {
        if let Cut::Missing | Cut::Directory | Cut::Link = self {
            match path.symlink_metadata().unwrap().is_dir() {
                true => fs::remove_dir_all(path).unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
            return match self {
                Cut::Directory => fs::create_dir_all(path.join("of/another")).unwrap(),
                Cut::Link => std::os::unix::fs::symlink("elsewhere", path).unwrap(),
                _ => {}
            };
        }
        // Damage in place: the inode, its mode and its time stay the same.
        let meta = path.metadata().unwrap();
        let mut content = fs::read(path).unwrap();
        match self {
            Cut::Empty => content.clear(),
            Cut::Half => content.truncate(content.len() / 2),
            Cut::Zeros => content.fill(0),
            Cut::Garbage => content.iter_mut().for_each(|byte| *byte = !*byte),
            Cut::Missing | Cut::Directory | Cut::Link => {}
        }
        fs::write(path, content).unwrap();
        let file = fs::File::open(path).unwrap();
        file.set_modified(meta.modified().unwrap()).unwrap();
    }
}

/// Function that returns the path of a file of an image in a store.
type Place = fn(&Store, &Image) -> PathBuf;

/// Name and path of a kind of file; true if `verify` ignores its damage, because nothing is lost with it.
type Kind = (&'static str, Place, bool);

const KINDS: [Kind; 15] = [
    ("object", object, false),
    ("large object", large, false),
    ("framing", |store, image| of_layer(store, image, "framing"), false),
    (
        "contents",
        |store, image| of_layer(store, image, "contents"),
        false,
    ),
    (
        "layer.json",
        |store, image| of_layer(store, image, "layer.json"),
        false,
    ),
    ("known", |store, image| of_layer(store, image, "known"), true),
    (
        "blobs.json",
        |store, image| of_layer(store, image, "blobs.json"),
        true,
    ),
    (
        "config.json",
        |store, image| of_image(store, image, "config.json"),
        false,
    ),
    (
        "manifest.json",
        |store, image| of_image(store, image, "manifest.json"),
        false,
    ),
    (
        "image.json",
        |store, image| of_image(store, image, "image.json"),
        false,
    ),
    (
        "name",
        |store, _| store.names.path().join(file_of_name(store)),
        false,
    ),
    ("lease", |store, image| of_tree(store, image, "lease"), false),
    ("copy", |store, image| of_tree(store, image, "root/bin/d"), false),
    ("symlink", |store, image| of_tree(store, image, "root/l"), false),
    (
        "directory",
        |store, image| of_tree(store, image, "root/empty"),
        false,
    ),
];

fn of_layer(store: &Store, image: &Image, name: &str) -> PathBuf {
    store.layers.path().join(image.layers()[0].hex()).join(name)
}

fn of_image(store: &Store, image: &Image, name: &str) -> PathBuf {
    store.images.path().join(image.id.hex()).join(name)
}

fn of_tree(store: &Store, image: &Image, name: &str) -> PathBuf {
    store
        .trees
        .path()
        .join(store.tree_name(image).unwrap())
        .join(name)
}

fn file_of_name(store: &Store) -> String {
    store.names.names().unwrap().remove(0)
}

fn object(store: &Store, image: &Image) -> PathBuf {
    object_of(store, image, b"same")
}

fn large(store: &Store, image: &Image) -> PathBuf {
    object_of(store, image, &vec![7; (1 << 20) + 5])
}

fn object_of(store: &Store, image: &Image, content: &[u8]) -> PathBuf {
    let hash = content_hash(content);
    let layer = store.layer_dir(&image.layers()[0]).unwrap().unwrap();
    let stored = crate::layer::contents(&layer).unwrap();
    let found = stored.iter().find(|stored| stored.key.content == hash).unwrap();
    store.objects.dir.path().join(found.key.name(0))
}

/// Returns archives that contain a second copy of an object, an empty directory and a symbolic link, among others.
fn archives() -> [Vec<u8>; 2] {
    let [below, _] = layers();
    let above = Tar::default()
        .file("bin/.wh.b", b"")
        .file("bin/d", b"same")
        .dir("empty/");
    [below, above.end()]
}

/// Makes a store with an image, written in an earlier boot.
fn written() -> (TempDir, Store, Image, Vec<String>) {
    let (dir, store) = store();
    let image = add(&store).unwrap();
    let expected = listing(store.tree(&image).unwrap().path());
    (dir, in_another_boot(store), image, expected)
}

fn in_another_boot(store: Store) -> Store {
    let mut again = Store::open(store.root.path(), options()).unwrap();
    again.boot = format!("after {}", store.boot);
    again
}

fn add(store: &Store) -> Result<Image, StoreError> {
    let archives = archives();
    let ingest = store.ingest()?;
    for archive in &archives {
        add_layer(store, archive)?;
    }
    let config = config(&[&archives[0], &archives[1]]);
    let blobs = archives
        .iter()
        .map(|archive| Descriptor::new(media_type::OCI_LAYER, digest(archive), archive.len() as u64));
    let of_config = Descriptor::new(media_type::OCI_CONFIG, digest(&config), config.len() as u64);
    let manifest = Manifest::oci(of_config, blobs.collect()).to_json();
    let image = ingest.image(&config, Some(&manifest))?;
    ingest.tag(&name(), &image.id)?;
    store.tree(&image)?;
    Ok(image)
}

/// Applies each damage of the table to a store of its own, as if the machine had restarted after it.
fn each_damage(mut look: impl FnMut(&str, Store, &Image, &[String], bool)) {
    for (kind, path, is_harmless) in KINDS {
        for cut in CUTS {
            let (_dir, store, image, expected) = written();
            let path = path(&store, &image);
            let is_file = path.symlink_metadata().unwrap().is_file();
            if !is_file && ![Cut::Missing, Cut::Link].contains(&cut) {
                continue;
            }
            cut.make(&path);
            // `verify` cannot notice a lease with other content, nor a missing name or manifest.
            let is_silent = is_harmless
                || kind == "lease" && ![Cut::Missing, Cut::Directory, Cut::Link].contains(&cut)
                || cut == Cut::Missing && ["name", "manifest.json"].contains(&kind);
            look(&format!("{kind}, {cut:?}"), store, &image, &expected, is_silent);
        }
    }
}

#[test]
fn each_damage_is_found() {
    each_damage(|damage, store, _, _, is_silent| {
        let found = store.verify(Depth::Contents).unwrap();
        assert_eq!(found.is_whole(), is_silent, "{damage}: {found:?}");
        let is_hidden = damage.contains("object") || damage.starts_with("copy");
        if !is_hidden || damage.ends_with("Empty") || damage.ends_with("Missing") || damage.ends_with("Half")
        {
            let found = store.verify(Depth::Sizes).unwrap();
            assert_eq!(found.is_whole(), is_silent, "{damage}: {found:?}");
        }
    });
}

#[test]
fn what_is_damaged_is_refused_or_made_again() {
    each_damage(|damage, store, image, expected, _| match store.tree(image) {
        Ok(tree) => assert_eq!(listing(tree.path()), expected, "{damage}"),
        Err(StoreError::Lost { .. } | StoreError::LostLayers { .. } | StoreError::Damaged { .. }) => {}
        Err(error) => panic!("{damage}: {error}"),
    });
}

#[test]
fn to_add_it_again_mends_it() {
    each_damage(|damage, store, _, expected, _| {
        let image = add(&store).unwrap_or_else(|error| panic!("{damage}: {error}"));
        assert_eq!(listing(store.tree(&image).unwrap().path()), expected, "{damage}");
        let found = store.verify(Depth::Contents).unwrap();
        let is_note = damage.starts_with("image.json");
        assert!(found.is_whole() || is_note, "{damage}: {found:?}");
        assert_eq!(store.named(&name()).unwrap(), Some(image.id), "{damage}");
        remove(&store, &image).unwrap();
        assert_eq!(left(&store), Vec::<String>::new(), "{damage}");
    });
}

#[test]
fn repair_mends_it_or_says_what_is_lost() {
    each_damage(|damage, store, image, expected, _| {
        let found = store.verify(Depth::Contents).unwrap();
        let repaired = store.repair(&found, |ingest, diff_id| {
            let archives = archives();
            let archive = archives.iter().find(|archive| digest(archive) == *diff_id);
            match ingest.layer(diff_id)? {
                Slot::Present(_) => panic!("{damage}: it was to be made again"),
                Slot::Vacant(vacancy) => ingest
                    .fill(vacancy, &**archive.unwrap(), Limits::default())
                    .map(|_| ()),
            }
        });
        repaired.unwrap_or_else(|error: StoreError| panic!("{damage}: {error}"));
        let again = store.verify(Depth::Contents).unwrap();
        assert!(again.is_whole(), "{damage}: {again:?}");
        if damage.starts_with("config.json") {
            assert!(
                matches!(&found.broken[0], Broken::Image(_, names) if names.len() == 1),
                "{found:?}"
            );
            return;
        }
        assert_eq!(listing(store.tree(image).unwrap().path()), expected, "{damage}");
    });
}

#[test]
fn removal_leaves_nothing() {
    each_damage(|damage, store, image, _, _| {
        remove(&store, image).unwrap_or_else(|error| panic!("{damage}: {error}"));
        assert_eq!(left(&store), Vec::<String>::new(), "{damage}");
    });
}

#[test]
fn what_is_no_directory_any_more_is_made_again_and_removed() {
    let places: [(&str, Place); 4] = [
        ("layer", |store, image| of_layer(store, image, "")),
        ("image", |store, image| of_image(store, image, "")),
        ("tree", |store, image| of_tree(store, image, "")),
        ("shard", |store, image| {
            object(store, image).parent().unwrap().to_owned()
        }),
    ];
    for (kind, path) in places {
        for cut in [Cut::Empty, Cut::Link] {
            for mended in [true, false] {
                let (_dir, store, image, expected) = written();
                // Without the slash at its end the path is that of the link itself.
                let path: PathBuf = path(&store, &image).components().collect();
                Cut::Link.make(&path);
                if cut == Cut::Empty {
                    fs::remove_file(&path).unwrap();
                    fs::write(&path, "").unwrap();
                }
                let damage = format!("{kind}, {cut:?}");
                if mended {
                    let image = add(&store).unwrap_or_else(|error| panic!("{damage}: {error}"));
                    assert_eq!(listing(store.tree(&image).unwrap().path()), expected, "{damage}");
                    assert!(store.verify(Depth::Contents).unwrap().is_whole(), "{damage}");
                } else {
                    remove(&store, &image).unwrap_or_else(|error| panic!("{damage}: {error}"));
                    assert_eq!(left(&store), Vec::<String>::new(), "{damage}");
                }
            }
        }
    }
}

#[test]
fn a_damaged_image_keeps_nothing_of_others() {
    let (_dir, store, image, _) = written();
    Cut::Empty.make(&of_image(&store, &image, "config.json"));
    let archive = Tar::default().file("other", b"of another image").end();
    let other = super::add_image(&store, &[&archive]).unwrap();
    store.remove_image(&other.id).unwrap();
    assert!(store.sweep(Patience::Endless).unwrap().unwrap().finished);
    assert!(store.layer(&digest(&archive)).unwrap().is_none());
    assert_eq!(store.damaged_images().unwrap(), [image.id]);
}

#[test]
fn a_layer_is_read_once_after_a_boot() {
    let (_dir, store, image, _) = written();
    let known = of_layer(&store, &image, "known");
    let cut = |store: &Store| Cut::Garbage.make(&object(store, &image));
    drop(store.tree(&image).unwrap());
    assert_eq!(fs::read(&known).unwrap(), b"synced");
    let store = in_another_boot(store);
    cut(&store);
    assert!(
        store.layer(&image.layers()[0]).unwrap().is_some(),
        "it is not read again"
    );
    fs::write(&known, "some boot").unwrap();
    assert!(store.layer(&image.layers()[0]).unwrap().is_none());
}

#[test]
fn a_sweep_that_takes_its_time_syncs() {
    let (_dir, store) = store();
    let image = add(&store).unwrap();
    let known = of_layer(&store, &image, "known");
    assert_eq!(fs::read_to_string(&known).unwrap(), store.boot);
    store.sync(true).unwrap();
    assert_eq!(
        fs::read_to_string(&known).unwrap(),
        store.boot,
        "not within a minute"
    );
    let noted = fs::File::open(store.root.path().join("unsynced")).unwrap();
    let before = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    noted.set_modified(before).unwrap();
    store.sync(true).unwrap();
    assert_eq!(fs::read_to_string(&known).unwrap(), "synced");
    fs::write(&known, &store.boot).unwrap();
    store.note_unsynced().unwrap();
    store.sweep(Patience::Endless).unwrap();
    assert_eq!(fs::read_to_string(&known).unwrap(), "synced");
}

#[test]
fn what_somebody_has_changed_is_mended() {
    let (_dir, store) = store();
    let image = add(&store).unwrap();
    let expected = listing(store.tree(&image).unwrap().path());
    for keeps_its_time in [true, false] {
        let tree = store.tree(&image).unwrap();
        let object = object(&store, &image);
        Cut::Garbage.make(&object);
        if !keeps_its_time {
            let file = fs::File::open(&object).unwrap();
            file.set_modified(std::time::SystemTime::now()).unwrap();
        }
        // The layer is recorded as right, but its content is compared all the same.
        store
            .ingest()
            .unwrap()
            .add_layer(&*archives()[0], Limits::default())
            .unwrap();
        let again = store.tree(&image).unwrap();
        assert_eq!(listing(again.path()), expected);
        // A tree that is in use stays until it is released.
        store.sweep(Patience::Endless).unwrap();
        assert_eq!(store.trash.names().unwrap().len(), 1);
        drop(tree);
        store.sweep(Patience::Endless).unwrap();
        assert_eq!(store.trash.names().unwrap().len(), 0);
    }
}

#[test]
fn the_end_of_zeros_is_written() {
    use std::os::unix::fs::MetadataExt as _;
    let (_dir, store) = store();
    let mut content = vec![0; 4 << 20];
    content[0] = 1;
    let archive = Tar::default().file("disk", &content).end();
    let image = super::add_image(&store, &[&archive]).unwrap();
    let disk = store.tree(&image).unwrap().path().join("disk");
    assert_eq!(fs::read(&disk).unwrap(), content);
    let file = fs::File::open(&disk).unwrap();
    let last = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data((4 << 20) - 4096));
    assert_eq!(
        last,
        Ok((4 << 20) - 4096),
        "its last block is data, not what ftruncate(2) leaves"
    );
    assert!(file.metadata().unwrap().blocks() < 4096, "and the rest is a hole");
}

#[test]
fn copies_of_a_killed_load_go_with_the_first_sweep() {
    for steps in 0.. {
        let (_dir, store) = store();
        let (_, died) = crate::fault::dying_after(steps, || add(&store));
        if !died {
            break;
        }
        for image in store.images().unwrap() {
            store.remove_image(&image.id).unwrap();
        }
        store.sweep(Patience::Endless).unwrap();
        assert_eq!(left(&store), Vec::<String>::new(), "step {steps}");
    }
}
