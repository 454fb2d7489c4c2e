//! Archives made by GNU tar: read in every format, and rebuilt byte for byte.

use std::fs;
use std::io::{self, Cursor, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;
use tote_archive::{
    Change, Content, Entry, ExtractOptions, FramingReader, FramingWriter, Kind, Limits, Owner, Reader,
    Rebuild, Segment, extract, tree_digest,
};

/// Options of GNU tar for every format that can hold the files of [`tree`].
const FORMATS: &[&[&str]] = &[
    &["--format=gnu"],
    &["--format=oldgnu"],
    &["--format=pax"],
    &["--format=pax", "--xattrs"],
    &[
        "--format=posix",
        "--pax-option=comment:=hello,globexthdr.name=g,comment=all",
    ],
    &["--format=gnu", "--sparse"],
    &["--format=oldgnu", "--sparse"],
    &["--format=pax", "--sparse", "--sparse-version=0.0"],
    &["--format=pax", "--sparse", "--sparse-version=0.1"],
    &["--format=pax", "--sparse", "--sparse-version=1.0"],
    &["--format=gnu", "--label=volume"],
    &["--format=gnu", "--blocking-factor=1"],
];

/// Formats without long names.
const OLD_FORMATS: &[&[&str]] = &[&["--format=v7"], &["--format=ustar"]];

fn tree(root: &Path, long: bool) {
    fs::create_dir_all(root.join("dir/sub")).unwrap();
    fs::write(root.join("dir/empty"), b"").unwrap();
    fs::write(root.join("dir/small"), b"small").unwrap();
    fs::write(root.join("dir/block"), vec![b'b'; 512]).unwrap();
    fs::write(root.join("dir/large"), pattern(300_001)).unwrap();
    fs::hard_link(root.join("dir/small"), root.join("dir/sub/hard")).unwrap();
    symlink("../small", root.join("dir/sub/soft")).unwrap();
    for (name, extents, size) in [
        ("holes", &[(40_960, 4096), (1 << 20, 8192)][..], 3 << 20),
        ("hole", &[], 1 << 20),
        ("start", &[(0, 4096)], 1 << 20),
        ("many", &MANY, 16 << 20),
    ] {
        let file = fs::File::create_new(root.join(name)).unwrap();
        for (at, len) in extents {
            file.write_all_at(&pattern(*len), *at).unwrap();
        }
        file.set_len(size).unwrap();
    }
    if long {
        let deep = ["d".repeat(120), "e".repeat(130)].join("/");
        fs::create_dir_all(root.join(&deep)).unwrap();
        fs::write(root.join(&deep).join("f".repeat(200)), b"deep").unwrap();
        symlink("t".repeat(300), root.join("long-link")).unwrap();
    }
}

/// More extents than fit into the header of an old sparse file and a block after it.
static MANY: [(u64, usize); 60] = {
    let mut extents = [(0, 4096); 60];
    let mut at = 0;
    while at < extents.len() {
        extents[at].0 = 8192 + at as u64 * 65_536;
        at += 1;
    }
    extents
};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

fn tar() -> Option<Command> {
    let found = Command::new("tar").arg("--version").output();
    match found {
        Ok(output) if output.stdout.starts_with(b"tar (GNU tar)") => Some(Command::new("tar")),
        _ => {
            println!("skipped: needs GNU tar");
            None
        }
    }
}

fn archive(root: &Path, options: &[&str]) -> Option<Vec<u8>> {
    let output = tar()?
        .args(options)
        .args(["--sort=name", "-C"])
        .arg(root)
        .args(["-c", "."])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(output.stdout)
}

/// Reads all entries of the archive, with contents, and its framing.
fn read(bytes: &[u8]) -> (Vec<(Entry, Vec<u8>)>, Vec<u8>) {
    let mut reader = Reader::with_framing(bytes, Limits::default(), FramingWriter::new(Vec::new()));
    let mut entries = Vec::new();
    while let Some(change) = reader.next_change().unwrap() {
        let Change::Add(entry) = change else {
            panic!("{change:?}")
        };
        let mut content = Vec::new();
        reader.read_to_end(&mut content).unwrap();
        entries.push((entry, content));
    }
    (entries, reader.into_parts().1.finish().unwrap())
}

fn compare(root: &Path, bytes: &[u8], options: &[&str]) {
    let (entries, framing) = read(bytes);
    for (entry, content) in &entries {
        let path = root.join(entry.path.as_os_str());
        let metadata = fs::symlink_metadata(&path).unwrap();
        match &entry.kind {
            Kind::File { size } => {
                assert_eq!(content.len() as u64, *size);
                assert!(fs::read(&path).unwrap() == *content, "{options:?} {}", entry.path);
            }
            Kind::Directory => assert!(metadata.is_dir(), "{options:?} {}", entry.path),
            Kind::Symlink { target } => {
                assert_eq!(
                    fs::read_link(&path).unwrap().as_os_str().as_encoded_bytes(),
                    target
                );
            }
            Kind::Hardlink { target } => {
                assert_eq!(
                    fs::read(&path).unwrap(),
                    fs::read(root.join(target.as_os_str())).unwrap()
                );
            }
            other => panic!("{other:?}"),
        }
    }
    let open = |Content { entry, offset, .. }| {
        let (_, content) = &entries[usize::try_from(entry).unwrap()];
        io::Result::Ok(Cursor::new(content[usize::try_from(offset).unwrap()..].to_vec()))
    };
    let mut again = Vec::new();
    Rebuild::new(FramingReader::new(&*framing), open)
        .read_to_end(&mut again)
        .unwrap();
    assert!(
        again == bytes,
        "{options:?}: the archive is not the same when made again"
    );
    assert!(framing.len() < bytes.len());
    let inline = FramingReader::new(&*framing).filter(|segment| !matches!(segment, Ok(Segment::Content(_))));
    let inline = Rebuild::new(inline, |_: Content| io::Result::Ok(io::empty()));
    let mut reader = Reader::new(inline, Limits::default()).without_contents();
    for (entry, content) in &entries {
        assert_eq!(reader.next_change().unwrap(), Some(Change::Add(entry.clone())));
        let mut zeros = Vec::new();
        reader.read_to_end(&mut zeros).unwrap();
        assert!(zeros.len() == content.len() && zeros.iter().all(|byte| *byte == 0));
    }
    assert_eq!(reader.next_change().unwrap(), None);
}

fn count(root: &Path) -> usize {
    let below = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    below
        .map(|entry| {
            if entry.file_type().unwrap().is_dir() {
                1 + count(&entry.path())
            } else {
                1
            }
        })
        .sum()
}

#[test]
fn every_format_reads_and_is_made_again() {
    for (formats, long) in [(FORMATS, true), (OLD_FORMATS, false)] {
        let directory = tempfile::tempdir().unwrap();
        tree(directory.path(), long);
        for options in formats {
            let Some(bytes) = archive(directory.path(), options) else {
                return;
            };
            compare(directory.path(), &bytes, options);
            assert_eq!(read(&bytes).0.len(), 1 + count(directory.path()), "{options:?}");
        }
    }
}

#[test]
fn holes_stay_holes() {
    let directory = tempfile::tempdir().unwrap();
    tree(directory.path(), false);
    for options in FORMATS.iter().filter(|options| options.contains(&"--sparse")) {
        let Some(bytes) = archive(directory.path(), options) else {
            return;
        };
        let mut reader = Reader::new(&*bytes, Limits::default());
        let mut stored = std::collections::BTreeMap::new();
        while let Some(change) = reader.next_change().unwrap() {
            let extents: u64 = reader.content_extents().iter().map(|extent| extent.len).sum();
            let mut chunks = 0;
            while let Some((_, bytes)) = reader.next_chunk().unwrap() {
                chunks += bytes.len() as u64;
            }
            assert_eq!(extents, chunks, "{options:?} {}", change.path());
            stored.insert(change.path().to_string(), extents);
        }
        assert_eq!(stored["/hole"], 0, "{options:?}");
        assert_eq!(stored["/many"], 60 * 4096, "{options:?}");
        assert_eq!(stored["/holes"], 4096 + 8192, "{options:?}");
        assert_eq!(stored["/dir/large"], 300_001, "{options:?}");
    }
}

#[test]
fn what_is_cut_off_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    tree(directory.path(), true);
    let Some(bytes) = archive(directory.path(), &["--format=pax", "--sparse"]) else {
        return;
    };
    let whole = read(&bytes).0.len();
    let mut clean = 0;
    for len in (0..bytes.len()).step_by(173) {
        let mut reader = Reader::new(&bytes[..len], Limits::default());
        let mut changes = 0;
        let end = loop {
            match reader.next_change() {
                Ok(Some(_)) => changes += 1,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // A truncated archive is accepted only at the end of a member and within the end blocks, as docker does.
        if end.is_ok() {
            assert!(len % 512 == 0, "{len}");
            clean += usize::from(changes < whole);
        }
    }
    assert!(clean < whole, "{clean}");
}

/// This crate and GNU tar extract the same tree from an archive.
#[test]
fn extracts_as_gnu_tar_does() {
    for (formats, long) in [(FORMATS, true), (OLD_FORMATS, false)] {
        let directory = tempfile::tempdir().unwrap();
        tree(directory.path(), long);
        for options in formats {
            let Some(bytes) = archive(directory.path(), options) else {
                return;
            };
            let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let file = ours.path().join("archive");
            fs::write(&file, &bytes).unwrap();
            let mut command = tar().unwrap();
            command
                .args(["--numeric-owner", "-p", "--xattrs", "-xf"])
                .arg(&file)
                .arg("-C")
                .arg(theirs.path());
            let output = command.output().unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            fs::remove_file(&file).unwrap();
            let digest = |directory: &tempfile::TempDir| {
                tree_digest(fs::File::open(directory.path()).unwrap().as_fd()).unwrap()
            };
            let root = fs::File::open(ours.path()).unwrap();
            let owner = if rustix::process::geteuid().is_root() {
                Owner::Archive
            } else {
                Owner::Process
            };
            let as_told = ExtractOptions {
                owner,
                ..ExtractOptions::default()
            };
            extract(
                &mut Reader::new(&*bytes, Limits::default()),
                root.as_fd(),
                &as_told,
            )
            .unwrap();
            assert_eq!(digest(&ours), digest(&theirs), "{options:?}");
        }
    }
}
