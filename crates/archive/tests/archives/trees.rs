//! Trees made of archives, and archives made of trees, with all metadata.

use crate::tar::{Member, directory, file, hard_link, pax, symlink, unpack};
use rustix::fs::{Mode, XattrFlags};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use tote_archive::{
    Devices, Entry, ExtractOptions, Kind, Limits, Overwrite, Owner, Reader, Writer, extract, tree_digest,
    walk,
};

pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: needs root");
    }
    root
}

/// Members of every kind that the process may create.
fn everything() -> Vec<Member> {
    let owner = if rustix::process::geteuid().is_root() {
        (1000, 2000)
    } else {
        (0, 0)
    };
    let mut members = vec![
        directory("./").mode(0o751),
        directory("d").mode(0o2775).owner(owner.0, owner.1),
        file("d/file", "content").owner(owner.0, owner.1).mode(0o4751),
        hard_link("d/hard", "d/file"),
        symlink("d/soft", "file").owner(owner.0, owner.1),
        pax(&[
            ("SCHILY.xattr.user.one", b"1"),
            ("SCHILY.xattr.user.two", b"\0\xff"),
            ("mtime", b"12.5"),
        ]),
        file("d/read-only", "x").mode(0o444),
        pax(&[("SCHILY.xattr.user.dir", b"1"), ("mtime", b"-1.25")]),
        directory("d/sub").mode(0o500),
        file("d/sub/deep", vec![7; 300_000]),
        Member::new("fifo", b'6').mode(0o662),
        file("implied/by/file", "").mtime(b"00000000000"),
    ];
    if rustix::process::geteuid().is_root() {
        members.push(Member::new("dev", b'3').device(1, 3).mode(0o666));
        members.push(Member::new("disk", b'4').device(8, 1).mode(0o660).owner(0, 6));
    }
    members
}

pub(crate) fn options() -> ExtractOptions {
    let owner = if rustix::process::geteuid().is_root() {
        Owner::Archive
    } else {
        Owner::Process
    };
    ExtractOptions {
        owner,
        ..ExtractOptions::default()
    }
}

fn pack(root: &Path) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for found in walk(File::open(root).unwrap().as_fd()) {
        let (entry, content) = found.unwrap();
        writer.entry(&entry).unwrap();
        if let Some(mut content) = content {
            std::io::copy(&mut content, &mut writer).unwrap();
        }
    }
    writer.finish().unwrap()
}

fn digest(root: &Path) -> [u8; 32] {
    tree_digest(File::open(root).unwrap().as_fd()).unwrap()
}

#[test]
fn a_tree_survives_an_archive() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let done = unpack(&everything(), one.path(), &options()).unwrap();
    assert_eq!(done.bytes, 300_000 + 8);
    let stat = |path: &str| fs::symlink_metadata(one.path().join(path)).unwrap();
    assert_eq!(stat("").mode() & 0o7777, 0o751);
    assert_eq!(
        (stat("d/file").mode() & 0o7777, stat("d/file").nlink()),
        (0o4751, 2)
    );
    assert_eq!(
        (stat("d/read-only").mtime(), stat("d/read-only").mtime_nsec()),
        (12, 500_000_000)
    );
    assert_eq!(
        (stat("d/sub").mtime(), stat("d/sub").mtime_nsec()),
        (-2, 750_000_000)
    );
    assert_eq!((stat("d").mtime(), stat("d").mode() & 0o7777), (100, 0o2775));
    assert_eq!(stat("implied/by").mode() & 0o777, 0o755);
    assert!(stat("fifo").file_type().is_fifo());
    if rustix::process::geteuid().is_root() {
        assert_eq!((stat("d/file").uid(), stat("d/soft").gid()), (1000, 2000));
        assert_eq!(stat("dev").rdev(), rustix::fs::makedev(1, 3));
        assert_eq!((stat("disk").mode() & 0o777, stat("disk").gid()), (0o660, 6));
    }
    let packed = pack(one.path());
    extract(
        &mut Reader::new(&*packed, Limits::default()),
        File::open(two.path()).unwrap().as_fd(),
        &options(),
    )
    .unwrap();
    assert!(pack(two.path()) == packed);
    assert_eq!(digest(one.path()), digest(two.path()));
    rustix::fs::chmod(one.path().join("d/sub"), Mode::RWXU).unwrap();
    rustix::fs::chmod(two.path().join("d/sub"), Mode::RWXU).unwrap();
}

#[test]
fn every_difference_is_another_digest() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    unpack(&everything(), root, &options()).unwrap();
    let set = |name: &str, value: &[u8]| {
        let file = File::open(root.join("d/file")).unwrap();
        rustix::fs::fsetxattr(&file, name, value, XattrFlags::empty()).unwrap();
    };
    let changes: [(&str, &dyn Fn()); 6] = [
        ("content", &|| {
            File::options()
                .write(true)
                .open(root.join("d/file"))
                .unwrap()
                .write_all(b"C")
                .unwrap()
        }),
        ("mode", &|| {
            rustix::fs::chmod(root.join("d/file"), Mode::RWXU).unwrap()
        }),
        ("attribute", &|| set("user.new", b"1")),
        ("value", &|| set("user.new", b"2")),
        ("name", &|| {
            fs::rename(root.join("d/soft"), root.join("d/softer")).unwrap()
        }),
        ("link", &|| {
            fs::remove_file(root.join("d/hard")).unwrap();
            fs::copy(root.join("d/file"), root.join("d/hard")).unwrap();
        }),
    ];
    let mut seen = vec![digest(root)];
    for (name, change) in changes {
        change();
        let now = digest(root);
        assert!(!seen.contains(&now), "{name}");
        seen.push(now);
    }
    rustix::fs::chmod(root.join("d/sub"), Mode::RWXU).unwrap();
}

#[test]
fn holes_stay_holes() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let entry = Entry::new(
        tote_archive::EntryPath::parse(b"sparse").unwrap(),
        Kind::File { size: 1 << 30 },
    );
    let mut writer = Writer::new(Vec::new());
    writer
        .sparse_entry(
            &entry,
            &[tote_archive::Extent {
                offset: 1 << 20,
                len: 4,
            }],
        )
        .unwrap();
    writer.write_all(b"data").unwrap();
    fs::write(from.path().join("archive"), writer.finish().unwrap()).unwrap();
    let archive = File::open(from.path().join("archive")).unwrap();
    let done = extract(
        &mut Reader::new(archive, Limits::default()),
        File::open(to.path()).unwrap().as_fd(),
        &options(),
    );
    assert_eq!(done.unwrap().bytes, 4);
    let stat = fs::metadata(to.path().join("sparse")).unwrap();
    assert_eq!(stat.len(), 1 << 30);
    assert!(stat.blocks() * 512 < 1 << 20, "{} blocks", stat.blocks());
    let mut read = [0; 6];
    File::open(to.path().join("sparse"))
        .unwrap()
        .read_exact_at(&mut read, (1 << 20) - 1)
        .unwrap();
    assert_eq!(&read, b"\0data\0");
}

#[test]
fn add_as_docker_does_it() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    fs::create_dir(root.join("dir")).unwrap();
    fs::write(root.join("file"), "").unwrap();
    rustix::fs::chmod(root, Mode::from_raw_mode(0o700)).unwrap();
    let add = ExtractOptions {
        overwrite: Overwrite::SameKind,
        keep_root: true,
        ..options()
    };
    for (member, error) in [
        (
            file("dir", ""),
            "cannot overwrite directory /dir with non-directory",
        ),
        (
            symlink("dir", "x"),
            "cannot overwrite directory /dir with non-directory",
        ),
        (
            directory("file"),
            "cannot overwrite non-directory /file with directory",
        ),
    ] {
        assert_eq!(unpack(&[member], root, &add).unwrap_err().to_string(), error);
    }
    let bytes = crate::tar::archive(&[
        directory("./").mode(0o755),
        file("file", "new"),
        file(".wh.file", "plain"),
        directory("dir"),
    ]);
    let mut reader = Reader::new(&*bytes, Limits::default()).without_whiteouts();
    extract(&mut reader, File::open(root).unwrap().as_fd(), &add).unwrap();
    assert_eq!(fs::metadata(root).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read(root.join("file")).unwrap(), b"new");
    assert_eq!(fs::read(root.join(".wh.file")).unwrap(), b"plain");
}

#[test]
fn owners_and_devices_are_a_matter_of_options() {
    if !is_root() {
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    let members = [
        file("a/b", "").owner(1, 2),
        Member::new("dev", b'3').device(1, 3),
        symlink("s", "a").owner(1, 2),
    ];
    let stat = |name: &str| {
        let stat = fs::symlink_metadata(tree.path().join(name)).unwrap();
        (stat.uid(), stat.gid())
    };
    let fixed = ExtractOptions {
        owner: Owner::Fixed { uid: 7, gid: 8 },
        devices: Devices::Skip,
        ..options()
    };
    let done = unpack(&members, tree.path(), &fixed).unwrap();
    assert_eq!(
        (
            done.devices_skipped,
            tree.path().join("dev").try_exists().unwrap()
        ),
        (1, false)
    );
    assert_eq!([stat("a"), stat("a/b"), stat("s")], [(7, 8); 3]);
    unpack(&members, tree.path(), &options()).unwrap();
    assert_eq!([stat("a"), stat("a/b"), stat("s")], [(7, 8), (1, 2), (1, 2)]);
    let minus_one = [pax(&[("uid", b"4294967295")]), file("x", "")];
    let error = unpack(&minus_one, tree.path(), &options()).unwrap_err();
    assert_eq!(error.to_string(), "cannot set the owner of /x");
}

#[test]
fn what_goes_to_the_caller_gives_nobody_rights() {
    if !is_root() {
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    // A capability, CAP_SETUID, in the kernel's form (`struct vfs_ns_cap_data` is longer).
    let capability = b"\x01\0\0\x02\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let members = [
        pax(&[
            ("SCHILY.xattr.security.capability", capability),
            ("SCHILY.xattr.user.own", b"1"),
        ]),
        file("tool", "x").owner(1, 2).mode(0o6755),
        directory("dir").mode(0o7777),
        file("dir/deep", "x").mode(0o4711),
        hard_link("dir/again", "tool"),
        Member::new("fifo", b'6').mode(0o6666),
        Member::new("dev", b'3').device(1, 3).mode(0o666),
        Member::new("disk", b'4').device(8, 1).mode(0o660),
    ];
    let mode = |name: &str| {
        let stat = fs::symlink_metadata(tree.path().join(name)).unwrap();
        stat.permissions().mode() & 0o7777
    };
    // The option for devices does not bring them back.
    for devices in [Devices::Make, Devices::IfPermitted, Devices::Skip] {
        let to_caller = ExtractOptions {
            owner: Owner::Caller,
            devices,
            ..ExtractOptions::default()
        };
        let done = unpack(&members, tree.path(), &to_caller).unwrap();
        assert_eq!(done.devices_skipped, 2, "{devices:?}");
        for (name, expected) in [
            ("tool", 0o755),
            ("dir", 0o1777),
            ("dir/deep", 0o711),
            ("dir/again", 0o755),
            ("fifo", 0o666),
        ] {
            assert_eq!(mode(name), expected, "{name}");
        }
        let stat = fs::metadata(tree.path().join("tool")).unwrap();
        assert_eq!((stat.uid(), stat.gid()), (0, 0));
        let tool = File::open(tree.path().join("tool")).unwrap();
        let value = |name: &str| rustix::fs::fgetxattr(&tool, name, &mut [0; 64]).is_ok();
        assert!(!value("security.capability"), "{devices:?}");
    }
}

#[test]
fn a_walk_is_sorted_and_follows_nothing() {
    let tree = tempfile::tempdir().unwrap();
    let members = [
        file("a.b", ""),
        file("a/b", ""),
        file("a/c/d", ""),
        symlink("a/to", "/"),
        file("B", ""),
        file("a-", ""),
    ];
    unpack(&members, tree.path(), &options()).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(tree.path().join("socket")).unwrap();
    let entries: Vec<_> = walk(File::open(tree.path()).unwrap().as_fd())
        .map(|found| found.unwrap().0.path)
        .collect();
    drop(socket);
    assert!(entries.is_sorted());
    let names: Vec<_> = entries.iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        ["/", "/B", "/a", "/a/b", "/a/c", "/a/c/d", "/a/to", "/a-", "/a.b"]
    );
    let mut content = String::new();
    let mut walk = walk(File::open(tree.path()).unwrap().as_fd());
    let (_, file) = walk.nth(1).unwrap().unwrap();
    file.unwrap().read_to_string(&mut content).unwrap();
    assert_eq!(content, "");
}
