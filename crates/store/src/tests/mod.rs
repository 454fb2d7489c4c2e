//! Promises of the crate, tested on real directories.

mod crash;
mod damage;
mod files;
mod images;
mod indexes;
mod inodes;
mod layers;
mod nodes;
mod older;
mod sharing;
mod shifted;
mod sweep;
mod trees;

use crate::key::{ContentHash, ContentHasher};
use crate::{Image, Layer, Limits, Owners, ShareHost, Slot, Store, StoreError, StoreOptions};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tote_image::Digest;

/// Modification time of all files in the tests, in seconds.
const TIME: u64 = 1_700_000_000;

/// Files of which two have one content, with links and a program.
fn files() -> Tar {
    Tar::default()
        .file("a", b"same")
        .file("b", b"same")
        .hardlink("c", "a")
        .entry(b'0', "set-id", 0o4755, "", b"program")
        .file("empty", b"")
        .symlink("l", "a")
}

/// A tar archive under construction.
#[derive(Clone, Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn entry(mut self, kind: u8, name: &str, mode: u32, link: &str, content: &[u8]) -> Self {
        let (uid, gid) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let mut header = [0u8; 512];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, &format!("{mode:07o}"));
        put(108, &format!("{uid:07o}"));
        put(116, &format!("{gid:07o}"));
        put(124, &format!("{:011o}", content.len()));
        put(136, &format!("{TIME:011o}"));
        put(148, "        ");
        put(157, link);
        put(257, "ustar\x0000");
        header[156] = kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn dir(self, name: &str) -> Self {
        self.entry(b'5', name, 0o755, "", b"")
    }

    fn file(self, name: &str, content: &[u8]) -> Self {
        self.entry(b'0', name, 0o644, "", content)
    }

    /// A sparse file as GNU tar writes it: `stored` is what stands at `offset` of a file of `size` bytes.
    fn sparse(self, name: &str, size: u64, offset: u64, stored: &[u8]) -> Self {
        let at = self.0.len();
        let mut tar = self.entry(b'S', name, 0o644, "", stored);
        let header = &mut tar.0[at..at + 512];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(257, "ustar  \0");
        let numbers = [
            (386, offset),
            (398, stored.len() as u64),
            (410, size),
            (422, 0),
            (483, size),
        ];
        for (at, number) in numbers {
            put(at, &format!("{number:011o}"));
        }
        put(148, "        ");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        tar
    }

    fn symlink(self, name: &str, target: &str) -> Self {
        self.entry(b'2', name, 0o777, target, b"")
    }

    fn hardlink(self, name: &str, target: &str) -> Self {
        self.entry(b'1', name, 0o644, target, b"")
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

fn digest(bytes: &[u8]) -> Digest {
    Digest::sha256(Sha256::digest(bytes).into())
}

/// Hash of a content in memory.
fn content_hash(bytes: &[u8]) -> ContentHash {
    let mut hash = ContentHasher::default();
    hash.update(bytes);
    hash.finish()
}

/// Options that this process can use.
fn options() -> StoreOptions {
    let owners = if rustix::process::geteuid().is_root() {
        Owners::Image
    } else {
        Owners::Caller
    };
    StoreOptions {
        owners,
        share_host: ShareHost::Never,
        overlays: None,
        erofs_from: None,
    }
}

fn store() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store"), options()).unwrap();
    (dir, store)
}

fn add_layer(store: &Store, archive: &[u8]) -> Result<Layer, StoreError> {
    let ingest = store.ingest()?;
    match ingest.layer(&digest(archive))? {
        Slot::Present(layer) => Ok(layer),
        Slot::Vacant(vacancy) => ingest.fill(vacancy, archive, Limits::default()),
    }
}

fn config(layers: &[&[u8]]) -> Vec<u8> {
    let ids: Vec<_> = layers.iter().map(|layer| digest(layer)).collect();
    let ids = serde_json::to_string(&ids).unwrap();
    format!(r#"{{"os":"linux","architecture":"amd64","rootfs":{{"type":"layers","diff_ids":{ids}}}}}"#)
        .into_bytes()
}

fn add_image(store: &Store, layers: &[&[u8]]) -> Result<Image, StoreError> {
    let ingest = store.ingest()?;
    for layer in layers {
        add_layer(store, layer)?;
    }
    ingest.image(&config(layers), None)
}

/// Lists every path below a directory with its metadata and content, but without inode numbers.
fn listing(root: &std::path::Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    let mut lines = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let what = if meta.is_dir() {
                open.push(path.clone());
                String::new()
            } else if meta.is_symlink() {
                std::fs::read_link(&path).unwrap().display().to_string()
            } else {
                digest(&std::fs::read(&path).unwrap()).to_string()
            };
            let name = path.strip_prefix(root).unwrap().display();
            lines.push(format!(
                "{name} {:o} {}:{} {} {what}",
                meta.mode(),
                meta.uid(),
                meta.gid(),
                meta.mtime()
            ));
        }
    }
    lines.sort();
    lines
}
