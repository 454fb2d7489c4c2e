//! `store report`: which parts of images no program needs, which they have twice, and which the host has as well.

use super::import::{OfRoot, all_of, is_file, unreadable};
use super::parts::Root;
use super::usage::{HostContents, ImageContents, contents_of};
use super::{GraphFault, host_settings};
use crate::contained::Watched;
use crate::rootfs::Source;
use crate::{EngineError, Home, open_store};
use rustix::fs::AtFlags;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tote_bundle::Image;
use tote_image::{Digest, ImageConfig};
use tote_needs::{Contents, Reason, References, Settings, Tree, needs};
use tote_store::ContentHash;

/// Report of all images that have a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct StoreReport {
    /// Images, by name.
    pub images: Vec<StoreReportRow>,
    /// Bytes that the images would take, each with a copy of its own.
    pub copied: u64,
    /// Bytes that they would take if each layer were there once, as with engines that keep layers.
    pub layered: u64,
    /// Bytes that they take here, where each file is there once.
    pub files: u64,
    /// Bytes among these that the host has at the same paths as well.
    pub host: u64,
}

/// Report of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct StoreReportRow {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Bytes of its files.
    pub size: u64,
    /// Libraries that no program and no library of the image links against.
    pub unused_libraries: Vec<String>,
    /// Bytes of these.
    pub unused_bytes: u64,
    /// Bytes that other images have in layers that are not the same.
    pub duplicate: u64,
    /// Bytes that the host has at the same paths.
    pub host: u64,
    /// Bytes that nothing of its command's needs refers to: about what `tote slim` would leave out.
    pub slim: u64,
}

/// Reports on the images of the store. This process must have the ids of the files' owners.
///
/// # Errors
/// [`EngineError`].
pub fn store_report(home: &Home) -> Result<StoreReport, EngineError> {
    let store = open_store(home)?;
    let mut images: Vec<(String, Digest)> = Vec::new();
    for (name, id) in store.names()? {
        // An index stands for its image for this machine.
        let id = store.resolve(&id.to_string())?;
        if images.iter().all(|(_, known)| *known != id) {
            images.push((name.familiar(), id));
        }
    }
    images.sort();
    let mut report = StoreReport::default();
    let mut layers: BTreeMap<Digest, BTreeSet<ContentHash>> = BTreeMap::new();
    let mut contents: Vec<ImageContents> = Vec::new();
    let mut all = ImageContents::new();
    for (_, id) in &images {
        let image = store.image(id)?;
        report.copied += image.record.size;
        for layer in image.layers() {
            if layers.contains_key(layer) {
                continue;
            }
            let files = store.layer_files(layer)?;
            report.layered += files.iter().map(|file| file.size).sum::<u64>();
            layers.insert(*layer, files.iter().map(|file| file.hash).collect());
        }
        let own = contents_of(&store, id)?;
        all.extend(own.iter());
        contents.push(own);
    }
    report.files = all.values().sum();
    let (mut host, mut of_host) = (HostContents::default(), BTreeSet::new());
    for ((name, id), contents) in images.iter().zip(&contents) {
        let image = store.image(id)?;
        let source = Source::open(home, &Image::Stored(id.to_string()))?;
        let root = Root {
            files: source.dir()?,
            before: None,
            is_host: false,
            keeps_times: true,
        };
        let shared = host.common(root.files, contents)?;
        let sum = |hashes: &mut dyn Iterator<Item = &ContentHash>| -> u64 {
            hashes.filter_map(|hash| contents.get(hash)).sum()
        };
        let foreign = layers.iter().filter(|(layer, _)| !image.layers().contains(layer));
        let foreign: BTreeSet<&ContentHash> = foreign.flat_map(|(_, hashes)| hashes).collect();
        let own: BTreeSet<&ContentHash> = contents.keys().collect();
        let mut row = StoreReportRow {
            name: name.clone(),
            id: id.to_string(),
            size: image.record.size,
            duplicate: sum(&mut own.intersection(&foreign).copied()),
            host: sum(&mut shared.iter()),
            ..StoreReportRow::default()
        };
        analyse(root, name, image.config.value(), &mut row)?;
        of_host.extend(shared);
        report.images.push(row);
    }
    report.host = of_host.iter().filter_map(|hash| all.get(hash)).sum();
    Ok(report)
}

fn analyse(
    root: Root<'_>,
    name: &str,
    config: &ImageConfig,
    row: &mut StoreReportRow,
) -> Result<(), EngineError> {
    let tree = all_of(root.files, name)?.tree;
    let contents = Watched::new(OfRoot::new(root));
    let mut sizes: HashMap<&[u8], u64> = HashMap::new();
    for (path, _) in tree.iter().filter(|(path, _)| is_file(&tree, path)) {
        let stat = rustix::fs::statat(root.files, path, AtFlags::SYMLINK_NOFOLLOW);
        let stat = tote_sys::visible(stat).map_err(|errno| unreadable(name)(errno.into()))?;
        let size = stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or_default());
        sizes.insert(path, size);
    }
    let settings = host_settings();
    let search = References::new(&tree, &contents, &settings);
    let mut used: BTreeSet<Box<[u8]>> = BTreeSet::new();
    for path in sizes.keys() {
        let found = search.of(path).unwrap_or_default();
        used.extend(found.into_iter().map(|reference| reference.to));
    }
    let mut unused: Vec<&[u8]> = sizes
        .keys()
        .copied()
        .filter(|path| is_library(path) && !used.contains(*path))
        .collect();
    unused.sort_unstable();
    row.unused_bytes = unused.iter().filter_map(|path| sizes.get(path)).sum();
    let text = |path: &&[u8]| format!("/{}", String::from_utf8_lossy(path));
    row.unused_libraries = unused.iter().map(text).collect();
    let kept = kept(&tree, &contents, config);
    let kept: u64 = kept.iter().filter_map(|path| sizes.get(&**path)).sum();
    row.slim = sizes.values().sum::<u64>().saturating_sub(kept);
    contents
        .check()
        .map_err(|failure| GraphFault::of(name, failure))?;
    Ok(())
}

/// Finds what the image's own command needs.
fn kept(tree: &Tree, contents: &dyn Contents, config: &ImageConfig) -> Vec<Box<[u8]>> {
    let words = config.config.entrypoint.iter().chain(&config.config.cmd);
    let settings = Settings {
        only_needed: true,
        ..host_settings()
    };
    let mut places: Vec<Vec<u8>> = Vec::new();
    // Words behind the first one may be programs, too: those of an entrypoint that ends with exec.
    for word in words {
        if word.starts_with('/') {
            places.push(word.clone().into_bytes());
        } else {
            let dirs = settings.path.split(|byte| *byte == b':');
            places.extend(dirs.map(|dir| [dir, b"/", word.as_bytes()].concat()));
        }
    }
    let seeds = places.iter().map(|place| (place.as_slice(), Reason::Command));
    needs(tree, contents, seeds, &settings).kept.into_keys().collect()
}

/// True for a library in a directory where libraries are looked for; those in others are modules that programs load.
fn is_library(path: &[u8]) -> bool {
    let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
        return false;
    };
    let (dir, name) = (&path[..slash], &path[slash + 1..]);
    let is_named = name.starts_with(b"lib") && name.windows(3).any(|part| part == b".so");
    let dir = dir.strip_prefix(b"usr/").unwrap_or(dir);
    let dir = dir.strip_prefix(b"local/").unwrap_or(dir);
    let is_multiarch = dir
        .strip_prefix(b"lib/")
        .is_some_and(|rest| !rest.contains(&b'/') && rest.windows(7).any(|part| part == b"-linux-"));
    is_named && (matches!(dir, b"lib" | b"lib64" | b"lib32") || is_multiarch)
}
