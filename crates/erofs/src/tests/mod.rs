//! Images are read by this crate, and mounted where the process may mount, and compared with their trees.

mod any;

use crate::{Image, Inode, Kind, Layout, LayoutError, Node, Tree, Xattr};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};
use std::collections::BTreeMap;
use std::io::Write as _;

/// A tree in memory.
#[derive(Clone, Debug)]
struct Plain(Vec<File>);

#[derive(Clone, Debug)]
struct File {
    mode: u16,
    owner: (u32, u32),
    time: (i64, u32),
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    kind: What,
}

#[derive(Clone, Debug)]
enum What {
    Directory(BTreeMap<Vec<u8>, usize>),
    File(u64),
    Symlink(Vec<u8>),
    Device(bool, u32, u32),
    Fifo,
}

impl Tree for Plain {
    fn inode(&self, number: usize) -> Inode<'_> {
        let file = &self.0[number];
        Inode {
            mode: file.mode,
            uid: file.owner.0,
            gid: file.owner.1,
            secs: file.time.0,
            nanos: file.time.1,
            node: match &file.kind {
                What::Directory(_) => Node::Directory,
                What::File(size) => Node::File(*size),
                What::Symlink(target) => Node::Symlink(target),
                What::Device(block, major, minor) => Node::Device {
                    block: *block,
                    major: *major,
                    minor: *minor,
                },
                What::Fifo => Node::Fifo,
            },
        }
    }

    fn names<'a>(&'a self, number: usize, each: &mut dyn FnMut(&'a [u8], usize)) {
        if let What::Directory(names) = &self.0[number].kind {
            for (name, child) in names {
                each(name, *child);
            }
        }
    }

    fn xattrs(&self, number: usize, each: &mut dyn FnMut(Xattr<'_>)) {
        for (name, value) in &self.0[number].xattrs {
            each(Xattr { name, value });
        }
    }
}

impl Plain {
    fn new() -> Self {
        Self(vec![file(What::Directory(BTreeMap::new()))])
    }

    fn add(&mut self, dir: usize, name: &[u8], file: File) -> usize {
        self.0.push(file);
        let number = self.0.len() - 1;
        self.link(dir, name, number);
        number
    }

    fn link(&mut self, dir: usize, name: &[u8], number: usize) {
        if let What::Directory(names) = &mut self.0[dir].kind {
            names.insert(name.to_vec(), number);
        }
    }

    /// How many names a file has, or what a directory shows as that.
    fn links(&self, number: usize) -> usize {
        let is_dir = |number: usize| matches!(self.0[number].kind, What::Directory(_));
        if let What::Directory(names) = &self.0[number].kind {
            return 2 + names.values().filter(|child| is_dir(**child)).count();
        }
        let all = self.0.iter().map(|file| match &file.kind {
            What::Directory(names) => names.values().filter(|child| **child == number).count(),
            _ => 0,
        });
        all.sum()
    }

    fn bytes(&self) -> Result<Vec<u8>, LayoutError> {
        let shared = [Xattr {
            name: b"trusted.shared",
            value: b"",
        }];
        let layout = Layout::of(self, 0, [7; 16], &shared)?;
        let mut bytes = Vec::new();
        layout.write(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, layout.size());
        Ok(bytes)
    }
}

fn file(kind: What) -> File {
    File {
        mode: 0o755,
        owner: (1, 2),
        time: (1_700_000_000, 123_456_789),
        xattrs: Vec::new(),
        kind,
    }
}

fn on_disk(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn opened(bytes: &[u8]) -> Result<Image, crate::ReadError> {
    Image::open(on_disk(bytes).reopen().unwrap())
}

/// Mounts an image, attached nowhere; `None` where this process or this kernel cannot.
fn mounted(image: &std::path::Path) -> Option<OwnedFd> {
    let mount = || {
        let context = fsopen(c"erofs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, c"source", image)?;
        fsconfig_set_flag(&context, c"ro")?;
        fsconfig_create(&context)?;
        fsmount(
            &context,
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::MOUNT_ATTR_RDONLY,
        )
    };
    match mount() {
        Ok(mount) => Some(mount),
        // A kernel before 6.12 wants a block device.
        Err(errno @ (Errno::PERM | Errno::NODEV | Errno::NOTBLK)) => {
            println!("skipped: needs the right to mount an EROFS from a file: {errno}");
            None
        }
        Err(errno) => panic!("the kernel refuses the image: {errno}"),
    }
}

/// Compares a directory of a mounted image with the tree, and what is below it.
fn compare(tree: &Plain, number: usize, dir: &OwnedFd, inodes: &mut BTreeMap<usize, u64>) {
    let What::Directory(names) = &tree.0[number].kind else {
        panic!("{number} is no directory");
    };
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir).unwrap() {
        let name = entry.unwrap().file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            found.push(name);
        }
    }
    assert_eq!(found, names.keys().cloned().collect::<Vec<_>>());
    for (name, child) in names {
        let stat = rustix::fs::statat(dir, &**name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        compare_inode(tree, *child, &stat);
        assert_eq!(*inodes.entry(*child).or_insert(stat.st_ino), stat.st_ino);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match &tree.0[*child].kind {
            What::Symlink(target) => {
                let read = rustix::fs::readlinkat(dir, &**name, Vec::new()).unwrap();
                assert_eq!(read.as_bytes(), target);
            }
            What::File(_) => {
                let file = rustix::fs::openat(dir, &**name, flags, Mode::empty()).unwrap();
                compare_xattrs(&tree.0[*child].xattrs, &file);
                // The data are holes.
                let mut bytes = [1; 100];
                let length = rustix::io::read(&file, &mut bytes).unwrap();
                assert!(bytes[..length].iter().all(|byte| *byte == 0));
                assert_eq!(length as i64, stat.st_size.min(100));
            }
            What::Directory(_) => {
                let below = rustix::fs::openat(dir, &**name, flags, Mode::empty()).unwrap();
                compare_xattrs(&tree.0[*child].xattrs, &below);
                compare(tree, *child, &below, inodes);
                let above = rustix::fs::statat(&below, "..", AtFlags::empty()).unwrap();
                let here = rustix::fs::fstat(dir).unwrap();
                assert_eq!(above.st_ino, here.st_ino);
            }
            What::Device(..) | What::Fifo => {}
        }
    }
}

fn compare_inode(tree: &Plain, number: usize, stat: &Stat) {
    let file = &tree.0[number];
    assert_eq!(stat.st_mode & 0o7777, u32::from(file.mode));
    assert_eq!((stat.st_uid, stat.st_gid), file.owner);
    assert_eq!((stat.st_mtime, stat.st_mtime_nsec as u32), file.time);
    assert_eq!(stat.st_nlink, tree.links(number) as u64);
    let kind = FileType::from_raw_mode(stat.st_mode);
    match &file.kind {
        What::Directory(_) => assert_eq!(kind, FileType::Directory),
        What::File(size) => assert_eq!((kind, stat.st_size as u64), (FileType::RegularFile, *size)),
        What::Symlink(target) => {
            assert_eq!((kind, stat.st_size as usize), (FileType::Symlink, target.len()));
        }
        What::Device(block, major, minor) => {
            let expected = if *block {
                FileType::BlockDevice
            } else {
                FileType::CharacterDevice
            };
            assert_eq!(kind, expected);
            assert_eq!(stat.st_rdev, rustix::fs::makedev(*major, *minor));
        }
        What::Fifo => assert_eq!(kind, FileType::Fifo),
    }
}

fn compare_xattrs(xattrs: &[(Vec<u8>, Vec<u8>)], file: &OwnedFd) {
    for (name, value) in xattrs {
        let mut found = vec![0; value.len() + 1];
        let length = rustix::fs::fgetxattr(file.as_fd(), &**name, &mut found[..]).unwrap();
        assert_eq!(&found[..length], value, "{}", String::from_utf8_lossy(name));
    }
}

/// Looks every path of a tree up without a mount.
fn read_back(tree: &Plain, bytes: &[u8]) {
    let image = opened(bytes).unwrap();
    let mut count = 0;
    image
        .for_each(|_| {
            count += 1;
            Ok::<_, crate::ReadError>(())
        })
        .unwrap();
    assert_eq!(count, tree.0.len());
    let mut open = vec![(Vec::new(), 0)];
    while let Some((path, number)) = open.pop() {
        let found = image.find(&path).unwrap();
        match &tree.0[number].kind {
            What::Directory(names) => {
                assert_eq!(found.unwrap().kind, Kind::Directory);
                for (name, child) in names {
                    open.push(([&path, &b"/"[..], name].concat(), *child));
                }
            }
            What::File(size) => {
                let found = found.unwrap();
                assert_eq!((found.kind, found.size), (Kind::File, *size));
                for (name, value) in &tree.0[number].xattrs {
                    if name != b"trusted.shared" {
                        assert_eq!(image.xattr(&found, name).unwrap().as_ref(), Some(value));
                    }
                }
                assert_eq!(image.xattr(&found, b"user.other").unwrap(), None);
            }
            _ => {}
        }
    }
    assert_eq!(image.find(b"not/there").unwrap(), None);
}

fn check(tree: &Plain) {
    let bytes = tree.bytes().unwrap();
    assert_eq!(tree.bytes().unwrap(), bytes, "the same tree gives the same bytes");
    read_back(tree, &bytes);
    let file = on_disk(&bytes);
    if let Some(mount) = mounted(file.path()) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&mount, ".", flags, Mode::empty()).unwrap();
        compare_inode(tree, 0, &rustix::fs::fstat(&root).unwrap());
        compare(tree, 0, &root, &mut BTreeMap::new());
    }
}

#[test]
fn every_kind_of_file_with_all_that_an_inode_has() {
    let mut tree = Plain::new();
    let etc = tree.add(0, b"etc", file(What::Directory(BTreeMap::new())));
    let mut program = file(What::File(12345));
    program.mode = 0o4755;
    program.xattrs = vec![
        (b"trusted.shared".to_vec(), Vec::new()),
        (
            b"security.capability".to_vec(),
            vec![1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        (b"trusted.overlay.redirect".to_vec(), vec![b'x'; 99]),
        (b"user.large".to_vec(), vec![b'y'; 9000]),
    ];
    let program = tree.add(etc, b"program", program);
    tree.link(0, b"again", program);
    // Between "." and ".." in the order of a directory, and before both.
    tree.link(0, b".!", program);
    tree.link(0, b"!", program);
    tree.add(0, b"huge", file(What::File(i64::MAX as u64)));
    tree.add(0, b"empty", file(What::File(0)));
    tree.add(
        0,
        b"early",
        File {
            time: (-5, 999_999_999),
            ..file(What::File(1))
        },
    );
    for length in [1, 20, 1000, 3000, 4000, 4095] {
        tree.add(
            etc,
            format!("link{length}").as_bytes(),
            file(What::Symlink(vec![b't'; length])),
        );
    }
    tree.add(0, b"null", file(What::Device(false, 1, 3)));
    tree.add(0, b"disk", file(What::Device(true, 259, 0x12345)));
    tree.add(0, b"pipe", file(What::Fifo));
    tree.add(0, &[b'n'; 255], file(What::Fifo));
    check(&tree);
}

/// Data of a file in the tests.
fn data_of(number: usize, size: u64) -> Vec<u8> {
    (0..size).map(|at| (at / 7) as u8 ^ number as u8).collect()
}

#[test]
fn files_with_their_data() {
    let mut tree = Plain::new();
    let dir = tree.add(0, b"dir", file(What::Directory(BTreeMap::new())));
    for size in [0, 1, 4095, 4096, 4097, 100_000] {
        tree.add(dir, format!("file{size}").as_bytes(), file(What::File(size)));
    }
    tree.link(0, b"again", 3);
    tree.add(0, b"link", file(What::Symlink(vec![b't'; 4000])));
    for count in 0..400 {
        tree.add(0, format!("name-{count:04}").as_bytes(), file(What::Fifo));
    }
    let layout = Layout::with_data(&tree, 0, [7; 16]).unwrap();
    let mut bytes = Vec::new();
    let mut data = |number: usize, out: &mut dyn std::io::Write| {
        let What::File(size) = tree.0[number].kind else {
            panic!("{number} is not a file");
        };
        out.write_all(&data_of(number, size))
    };
    layout.write_with_data(&mut bytes, &mut data).unwrap();
    assert_eq!(bytes.len() as u64, layout.size());
    assert!(bytes.len() < 200_000, "a hard link has no data of its own");
    read_back(&tree, &bytes);
    let image = on_disk(&bytes);
    if let Some(mount) = mounted(image.path()) {
        for (name, number) in [
            ("dir/file1", 3),
            ("again", 3),
            ("dir/file4097", 6),
            ("dir/file100000", 7),
        ] {
            let What::File(size) = tree.0[number].kind else {
                panic!("{number} is not a file");
            };
            let file =
                rustix::fs::openat(&mount, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
            let mut found = Vec::new();
            std::io::Read::read_to_end(&mut std::fs::File::from(file), &mut found).unwrap();
            assert!(found == data_of(number, size), "{name}");
        }
    }
    let mut short = |_: usize, out: &mut dyn std::io::Write| out.write_all(b"x");
    let error = layout.write_with_data(Vec::new(), &mut short).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
}

#[test]
fn directories_of_all_sizes() {
    for count in [0, 1, 30, 100, 200, 330, 340, 341, 342, 700, 2000] {
        let mut tree = Plain::new();
        let dir = tree.add(0, b"dir", file(What::Directory(BTreeMap::new())));
        for number in 0..count {
            let one = tree.add(dir, format!("name-{number:04}").as_bytes(), file(What::File(1)));
            tree.link(0, format!("{number}").as_bytes(), one);
        }
        check(&tree);
    }
}

#[test]
fn deep_trees() {
    let mut tree = Plain::new();
    let mut dir = 0;
    for _ in 0..500 {
        dir = tree.add(dir, b"d", file(What::Directory(BTreeMap::new())));
    }
    tree.add(dir, b"last", file(What::Fifo));
    check(&tree);
}

#[test]
fn paths_are_found_as_in_a_root() {
    let mut tree = Plain::new();
    let usr = tree.add(0, b"usr", file(What::Directory(BTreeMap::new())));
    let etc = tree.add(usr, b"etc", file(What::Directory(BTreeMap::new())));
    tree.add(etc, b"passwd", file(What::File(7)));
    tree.add(0, b"etc", file(What::Symlink(b"/usr/./etc".to_vec())));
    tree.add(
        0,
        b"out",
        file(What::Symlink(b"../../usr/etc/../etc/passwd".to_vec())),
    );
    tree.add(0, b"loop", file(What::Symlink(b"loop".to_vec())));
    let image = opened(&tree.bytes().unwrap()).unwrap();
    let size = |path: &str| image.find(path.as_bytes()).unwrap().map(|found| found.size);
    for path in [
        "etc/passwd",
        "/etc//passwd",
        "/out",
        "../etc/passwd",
        "usr/etc/../../out",
    ] {
        assert_eq!(size(path), Some(7), "{path}");
    }
    for path in ["etc/passwd/", "etc/shadow", "passwd", "etc/passwd/x"] {
        let expected = path.ends_with('/').then_some(7);
        assert_eq!(size(path), expected, "{path}");
    }
    assert!(image.find(b"loop").is_err());
}

#[test]
fn what_the_format_cannot_hold_is_refused() {
    let refused = |name: &[u8], file: File| {
        let mut tree = Plain::new();
        tree.add(0, name, file);
        tree.bytes().unwrap_err()
    };
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'n'; 256]] {
        assert!(
            matches!(refused(name, file(What::Fifo)), LayoutError::Name(_)),
            "{name:?}"
        );
    }
    assert_eq!(
        refused(b"l", file(What::Symlink(vec![b't'; 4096]))),
        LayoutError::Target
    );
    assert_eq!(refused(b"f", file(What::File(1 << 63))), LayoutError::Size);
    let with = |xattrs: &[(&[u8], usize)]| File {
        xattrs: xattrs
            .iter()
            .map(|(name, size)| (name.to_vec(), vec![0; *size]))
            .collect(),
        ..file(What::File(1))
    };
    for (name, size) in [
        (&b"system.other"[..], 1),
        (b"user.", 1),
        (b"system.posix_acl_access.x", 1),
        (b"user.a", 65536),
    ] {
        assert!(matches!(
            refused(b"f", with(&[(name, size)])),
            LayoutError::Xattr(_)
        ));
    }
    let many: [(&[u8], usize); 4] = [
        (b"user.a", 65535),
        (b"user.b", 65535),
        (b"user.c", 65535),
        (b"user.d", 65535),
    ];
    assert_eq!(refused(b"f", with(&many)), LayoutError::Xattrs);
}
