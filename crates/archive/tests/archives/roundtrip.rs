//! Archives of the writer, read back by the reader and by GNU tar.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::process::Command;
use tote_archive::{Change, Entry, EntryPath, Extent, Kind, Limits, Reader, Timestamp, Writer};

fn path() -> impl Strategy<Value = EntryPath> {
    let name = prop_oneof![
        3 => vec(any::<u8>(), 1..30),
        1 => "[a-z]{90,130}".prop_map(String::into_bytes),
        1 => "[a-c]{1,3}".prop_map(String::into_bytes),
    ];
    vec(name, 1..5).prop_filter_map("names that a directory can hold, and no whiteouts", |names| {
        names.iter().try_fold(EntryPath::root(), |path, name| {
            path.join(name).ok().filter(|_| !name.starts_with(b".wh."))
        })
    })
}

fn kind() -> impl Strategy<Value = (Kind, Vec<u8>)> {
    let target = vec(1_u8.., 1..300);
    let device = (any::<u32>(), any::<u32>());
    prop_oneof![
        vec(any::<u8>(), 0..2000).prop_map(|content| (
            Kind::File {
                size: content.len() as u64
            },
            content
        )),
        Just((Kind::Directory, Vec::new())),
        Just((Kind::Fifo, Vec::new())),
        target.prop_map(|target| (Kind::Symlink { target }, Vec::new())),
        path().prop_map(|target| (Kind::Hardlink { target }, Vec::new())),
        device.prop_map(|(major, minor)| (Kind::Character { major, minor }, Vec::new())),
        device.prop_map(|(major, minor)| (Kind::Block { major, minor }, Vec::new())),
    ]
}

prop_compose! {
    fn entry()(
        path in prop_oneof![19 => path(), 1 => Just(EntryPath::root())],
        (kind, content) in kind(),
        mode in 0_u32..=0o7777,
        (uid, gid) in prop_oneof![Just((0, 0)), (0_u32..100_000, 0_u32..100_000), any::<(u32, u32)>()],
        secs in prop_oneof![0_i64..1 << 33, any::<i64>(), -1000_i64..1000],
        nanos in prop_oneof![Just(0_u32), 0_u32..1_000_000_000],
        xattrs in prop_oneof![
            3 => Just(std::collections::BTreeMap::new()),
            1 => btree_map("user\\.[a-z.]{1,9}".prop_map(String::into_bytes), vec(any::<u8>(), 0..40), 0..4),
        ],
    ) -> (Entry, Vec<u8>) {
        let xattrs = xattrs.into_iter().collect();
        // Seconds before 1970 with a fraction are written as decimals, which cannot express i64::MIN.
        let mtime = Timestamp { secs: secs.max(i64::MIN + 1), nanos };
        let root = path.is_root();
        let kind = if root { Kind::Directory } else { kind };
        let content = if root { Vec::new() } else { content };
        (Entry { path, kind, mode, uid, gid, mtime, xattrs }, content)
    }
}

fn written(entries: &[(Entry, Vec<u8>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for (entry, content) in entries {
        writer.entry(entry).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Vec<(Entry, Vec<u8>)> {
    let mut reader = Reader::new(bytes, Limits::default());
    let mut entries = Vec::new();
    while let Some(change) = reader.next_change().unwrap() {
        let Change::Add(entry) = change else {
            panic!("{change:?}")
        };
        let mut content = Vec::new();
        reader.read_to_end(&mut content).unwrap();
        entries.push((entry, content));
    }
    entries
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_reads_back(entries in vec(entry(), 0..6)) {
        let bytes = written(&entries);
        prop_assert_eq!(bytes.len() % 512, 0);
        prop_assert_eq!(read(&bytes), entries);
    }

    #[test]
    fn sparse_files_read_back(
        gaps in vec((0_u64..5000, 1_u64..3000), 0..40),
        tail in 0_u64..3000,
        path in path(),
    ) {
        let (mut extents, mut end, mut content) = (Vec::new(), 0, Vec::new());
        for (gap, len) in gaps {
            extents.push(Extent { offset: end + gap, len });
            content.resize(usize::try_from(end + gap).unwrap(), 0);
            content.resize(content.len() + usize::try_from(len).unwrap(), b'x');
            end += gap + len;
        }
        content.resize(usize::try_from(end + tail).unwrap(), 0);
        let entry = Entry::new(path, Kind::File { size: end + tail });
        let mut writer = Writer::new(Vec::new());
        writer.sparse_entry(&entry, &extents).unwrap();
        for extent in &extents {
            writer.write_all(&vec![b'x'; usize::try_from(extent.len).unwrap()]).unwrap();
        }
        prop_assert_eq!(read(&writer.finish().unwrap()), [(entry, content)]);
    }
}

#[test]
fn gnu_tar_lists_what_is_written() {
    match Command::new("tar").arg("--version").output() {
        Ok(output) if output.stdout.starts_with(b"tar (GNU tar)") => {}
        _ => {
            println!("skipped: needs GNU tar");
            return;
        }
    }
    let long = EntryPath::parse(format!("{}/{}", "d".repeat(160), "f".repeat(120)).as_bytes()).unwrap();
    let at = |text: &str| EntryPath::parse(text.as_bytes()).unwrap();
    let mut file = Entry::new(long.clone(), Kind::File { size: 3 });
    file.mtime = Timestamp {
        secs: 1_000_000_000,
        nanos: 250_000_000,
    };
    (file.mode, file.uid, file.gid) = (0o4755, 3_000_000_000, 12);
    let sparse = Entry::new(at("sparse"), Kind::File { size: 10_000_000_000 });
    let device = Entry::new(at("null"), Kind::Character { major: 1, minor: 3 });
    let link = Entry::new(
        at("link"),
        Kind::Symlink {
            target: vec![b't'; 200],
        },
    );
    let hard = Entry::new(at("hard"), Kind::Hardlink { target: long });
    let mut writer = Writer::new(Vec::new());
    writer.entry(&file).unwrap();
    writer.write_all(b"abc").unwrap();
    writer
        .sparse_entry(&sparse, &[Extent { offset: 4096, len: 2 }])
        .unwrap();
    writer.write_all(b"xy").unwrap();
    for entry in [device, link, hard, Entry::new(EntryPath::root(), Kind::Directory)] {
        writer.entry(&entry).unwrap();
    }
    writer.change(&Change::Whiteout(at("a/b"))).unwrap();
    writer.change(&Change::Opaque(at("a"))).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(&writer.finish().unwrap()).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--numeric-owner", "--full-time", "--utc", "-tvf"])
        .arg(file.path());
    let output = tar.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<_> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .collect();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        words[0][..5],
        ["-rwsr-xr-x", "3000000000/12", "3", "2001-09-09", "01:46:40.25"]
    );
    assert_eq!(words[0][5].len(), 281);
    assert_eq!([words[1][2], words[1][5]], ["10000000000", "sparse"]);
    assert_eq!(
        [words[2][0], words[2][2], words[2][5]],
        ["crw-r--r--", "1,3", "null"]
    );
    assert_eq!(
        [words[3][5], words[3][6], words[3][7]],
        ["link", "->", &"t".repeat(200)]
    );
    assert_eq!([words[4][5], words[4][8]], ["hard", words[0][5]]);
    assert_eq!([words[5][0], words[5][5]], ["drwxr-xr-x", "./"]);
    assert_eq!([words[6][5], words[7][5]], ["a/.wh.b", "a/.wh..wh..opq"]);
}

#[test]
fn content_has_the_size_that_was_said() {
    let entry = Entry::new(EntryPath::parse(b"a").unwrap(), Kind::File { size: 3 });
    let mut writer = Writer::new(Vec::new());
    writer.entry(&entry).unwrap();
    writer.write_all(b"ab").unwrap();
    let error = writer.entry(&entry).unwrap_err().to_string();
    assert_eq!(error, "the content of \"a\" is 1 bytes shorter than its size");
    assert!(writer.write_all(b"cd").is_err());
}
