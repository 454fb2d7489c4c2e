//! Archives that try to reach out of their directory, or exceed limits.

use crate::tar::{Member, archive, directory, file, hard_link, pax, symlink, unpack};
use std::error::Error;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tote_archive::{ExtractOptions, Limits, Owner, Reader};

/// A directory to extract to, with a secret beside it.
struct Place {
    outside: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        fs::create_dir(outside.path().join("dir")).unwrap();
        Self { outside, root }
    }

    /// Extracts, and checks that nothing outside has changed; returns the error, if there is one.
    fn unpack(&self, members: &[Member]) -> Option<String> {
        let options = ExtractOptions {
            owner: Owner::Process,
            ..ExtractOptions::default()
        };
        let result = unpack(members, &self.root, &options);
        assert_eq!(fs::read(self.outside.path().join("secret")).unwrap(), b"secret");
        assert_eq!(
            fs::symlink_metadata(self.outside.path().join("secret"))
                .unwrap()
                .nlink(),
            1
        );
        assert_eq!(fs::read_dir(self.outside.path().join("dir")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(self.outside.path()).unwrap().count(), 3);
        result.err().map(|error| chain(&error))
    }

    fn secret(&self) -> PathBuf {
        self.outside.path().join("secret")
    }
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn dots_that_lead_out_are_refused() {
    for name in [
        "../evil",
        "a/../../evil",
        "/../evil",
        "..",
        "a/..",
        "./../dir/evil",
    ] {
        let error = Place::new().unpack(&[file(name, "evil")]).unwrap();
        assert!(error.contains("contains `..`"), "{name}: {error}");
        let error = Place::new()
            .unpack(&[file("a", ""), hard_link("b", name)])
            .unwrap();
        assert!(error.contains("contains `..`"), "{name}: {error}");
    }
    let long = [pax(&[("path", b"../evil")]), file("good", "evil")];
    assert!(Place::new().unpack(&long).unwrap().contains("contains `..`"));
    let nul = [pax(&[("path", b"a\0b")]), file("good", "evil")];
    assert!(
        Place::new()
            .unpack(&nul)
            .unwrap()
            .contains("the value of path is invalid")
    );
}

#[test]
fn absolute_paths_are_within() {
    let place = Place::new();
    let secret = place.secret();
    let name = secret.as_os_str().as_encoded_bytes();
    assert_eq!(place.unpack(&[file(name, "mine"), hard_link("hard", name)]), None);
    assert_eq!(read(place.root.join("hard")), "mine");
}

#[test]
fn links_lead_to_places_within() {
    // Through a link to a directory outside, by every kind of entry.
    let outside = Place::new();
    let absolute = outside.outside.path().join("dir");
    let absolute = absolute.as_os_str().as_encoded_bytes();
    for target in [
        &b"../dir"[..],
        b"../../../../../../../../dir",
        b"/",
        b"..",
        absolute,
        b"/proc/self/root",
        b"/proc/self/cwd",
    ] {
        let place = Place::new();
        let chain = [
            symlink("a", target),
            symlink("b", "a"),
            file("b/evil", "evil"),
            directory("a/x"),
            file("a/x/y", ""),
        ];
        // Following a link that leads nowhere may fail or not; in both cases nothing outside may change.
        place.unpack(&chain);
        place.unpack(&[symlink("a", target), hard_link("hard", "a/secret")]);
        assert!(!place.outside.path().join("evil").try_exists().unwrap());
    }
}

#[test]
fn files_do_not_go_through_links_of_their_name() {
    for target in ["../secret", "/proc/self/root/etc/passwd"] {
        let place = Place::new();
        assert_eq!(place.unpack(&[symlink("a", target), file("a", "mine")]), None);
        assert!(fs::symlink_metadata(place.root.join("a")).unwrap().is_file());
        assert_eq!(read(place.root.join("a")), "mine");
    }
    let place = Place::new();
    assert_eq!(
        place.unpack(&[
            symlink("a", "../dir"),
            directory("a").mode(0o777),
            file("a/in", "")
        ]),
        None
    );
    assert!(fs::symlink_metadata(place.root.join("a")).unwrap().is_dir());
}

#[test]
fn a_hard_link_to_a_link_is_that_link() {
    let place = Place::new();
    assert_eq!(
        place.unpack(&[symlink("a", "../secret"), hard_link("b", "a"), file("b", "mine")]),
        None
    );
    assert_eq!(
        fs::read_link(place.root.join("a")).unwrap(),
        Path::new("../secret")
    );
    assert_eq!(read(place.root.join("b")), "mine");
}

#[test]
fn hard_links_lead_to_what_the_archive_made() {
    for target in ["secret", "nothing", "b", "/etc/passwd"] {
        let error = Place::new().unpack(&[hard_link("b", target)]).unwrap();
        assert!(error.starts_with("cannot link /b to /"), "{error}");
    }
    assert!(
        Place::new()
            .unpack(&[hard_link("b", "")])
            .unwrap()
            .contains("the target is empty")
    );
    assert!(
        Place::new()
            .unpack(&[hard_link("b", "/")])
            .unwrap()
            .contains("the target is empty")
    );
    assert!(
        Place::new()
            .unpack(&[directory("a"), hard_link("b", "a")])
            .unwrap()
            .contains("link /b to /a")
    );
    assert!(
        Place::new()
            .unpack(&[symlink("b", "")])
            .unwrap()
            .contains("the target is empty")
    );
}

#[test]
fn a_directory_that_becomes_a_link_is_not_written_through() {
    let place = Place::new();
    let members = [
        directory("a"),
        file("a/one", ""),
        symlink("a", "../dir"),
        file("a/two", ""),
        directory("c"),
        directory("c/d").mode(0o7777),
        symlink("c", "/../dir"),
    ];
    // `..` of the root is the root, so the link leads to `dir` inside, which does not exist.
    let error = place.unpack(&members).unwrap();
    assert!(error.contains("/a/two"), "{error}");
    assert!(fs::symlink_metadata(place.root.join("a")).unwrap().is_symlink());
    assert_eq!(place.unpack(&members[4..]), None);
    assert!(fs::symlink_metadata(place.root.join("c")).unwrap().is_symlink());
}

#[test]
fn what_is_replaced_is_unlinked_and_not_written_to() {
    let place = Place::new();
    let kept = place.outside.path().join("dir/kept");
    fs::write(place.root.join("a"), "old").unwrap();
    fs::hard_link(place.root.join("a"), &kept).unwrap();
    let options = ExtractOptions {
        owner: Owner::Process,
        ..ExtractOptions::default()
    };
    unpack(&[file("a", "new")], &place.root, &options).unwrap();
    assert_eq!(
        (read(&kept), read(place.root.join("a"))),
        ("old".into(), "new".into())
    );
}

#[test]
fn the_last_of_a_name_wins() {
    let place = Place::new();
    let members = [
        file("a", "one"),
        file("./a", "two"),
        directory("b"),
        file("b/c", ""),
        file("b", "file"),
        file("d", ""),
        directory("d/"),
        file("d/e", ""),
        symlink("f", "a"),
        file("f", "f"),
        hard_link("g", "a"),
        hard_link("g", "f"),
    ];
    assert_eq!(place.unpack(&members), None);
    let content = |name: &str| read(place.root.join(name));
    assert_eq!(
        [content("a"), content("b"), content("f"), content("g")],
        ["two", "file", "f", "f"]
    );
    assert!(place.root.join("d/e").try_exists().unwrap());
}

#[test]
fn numbers_that_lie() {
    for (size, error) in [
        (
            &b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"[..],
            "/a: the size is over the limit",
        ),
        (
            b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
            "/a: the size is over the limit",
        ),
        (b"\x80\0\0\x01\0\0\0\0\0\0\0\0", "invalid size"),
        (
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            "invalid size",
        ),
        (b"-0000000001\0", "invalid size"),
        (b"00000000999\0", "invalid size"),
        (b"00000010000\0", "truncated"),
    ] {
        let found = Place::new().unpack(&[file("a", "x").size(size)]).unwrap();
        assert!(found.contains(error), "{size:?}: {found}");
    }
    let place = Place::new();
    assert_eq!(
        place.unpack(&[file("a", "").mtime(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x9c")]),
        None
    );
    assert_eq!(fs::metadata(place.root.join("a")).unwrap().mtime(), -100);
    let found = place
        .unpack(&[pax(&[("size", b"99999999999999999999")]), file("a", "")])
        .unwrap();
    assert!(found.contains("the value of size is invalid"), "{found}");
}

#[test]
fn names_that_no_file_system_takes() {
    let place = Place::new();
    let name = vec![b'n'; 300];
    assert!(
        place
            .unpack(&[pax(&[("path", &name)]), file("a", "")])
            .unwrap()
            .starts_with("cannot make the file /nnn")
    );
    let path = [&b"d/"[..]; 600].concat();
    assert!(
        place
            .unpack(&[pax(&[("path", &path)]), file("a", "")])
            .unwrap()
            .contains("the depth of the path")
    );
    let path = vec![b'x'; 5000];
    assert!(
        place
            .unpack(&[pax(&[("path", &path)]), file("a", "")])
            .unwrap()
            .contains("the length of the path")
    );
    assert!(
        place
            .unpack(&[pax(&[("linkpath", &path)]), symlink("a", "b")])
            .unwrap()
            .contains("the length of a link")
    );
    assert_eq!(place.unpack(&[file(b"\xff\xfe", "x")]), None);
    assert_eq!(place.unpack(&[symlink("link", b"\xff\n")]), None);
}

#[test]
fn headers_that_grow() {
    let big = vec![b'x'; 2 << 20];
    assert!(
        Place::new()
            .unpack(&[pax(&[("comment", &big)])])
            .unwrap()
            .contains("an extended header: its length")
    );
    let mut long = Member::new("././@LongLink", b'L');
    long = long.size(b"77777777777\0");
    assert!(
        Place::new()
            .unpack(&[long])
            .unwrap()
            .contains("a long name: its length")
    );
    let limits = Limits {
        entries: 10,
        total_bytes: 100_000,
        ..Limits::default()
    };
    let error = |members: &[Member]| {
        let bytes = archive(members);
        let mut reader = Reader::new(&*bytes, limits);
        loop {
            match reader.next_change() {
                Ok(Some(_)) => {}
                Ok(None) => return String::new(),
                Err(error) => return chain(&error),
            }
        }
    };
    assert!(error(&vec![file("a", ""); 11]).contains("its number of headers is over the limit of 10"));
    assert!(error(&vec![pax(&[("a", b"b")]); 11]).contains("its number of headers"));
    assert_eq!(error(&vec![file("a", ""); 10]), "");
    assert!(error(&vec![file("a", vec![0; 40_000]); 3]).contains("its length is over the limit of 100000"));
    let mut bytes = archive(&[file("a", "")]);
    bytes.resize(200_000, b'x');
    let mut reader = Reader::new(&*bytes, limits);
    reader.next_change().unwrap();
    assert!(chain(&reader.next_change().unwrap_err()).contains("its length"));
}

#[test]
fn sparse_maps_that_lie() {
    for (records, error) in [
        (vec![("size", "10"), ("map", "5,4,0,1")], "not sorted"),
        (vec![("size", "3"), ("map", "0,4")], "not sorted"),
        (
            vec![
                ("size", "18446744073709551615"),
                ("map", "18446744073709551615,4"),
            ],
            "not sorted",
        ),
        (vec![("size", "10"), ("map", "0,3")], "does not match"),
        (vec![("size", "10"), ("map", "0,4,5")], "malformed"),
        (
            vec![("major", "1"), ("minor", "0"), ("realsize", "10")],
            "malformed",
        ),
        (
            vec![("size", "2000000000000"), ("map", "0,4")],
            "the size is over the limit",
        ),
    ] {
        let records: Vec<_> = records
            .iter()
            .map(|(key, value)| (format!("GNU.sparse.{key}"), value.as_bytes()))
            .collect();
        let records: Vec<_> = records
            .iter()
            .map(|(key, value)| (key.as_str(), *value))
            .collect();
        let found = Place::new().unpack(&[pax(&records), file("a", "data")]).unwrap();
        assert!(found.contains(error), "{records:?}: {found}");
    }
}

#[test]
fn what_is_no_file_of_ours() {
    for flag in *b"MDNAX8z\xff" {
        let error = Place::new().unpack(&[Member::new("a", flag)]).unwrap();
        assert!(error.contains("unsupported type"), "{flag}: {error}");
    }
    let mut bytes = archive(&[file("a", "")]);
    bytes[0] = b'b';
    assert!(
        chain(&Reader::new(&*bytes, Limits::default()).next_change().unwrap_err()).contains("wrong checksum")
    );
}

#[test]
fn attributes_of_overlayfs_and_of_the_host_stay_outside() {
    let place = Place::new();
    let attributes: [(&str, &[u8]); 4] = [
        ("SCHILY.xattr.trusted.overlay.redirect", b"/secret"),
        ("SCHILY.xattr.user.overlay.opaque", b"y"),
        ("SCHILY.xattr.security.selinux", b"label"),
        ("SCHILY.xattr.trusted.evil", b"x"),
    ];
    assert_eq!(
        place.unpack(&[pax(&attributes), directory("d"), pax(&attributes), file("f", "")]),
        None
    );
    for name in ["d", "f"] {
        let file = fs::File::open(place.root.join(name)).unwrap();
        let mut list = [0; 256];
        assert_eq!(rustix::fs::flistxattr(&file, &mut list).unwrap_or(0), 0, "{name}");
    }
}

#[test]
fn modes_come_as_they_are_and_not_before_their_time() {
    let place = Place::new();
    let members = [
        directory("closed").mode(0),
        file("closed/in", "x").mode(0),
        file("setuid", "x").mode(0o6755),
        directory("sticky").mode(0o1777),
        directory("setgid").mode(0o2755),
        directory("setgid/plain").mode(0o755),
        file("all", "x").mode(0o777),
    ];
    assert_eq!(place.unpack(&members), None);
    let mode = |name: &str| {
        fs::symlink_metadata(place.root.join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!(
        ["closed", "setuid", "sticky", "setgid", "setgid/plain", "all"].map(mode),
        [0, 0o6755, 0o1777, 0o2755, 0o755, 0o777]
    );
    assert_eq!(fs::metadata(place.root.join("setgid")).unwrap().mtime(), 100);
    // The directory must be removable for an unprivileged user.
    rustix::fs::chmod(place.root.join("closed"), rustix::fs::Mode::RWXU).unwrap();
}
