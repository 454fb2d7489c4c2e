//! Changes of layers to the layers below, on extraction and on reading an overlay's upper directory.

use crate::tar::{Member, directory, file, unpack};
use crate::trees::{is_root, options};
use rustix::fs::{FileType, Mode, XattrFlags};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use tote_archive::{
    Change, Difference, ExtractOptions, Limits, Reader, Status, Whiteouts, Writer, diff, extract, walk,
};

#[test]
fn whiteouts_remove_what_was_there_before() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    let lower = [
        "gone/deep/file",
        "opaque/old",
        "opaque/sub/old",
        "kept/file",
        "both/old",
        "late/old",
        "file",
    ];
    let lower: Vec<_> = lower.iter().map(|name| file(name, "lower")).collect();
    unpack(&lower, root, &options()).unwrap();
    let upper = [
        file(".wh.gone", ""),
        file(".wh.nothing", "content that nobody wants"),
        file("no/such/.wh.directory", ""),
        file("opaque/sub/new", ""),
        file("opaque/.wh..wh..opq", ""),
        file("both/new", ""),
        file(".wh.both", ""),
        file(".wh.late", ""),
        file("late/new", ""),
        file("file", "upper"),
        file(".wh.file", ""),
        file(".wh..wh.plnk/x", "aufs"),
    ];
    unpack(&upper, root, &options()).unwrap();
    let paths: Vec<_> = walk(File::open(root).unwrap().as_fd())
        .map(|found| found.unwrap().0.path.to_string())
        .collect();
    assert_eq!(
        paths,
        [
            "/",
            "/both",
            "/both/new",
            "/file",
            "/kept",
            "/kept/file",
            "/late",
            "/late/new",
            "/opaque",
            "/opaque/sub",
            "/opaque/sub/new"
        ]
    );
    assert_eq!(fs::read(root.join("file")).unwrap(), b"upper");
}

const LOWER: [&str; 7] = [
    "gone",
    "both/old",
    "late/old",
    "opaque/old",
    "opaque/sub/old",
    "opaque/same",
    "kept",
];

/// Builds a layer with whiteouts before and after entries that they must not remove.
fn layer() -> Vec<Member> {
    vec![
        directory("a"),
        file(".wh.gone", ""),
        directory("both"),
        file("both/new", ""),
        file(".wh.both", ""),
        file(".wh.late", ""),
        directory("late"),
        directory("opaque"),
        file("opaque/.wh..wh..opq", ""),
        directory("opaque/sub"),
        file("opaque/same", "upper"),
        file(".wh.file", ""),
        file("file", "upper"),
    ]
}

fn list(upper: &Path, lower: Option<&Path>) -> Vec<String> {
    let lower = lower.map(|lower| File::open(lower).unwrap());
    let differences = diff(
        lower.as_ref().map(File::as_fd),
        File::open(upper).unwrap().as_fd(),
    );
    let shown = |found: Difference| format!("{:?} {}", found.status, shown(&found.change));
    differences.map(|found| found.map(shown).unwrap()).collect()
}

#[test]
fn whiteouts_of_overlayfs_are_made_and_read() {
    if !is_root() {
        return;
    }
    let (tree, below) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = tree.path();
    unpack(&LOWER.map(|name| file(name, "lower")), below.path(), &options()).unwrap();
    let options = ExtractOptions {
        whiteouts: Whiteouts::Overlay { user_xattr: false },
        ..options()
    };
    unpack(&layer(), root, &options).unwrap();
    let gone = fs::symlink_metadata(root.join("gone")).unwrap();
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    assert_eq!(fs::read(root.join("file")).unwrap(), b"upper");
    assert_eq!(
        list(root, None),
        [
            "Changed /a",
            "Changed /both",
            "Changed opaque /both",
            "Changed /both/new",
            "Changed /file",
            "Deleted whiteout /gone",
            "Changed /late",
            "Changed opaque /late",
            "Changed /opaque",
            "Changed opaque /opaque",
            "Changed /opaque/same",
            "Changed /opaque/sub"
        ]
    );
    assert_eq!(
        list(root, Some(below.path())),
        [
            "Added /a",
            "Changed /both",
            "Added /both/new",
            "Deleted whiteout /both/old",
            "Added /file",
            "Deleted whiteout /gone",
            "Changed /late",
            "Deleted whiteout /late/old",
            "Changed /opaque",
            "Deleted whiteout /opaque/old",
            "Changed /opaque/same",
            "Changed /opaque/sub",
            "Deleted whiteout /opaque/sub/old"
        ]
    );
    let upper = File::open(root.join("opaque")).unwrap();
    rustix::fs::fsetxattr(&upper, "trusted.overlay.redirect", b"/x", XattrFlags::empty()).unwrap();
    let upper = File::open(root).unwrap();
    let error = diff(None, upper.as_fd()).find_map(Result::err).unwrap();
    assert!(error.to_string().contains("overlay.redirect"), "{error}");
}

fn shown(change: &Change) -> String {
    match change {
        Change::Add(entry) => entry.path.to_string(),
        Change::Whiteout(path) => format!("whiteout {path}"),
        Change::Opaque(path) => format!("opaque {path}"),
    }
}

#[test]
fn a_diff_applied_to_the_lower_tree_is_the_merged_tree() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    for name in ["lower", "upper", "copy"] {
        fs::create_dir(at(name)).unwrap();
    }
    let lower = ["a/one", "a/two", "b/x/y", "c", "d/e"].map(|name| file(name, "lower"));
    for name in ["lower", "copy"] {
        unpack(&lower, &at(name), &options()).unwrap();
    }
    // The state that overlayfs leaves: a/one removed, b replaced by a directory, c by a link, d/e by a directory.
    fs::create_dir_all(at("upper/a")).unwrap();
    fs::create_dir_all(at("upper/b/x")).unwrap();
    fs::create_dir_all(at("upper/d/e")).unwrap();
    fs::write(at("upper/a/three"), "upper").unwrap();
    std::os::unix::fs::symlink("a", at("upper/c")).unwrap();
    let dir = File::open(at("upper/a")).unwrap();
    rustix::fs::mknodat(&dir, "one", FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    let dir = File::open(at("upper/b")).unwrap();
    rustix::fs::fsetxattr(&dir, "trusted.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
    let mut writer = Writer::new(Vec::new());
    for found in diff(
        Some(File::open(at("lower")).unwrap().as_fd()),
        File::open(at("upper")).unwrap().as_fd(),
    ) {
        let found = found.unwrap();
        assert_ne!(
            (found.status, found.change.name_in_layer()),
            (Status::Added, b"a".to_vec())
        );
        writer.change(&found.change).unwrap();
        if let Some(mut content) = found.content {
            std::io::copy(&mut content, &mut writer).unwrap();
        }
    }
    let layer = writer.finish().unwrap();
    extract(
        &mut Reader::new(&*layer, Limits::default()),
        File::open(at("copy")).unwrap().as_fd(),
        &options(),
    )
    .unwrap();
    let paths: Vec<_> = walk(File::open(at("copy")).unwrap().as_fd())
        .map(|found| found.unwrap().0.path.to_string())
        .collect();
    assert_eq!(
        paths,
        ["/", "/a", "/a/three", "/a/two", "/b", "/b/x", "/c", "/d", "/d/e"]
    );
}
