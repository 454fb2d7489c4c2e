use super::{TIME, Tar, add_image, listing, store};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

fn inode(path: &Path) -> u64 {
    path.symlink_metadata().unwrap().ino()
}

#[test]
fn files_are_as_the_layer_says() {
    let (_dir, store) = store();
    let layer = Tar::default()
        .entry(b'0', "set-id", 0o4755, "", b"program")
        .entry(b'0', "secret", 0o600, "", b"")
        .entry(b'5', "dir/", 0o1777, "", b"")
        .file("dir/deep/er/file", b"1")
        .symlink("link", "/somewhere/else")
        .entry(b'6', "pipe", 0o640, "", b"")
        .end();
    let tree = store.tree(&add_image(&store, &[&layer]).unwrap()).unwrap();
    let mode = |name: &str| tree.path().join(name).symlink_metadata().unwrap().mode();
    for (name, expected) in [
        ("set-id", 0o104_755),
        ("secret", 0o100_600),
        ("dir", 0o041_777),
        ("dir/deep", 0o040_755),
        ("pipe", 0o010_640),
    ] {
        assert_eq!(mode(name), expected, "{name}");
        assert_eq!(
            tree.path().join(name).symlink_metadata().unwrap().mtime(),
            TIME as i64,
            "{name}"
        );
    }
    assert_eq!(
        std::fs::read_link(tree.path().join("link")).unwrap(),
        Path::new("/somewhere/else")
    );
    assert_eq!(
        tree.path().join("link").symlink_metadata().unwrap().mtime(),
        TIME as i64
    );
}

#[test]
fn whoever_makes_a_tree_removes_the_locks_of_killed_commands() {
    let (dir, store) = store();
    let image = |name: &str| add_image(&store, &[&Tar::default().file(name, b"1").end()]).unwrap();
    let first = store.tree(&image("first")).unwrap();
    let trees = first.path().ancestors().nth(2).unwrap().to_owned();
    let [left, held] = ["a", "b"].map(|chain| trees.join(format!(".lock-{}", chain.repeat(64))));
    std::fs::write(&left, "").unwrap();
    let holder = std::fs::File::create_new(&held).unwrap();
    holder.try_lock().unwrap();
    drop(store.tree(&image("first")).unwrap());
    assert!(left.try_exists().unwrap(), "nothing is looked for at a start");
    drop(store.tree(&image("second")).unwrap());
    assert!(!left.try_exists().unwrap(), "nobody has it");
    assert!(held.try_exists().unwrap(), "somebody makes that tree");
    drop((holder, dir));
}

#[test]
fn one_inode_of_the_image_is_one_inode_of_the_tree() {
    let (_dir, store) = store();
    let layer = Tar::default()
        .file("a", b"same")
        .file("b", b"same")
        .hardlink("c", "a")
        .symlink("l", "a")
        .hardlink("m", "l")
        .end();
    let tree = store.tree(&add_image(&store, &[&layer]).unwrap()).unwrap();
    let at = |name: &str| inode(&tree.path().join(name));
    assert_eq!(at("a"), at("c"), "a hard link is one");
    assert_ne!(at("a"), at("b"), "equal files of one image are two");
    assert_eq!(at("l"), at("m"), "links may have two names, too");
    assert_eq!(std::fs::read(tree.path().join("b")).unwrap(), b"same");
}

#[test]
fn equal_files_of_two_images_are_one() {
    let (_dir, store) = store();
    let one = add_image(&store, &[&Tar::default().file("x", b"same").end()]).unwrap();
    let two = add_image(
        &store,
        &[&Tar::default()
            .dir("d/")
            .file("d/y", b"same")
            .file("z", b"same")
            .end()],
    )
    .unwrap();
    let (one, two) = (store.tree(&one).unwrap(), store.tree(&two).unwrap());
    assert_eq!(inode(&one.path().join("x")), inode(&two.path().join("d/y")));
    assert_ne!(inode(&one.path().join("x")), inode(&two.path().join("z")));
}

#[test]
fn layers_hide_what_is_below() {
    let (_dir, store) = store();
    let below = Tar::default()
        .file("gone", b"1")
        .file("dir/old", b"1")
        .file("opaque/old", b"1")
        .file("opaque/sub/old", b"1")
        .file("kind", b"1")
        .dir("other/")
        .file("both", b"old")
        .symlink("lib", "usr/lib")
        .dir("usr/lib/")
        .end();
    let above = Tar::default()
        .file(".wh.gone", b"")
        .file(".wh.dir", b"")
        .file("opaque/new", b"2")
        .file("opaque/.wh..wh..opq", b"")
        .file("kind/now-a-directory", b"2")
        .file("other", b"now a file")
        .file("both", b"new")
        .file(".wh.both", b"")
        .file("lib/through-the-link", b"2")
        .file(".wh.never-there", b"")
        .end();
    let tree = store
        .tree(&add_image(&store, &[&below, &above]).unwrap())
        .unwrap();
    let names: Vec<_> = listing(tree.path())
        .iter()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "both",
            "kind",
            "kind/now-a-directory",
            "lib",
            "opaque",
            "opaque/new",
            "other",
            "usr",
            "usr/lib",
            "usr/lib/through-the-link"
        ]
    );
    assert_eq!(std::fs::read(tree.path().join("both")).unwrap(), b"new");
}

#[test]
fn what_no_tree_can_be() {
    let (_dir, store) = store();
    let deep = "d/".repeat(40);
    let mut many = Tar::default();
    let mut path = String::new();
    // Each link leads deeper, so that paths exceed the length of a header's field.
    for level in 0..20 {
        many = many
            .dir(&format!("{path}{deep}"))
            .symlink(&format!("l{level}"), &format!("{path}{deep}"));
        path = format!("l{level}/");
    }
    for (archive, why) in [
        (Tar::default().hardlink("a", "missing"), "hard link"),
        (Tar::default().dir("d/").hardlink("a", "d"), "directory"),
        (
            Tar::default()
                .symlink("a", "b")
                .symlink("b", "a")
                .file("a/c", b""),
            "symbolic links",
        ),
        (many, "deep"),
    ] {
        let image = add_image(&store, &[&archive.end()]).unwrap();
        let error = store.tree(&image).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn links_never_leave_the_tree() {
    let (dir, store) = store();
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let layer = Tar::default()
        .symlink("up", "../../../../../../../../../..")
        .symlink("absolute", out.to_str().unwrap())
        .file("up/x", b"1")
        .file("absolute/y", b"1")
        .end();
    let tree = store.tree(&add_image(&store, &[&layer]).unwrap()).unwrap();
    assert!(tree.path().join("x").metadata().unwrap().is_file());
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
}

#[test]
fn images_of_the_same_layers_share_a_tree() {
    let (_dir, store) = store();
    let layer = Tar::default().file("a", b"1").end();
    let image = add_image(&store, &[&layer]).unwrap();
    let mut config = super::config(&[&layer]);
    config.push(b'\n');
    let other = store.ingest().unwrap().image(&config, None).unwrap();
    assert_ne!(image.id, other.id);
    let (tree, made) = store.make_tree(&image).unwrap();
    assert!(made.is_some());
    let (same, made) = store.make_tree(&other).unwrap();
    assert!(made.is_none() && tree.path() == same.path());
}

#[test]
fn an_image_that_was_removed_in_the_meantime_is_not_called_damaged() {
    let (_dir, store) = store();
    let image = add_image(&store, &[&Tar::default().file("a", b"1").end()]).unwrap();
    store.remove_image(&image.id).unwrap();
    store.sweep(crate::Patience::Endless).unwrap().unwrap();
    let error = store.make_tree(&image).unwrap_err();
    assert!(matches!(error, crate::StoreError::NoImage(_)), "{error}");
}

#[test]
fn more_names_than_a_file_system_takes() {
    let (dir, store) = store();
    let image = add_image(&store, &[&Tar::default().file("a", b"1").end()]).unwrap();
    drop(store.tree(&image).unwrap());
    let shard = store.objects.dir.names().unwrap().remove(0);
    let object = store.objects.dir.path().join(&shard);
    let object = std::fs::read_dir(object).unwrap().next().unwrap().unwrap().path();
    let names = dir.path().join("names");
    std::fs::create_dir(&names).unwrap();
    for number in 0..70_000 {
        if std::fs::hard_link(&object, names.join(number.to_string())).is_err() {
            let other = add_image(&store, &[&Tar::default().dir("d/").file("d/a", b"1").end()]).unwrap();
            let tree = store.tree(&other).unwrap();
            assert_eq!(std::fs::read(tree.path().join("d/a")).unwrap(), b"1");
            return;
        }
    }
    println!("skipped: needs a file system with a limit of links below 70000, as ext4");
}

/// Makes a store whose trees have inodes of their own, if this process, the kernel and the file system support
/// them.
#[test]
fn a_disk_has_the_contents_and_is_made_once() {
    let (_dir, store) = store();
    let layer = Tar::default()
        .file("dir/file", b"the content of a file")
        .entry(b'0', "empty", 0o600, "", b"")
        .symlink("link", "/somewhere/else")
        .end();
    let image = add_image(&store, &[&layer]).unwrap();
    let tree = store.tree(&image).unwrap();
    let path = store.disk(&image, &tree).unwrap();
    assert_eq!(path.symlink_metadata().unwrap().mode(), 0o100_444);
    let before = inode(&path);
    assert_eq!(inode(&store.disk(&image, &tree).unwrap()), before);
    let bytes = std::fs::read(&path).unwrap();
    let content = b"the content of a file";
    assert!(bytes.windows(content.len()).any(|window| window == content));
    let disk = tote_erofs::Image::open(std::fs::File::open(&path).unwrap()).unwrap();
    let found = disk.find(b"dir/file").unwrap().unwrap();
    assert_eq!(found.size, content.len() as u64);
    assert_eq!(disk.xattr(&found, b"trusted.overlay.metacopy").unwrap(), None);
    assert!(disk.find(b"empty").unwrap().is_some());
    let names = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let left: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().starts_with(".new-")),
        "{left:?}"
    );
}
