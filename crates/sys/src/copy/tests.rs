use super::{CopyMode, LinkedName, TreeCopy, copy_tree, descriptor_path, hexadecimal};
use rustix::fd::AsFd as _;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

fn copied(from: &Path, to: &Path, how: CopyMode) {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    copy_tree(&TreeCopy {
        from: text(from),
        fresh: text(&to.with_extension("fresh")),
        to: text(to),
        how,
        links: None,
    })
    .unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    let file = fs::File::open(path).unwrap();
    file.set_permissions(fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_copy_is_like_its_original() {
    let temp = tempfile::tempdir().unwrap();
    let (from, to) = (temp.path().join("from"), temp.path().join("to"));
    fs::create_dir_all(from.join("a/b")).unwrap();
    fs::write(from.join("a/file"), "text").unwrap();
    set_mode(&from.join("a/file"), 0o4751);
    fs::hard_link(from.join("a/file"), from.join("a/b/again")).unwrap();
    symlink("/nowhere", from.join("link")).unwrap();
    let sparse = fs::File::create_new(from.join("sparse")).unwrap();
    sparse.set_len(10 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", (8 << 20) + 5).unwrap();
    let file = fs::File::open(from.join("a/file")).unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_000_000, 5);
    file.set_modified(long_ago).unwrap();
    fs::File::open(from.join("a"))
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    let has_attributes = rustix::fs::setxattr(
        from.join("a/file"),
        "user.key",
        b"value",
        rustix::fs::XattrFlags::empty(),
    )
    .is_ok();
    set_mode(&from, 0o750);

    for (reflink, hard_links) in [(false, true), (true, false)] {
        copied(&from, &to, CopyMode { reflink, hard_links });
        let (file, again) = (to.join("a/file"), to.join("a/b/again"));
        assert_eq!(fs::read(&file).unwrap(), b"text");
        let (file, again) = (fs::metadata(file).unwrap(), fs::metadata(again).unwrap());
        assert_eq!(file.mode() & 0o7777, 0o4751);
        assert_eq!(file.ino() == again.ino(), hard_links);
        assert_eq!(file.modified().unwrap(), long_ago);
        assert_eq!(fs::metadata(to.join("a")).unwrap().modified().unwrap(), long_ago);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/nowhere"));
        assert_eq!(fs::metadata(&to).unwrap().mode() & 0o7777, 0o750);
        let (sparse, original) = (to.join("sparse"), from.join("sparse"));
        assert_eq!(fs::read(&sparse).unwrap(), fs::read(original).unwrap());
        assert!(fs::metadata(&sparse).unwrap().blocks() * 512 < 1 << 20);
        if has_attributes {
            let mut value = [0; 8];
            let length = rustix::fs::getxattr(to.join("a/file"), "user.key", &mut value[..]).unwrap();
            assert_eq!(&value[..length], b"value");
        }
        let mut names: Vec<_> = fs::read_dir(&to)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["a", "link", "sparse"]);
        fs::remove_dir_all(&to).unwrap();
    }
}

#[test]
fn a_copy_inside_its_original_does_not_copy_itself() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("x"), "x").unwrap();
    let to = temp.path().join("to");
    copied(temp.path(), &to, CopyMode::default());
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
}

#[test]
fn numbers_as_text() {
    assert_eq!(&hexadecimal(0xfedc_ba98_7654_3210), b"fedcba9876543210\0");
    let file = fs::File::open("/").unwrap();
    let path = descriptor_path(file.as_fd());
    let expected = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&file));
    assert!(path.starts_with(expected.as_bytes()) && path[expected.len()] == 0);
}

/// A store keeps equal files as one; in the copy they are as many files as in the image.
#[test]
fn only_the_links_that_are_named_are_kept() {
    let temp = tempfile::tempdir().unwrap();
    let (from, to) = (temp.path().join("from"), temp.path().join("to"));
    fs::create_dir_all(from.join("dir")).unwrap();
    fs::write(from.join("a"), "text").unwrap();
    for name in ["b", "c", "dir/a", "dir/b"] {
        fs::hard_link(from.join("a"), from.join(name)).unwrap();
    }
    let link = |path: &str, file| {
        let path = from.join(path);
        let directory = fs::metadata(path.parent().unwrap()).unwrap().ino();
        let name = CString::new(path.file_name().unwrap().as_bytes()).unwrap();
        LinkedName {
            directory,
            name,
            file,
        }
    };
    let mut links = vec![link("a", 1), link("dir/b", 1), link("b", 2), link("dir/a", 2)];
    links.sort();
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    copy_tree(&TreeCopy {
        from: text(&from),
        fresh: text(&to.with_extension("fresh")),
        to: text(&to),
        how: CopyMode {
            reflink: false,
            hard_links: true,
        },
        links: Some(links),
    })
    .unwrap();
    let found = |name: &str| {
        let found = fs::metadata(to.join(name)).unwrap();
        (found.ino(), found.nlink())
    };
    assert_eq!(found("a"), found("dir/b"));
    assert_eq!(found("b"), found("dir/a"));
    assert_ne!(found("a").0, found("b").0);
    assert_eq!((found("a").1, found("b").1, found("c").1), (2, 2, 1));
    assert_eq!(fs::read(to.join("c")).unwrap(), b"text");
}
