//! Sizes of closures and images: which part only they have, and which the host has as well.

use super::closure::closure_start;
use super::names::scan;
use crate::rootfs::Source;
use crate::{EngineError, Home, ImageFault, open_store};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use serde::Serialize;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use tote_bundle::Image;
use tote_image::Digest;
use tote_needs::Tree;
use tote_store::{ContentHash, Store};

/// Usage of a closure or an image, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ClosureUsage {
    /// Name that was asked for.
    pub name: String,
    /// `closure` or `image`.
    pub kind: &'static str,
    /// Id of its image.
    pub image: String,
    /// All its files.
    pub total: u64,
    /// Files of an image's lowest layer.
    pub base: u64,
    /// Contents that nothing else of the list has.
    pub unique: u64,
    /// Contents that the host does not have at the same path.
    pub beside_host: u64,
    /// Contents that neither the others nor the host have.
    pub own: u64,
}

/// Contents of an image: each once, with its size.
pub(super) type ImageContents = HashMap<ContentHash, u64>;

/// Files of the host that were compared, by path.
#[derive(Debug, Default)]
pub(super) struct HostContents {
    known: HashMap<Vec<u8>, Option<[ContentHash; 2]>>,
}

/// Measures closures of nodes, profiles and programs of the host, and images. This process must have one thread.
///
/// # Errors
/// [`EngineError`].
pub fn closure_usage(home: &Home, names: &[String]) -> Result<Vec<ClosureUsage>, EngineError> {
    let store = open_store(home)?;
    let mut rows = Vec::new();
    for name in names {
        let (kind, id) = match store.resolve(name) {
            Ok(id) => ("image", id),
            Err(tote_store::StoreError::NoImage(_)) => ("closure", closure_start(home, name)?.image),
            Err(error) => return Err(error.into()),
        };
        rows.push((name, kind, id));
    }
    tote_images::enter_ids(home)?;
    let store = open_store(home)?;
    let mut contents = Vec::new();
    for (_, _, id) in &rows {
        contents.push(contents_of(&store, id)?);
    }
    let mut host = HostContents::default();
    let mut usages = Vec::new();
    for (at, (name, kind, id)) in rows.iter().enumerate() {
        let image = store.image(id)?;
        let others: HashSet<&ContentHash> = rows
            .iter()
            .zip(&contents)
            .enumerate()
            .filter(|(other, ((_, _, other_id), _))| *other != at && other_id != id)
            .flat_map(|(_, (_, contents))| contents.keys())
            .collect();
        let source = Source::open(home, &Image::Stored(id.to_string()))?;
        let of_host = host.common(source.dir()?, &contents[at])?;
        let sum = |keep: &dyn Fn(&ContentHash) -> bool| {
            let parts = contents[at].iter().filter(|(hash, _)| keep(hash));
            parts.map(|(_, size)| size).sum::<u64>()
        };
        let base = match image.layers().first().filter(|_| *kind == "image") {
            Some(layer) => store.layer_files(layer)?.iter().map(|file| file.size).sum(),
            None => 0,
        };
        usages.push(ClosureUsage {
            name: (*name).clone(),
            kind,
            image: id.to_string(),
            total: image.record.size,
            base,
            unique: sum(&|hash| !others.contains(hash)),
            beside_host: sum(&|hash| !of_host.contains(hash)),
            own: sum(&|hash| !others.contains(hash) && !of_host.contains(hash)),
        });
    }
    Ok(usages)
}

/// Returns the contents of an image.
pub(super) fn contents_of(store: &Store, id: &Digest) -> Result<ImageContents, EngineError> {
    let mut contents = ImageContents::new();
    for layer in store.image(id)?.layers() {
        let files = store.layer_files(layer)?;
        contents.extend(files.into_iter().map(|file| (file.hash, file.size)));
    }
    Ok(contents)
}

impl HostContents {
    /// Returns those contents of an image that the host has at the same path.
    pub(super) fn common(
        &mut self,
        root: BorrowedFd<'_>,
        contents: &ImageContents,
    ) -> Result<HashSet<ContentHash>, EngineError> {
        let mut tree = Tree::default();
        scan(root, "", &[b"proc", b"sys", b"dev"], &mut tree).map_err(ImageFault::LayerOutput)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let host = rustix::fs::open("/", flags, Mode::empty());
        let host = host.map_err(EngineError::file("open", "/"))?;
        let mut common = HashSet::new();
        for (path, node) in tree.iter() {
            if !matches!(node, tote_needs::Node::File(_)) {
                continue;
            }
            let failed = |errno| EngineError::file("read", text_of(path))(errno);
            let of_image = size_of(root, path).map_err(failed)?;
            if of_image.is_none() || of_image != size_of(host.as_fd(), path).map_err(failed)? {
                continue;
            }
            let hashes = match self.known.entry(path.to_vec()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(hashes_of(host.as_fd(), path)?),
            };
            let hashes = hashes.iter().flatten().copied();
            common.extend(hashes.filter(|hash| contents.contains_key(hash)));
        }
        Ok(common)
    }
}

fn text_of(path: &[u8]) -> String {
    format!("/{}", String::from_utf8_lossy(path))
}

/// Returns the size of a regular file; `None` for anything else, and for a path that leads to nothing.
fn size_of(dir: BorrowedFd<'_>, path: &[u8]) -> Result<Option<i64>, Errno> {
    let stat = tote_sys::visible(rustix::fs::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW))?;
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(stat.filter(is_file).map(|stat| stat.st_size))
}

/// Hashes a file of the host; `None` if it is absent or closed to this process.
fn hashes_of(host: BorrowedFd<'_>, path: &[u8]) -> Result<Option<[ContentHash; 2]>, EngineError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let file = tote_sys::openat2(host, path, flags, Mode::empty(), resolve);
    let Some(file) = tote_sys::visible(file).map_err(EngineError::file("open", text_of(path)))? else {
        return Ok(None);
    };
    let hashes = tote_store::content_hashes(&file).map_err(EngineError::file("read", text_of(path)))?;
    Ok(Some(hashes))
}
