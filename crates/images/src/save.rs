//! `save`: images as an archive of docker or OCI, or as an OCI layout.

use crate::ArchiveError;
use crate::index::{Found, written};
use crate::open::{find, open_store};
use crate::{Home, ImagesError, WholeFile};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use tote_archive::{Entry, EntryPath, Kind, Writer};
use tote_image::docker_archive::{self, Images};
use tote_image::layout::{INDEX, LAYOUT, Layout, REF_NAME, blob};
use tote_image::{Descriptor, Digest, Index, Manifest, Platform, Reference, media_type};
use tote_store::{Image, ImageIndex, Store, sha256};

/// Form and destination of saved images.
#[derive(Debug)]
pub enum SaveTarget<'a, W> {
    /// Archive in the form of `docker save`.
    DockerArchive(W),
    /// OCI layout in an archive.
    OciArchive(W),
    /// OCI layout in a directory, which is made.
    OciDir(&'a Path),
}

/// Saves images under the given names, restricted to the given platforms. A repository without a tag stands for all its tags, as
/// docker has it.
///
/// # Errors
/// [`ImagesError`].
pub fn save<W: Write>(
    home: &Home,
    wanted: &[String],
    platforms: &[Platform],
    target: SaveTarget<'_, W>,
) -> Result<(), ImagesError> {
    let store = open_store(home)?;
    let mut images: Vec<Saved> = Vec::new();
    let mut each = Vec::new();
    for text in wanted {
        each.extend(tags(&store, text)?);
    }
    for text in &each {
        let found = find(&store, text, platforms)?;
        let name = Reference::parse(text).ok().filter(|name| name.digest().is_none());
        let name = match name {
            Some(name) if store.named(&name)? == Some(store.find(text)?) => Some(name),
            _ => None,
        };
        match images.iter_mut().find(|saved| saved.found.id() == found.id()) {
            Some(saved) => saved.names.extend(name),
            None => images.push(Saved {
                found,
                names: name.into_iter().collect(),
            }),
        }
    }
    match target {
        SaveTarget::DockerArchive(out) => {
            let mut archive = Archive(Writer::new(out));
            docker(&store, &images, &mut archive)?;
            archive.finish()?;
        }
        SaveTarget::OciArchive(out) => {
            let mut archive = Archive(Writer::new(out));
            oci(&store, &images, &mut archive)?;
            archive.finish()?;
        }
        SaveTarget::OciDir(path) => {
            let mut dir = Directory(path.to_owned());
            // The index is written last: without it the directory is not a layout, but the rest of
            // an unfinished save.
            let index = path.join(INDEX);
            if tote_state::record::is_there(&index)? {
                return Err(ArchiveError::Save {
                    name: index.display().to_string(),
                    source: std::io::ErrorKind::AlreadyExists.into(),
                }
                .into());
            }
            dir.make("blobs/sha256")?;
            oci(&store, &images, &mut dir)?;
        }
    }
    let ids: Vec<_> = images.iter().map(|saved| saved.found.id()).collect();
    crate::events::passed(home, &store, "save", &ids);
    Ok(())
}

/// The names of all images of a repository that is given without a tag, or else the text itself.
fn tags(store: &Store, text: &str) -> Result<Vec<String>, ImagesError> {
    let last = text.rsplit('/').next().unwrap_or(text);
    let repository = match Reference::parse(text) {
        Ok(name) if !last.contains([':', '@']) => name.name(),
        _ => return Ok(vec![text.to_owned()]),
    };
    let names = store.names()?.into_iter().map(|(name, _)| name);
    let mut all: Vec<_> = names
        .filter(|name| name.tag().is_some() && name.digest().is_none() && name.name() == repository)
        .map(|name| name.familiar())
        .collect();
    if all.is_empty() {
        all.push(text.to_owned());
    }
    Ok(all)
}

/// Destination of files.
pub(super) trait Sink {
    fn put(&mut self, name: &str, size: u64, content: impl Read) -> Result<(), ImagesError>;

    fn document(&mut self, name: &str, bytes: &[u8]) -> Result<(), ImagesError> {
        self.put(name, bytes.len() as u64, bytes)
    }
}

struct Archive<W: Write>(Writer<W>);

impl<W: Write> Archive<W> {
    fn finish(self) -> Result<(), ImagesError> {
        let mut out = self.0.finish().map_err(ArchiveError::SaveArchive)?;
        Ok(out.flush().map_err(|source| ArchiveError::Save {
            name: "the end".to_owned(),
            source,
        })?)
    }
}

impl<W: Write> Sink for Archive<W> {
    fn put(&mut self, name: &str, size: u64, mut content: impl Read) -> Result<(), ImagesError> {
        let path = EntryPath::parse(name.as_bytes()).map_err(ArchiveError::SavePath)?;
        self.0
            .entry(&Entry::new(path, Kind::File { size }))
            .map_err(ArchiveError::SaveArchive)?;
        let copied = std::io::copy(&mut content, &mut self.0);
        Ok(copied.map(drop).map_err(|source| ArchiveError::Save {
            name: name.to_owned(),
            source,
        })?)
    }
}

pub(super) struct Directory(pub(super) PathBuf);

impl Directory {
    pub(super) fn make(&self, name: &str) -> Result<(), ImagesError> {
        let path = self.0.join(name);
        Ok(
            std::fs::create_dir_all(&path).map_err(|source| ArchiveError::Save {
                name: path.display().to_string(),
                source,
            })?,
        )
    }
}

impl Sink for Directory {
    fn put(&mut self, name: &str, _: u64, mut content: impl Read) -> Result<(), ImagesError> {
        let path = self.0.join(name);
        let written = WholeFile::create(&path).and_then(|mut file| {
            std::io::copy(&mut content, &mut file)?;
            file.finish()
        });
        Ok(written.map_err(|source| ArchiveError::Save {
            name: path.display().to_string(),
            source,
        })?)
    }
}

/// Image or index, with the names that it is saved under.
struct Saved {
    found: Found,
    names: Vec<Reference>,
}

/// Writes docker's form. If there is an index, this is OCI's layout with docker's manifest beside
/// it, as docker writes it.
fn docker(store: &Store, images: &[Saved], sink: &mut impl Sink) -> Result<(), ImagesError> {
    let has_index = images.iter().any(|saved| matches!(saved.found, Found::Index(_)));
    if has_index {
        oci(store, images, sink)?;
    }
    let mut written = HashSet::new();
    let mut manifest = Vec::new();
    for saved in images {
        let image = match &saved.found {
            Found::Image(id) => Some(*id),
            Found::Index(index) => index.usual(),
        };
        let Some(image) = image.map(|id| store.image(&id)).transpose()? else {
            continue;
        };
        let repo_tags = saved.names.iter().map(Reference::familiar).collect();
        if has_index {
            manifest.push(docker_archive::Image {
                config: blob(&image.id),
                repo_tags,
                layers: image.layers().iter().map(blob).collect(),
            });
            continue;
        }
        let config = format!("{}.json", image.id.hex());
        sink.document(&config, image.config.bytes())?;
        let mut layers = Vec::new();
        for diff_id in image.layers() {
            let name = format!("{}/layer.tar", diff_id.hex());
            if written.insert(*diff_id) {
                put_layer(store, diff_id, &name, sink)?;
            }
            layers.push(name);
        }
        manifest.push(docker_archive::Image {
            config,
            repo_tags,
            layers,
        });
    }
    let json = serde_json::to_vec(&Images(manifest)).map_err(ArchiveError::SaveDocument)?;
    sink.document(docker_archive::MANIFEST, &json)
}

fn put_layer(store: &Store, diff_id: &Digest, name: &str, sink: &mut impl Sink) -> Result<u64, ImagesError> {
    let archive = store.layer_archive(diff_id)?;
    let size = archive.size;
    sink.put(name, size, archive)?;
    Ok(size)
}

/// Builds the manifest for saving an image. It names the uncompressed layers, because compression would give them
/// other digests each time.
pub(super) fn saved_manifest(store: &Store, image: &Image) -> Result<Vec<u8>, ImagesError> {
    let mut layers = Vec::new();
    for diff_id in image.layers() {
        let size = store.layer_archive(diff_id)?.size;
        layers.push(Descriptor::new(media_type::OCI_LAYER, *diff_id, size));
    }
    let size = image.config.bytes().len() as u64;
    let mut manifest = Manifest::oci(Descriptor::new(media_type::OCI_CONFIG, image.id, size), layers);
    if let Some(received) = store.manifest(&image.id)? {
        manifest.annotations = received.into_parts().1.annotations;
    }
    Ok(manifest.to_json())
}

/// Writer of a layout's blobs, which writes each blob once.
struct Blobs<'a, S> {
    store: &'a Store,
    sink: &'a mut S,
    written: HashSet<Digest>,
}

impl<S: Sink> Blobs<'_, S> {
    fn document(&mut self, bytes: &[u8]) -> Result<(), ImagesError> {
        let digest = sha256(bytes);
        if self.written.insert(digest) {
            self.sink.document(&blob(&digest), bytes)?;
        }
        Ok(())
    }

    /// Writes the blobs of an image. Returns the descriptor of its manifest.
    fn image(&mut self, image: &Image) -> Result<Descriptor, ImagesError> {
        self.document(image.config.bytes())?;
        for diff_id in image.layers() {
            if self.written.insert(*diff_id) {
                put_layer(self.store, diff_id, &blob(diff_id), self.sink)?;
            }
        }
        let manifest = saved_manifest(self.store, image)?;
        self.document(&manifest)?;
        let (digest, size) = (sha256(&manifest), manifest.len() as u64);
        Ok(Descriptor::new(media_type::OCI_MANIFEST, digest, size))
    }

    /// Writes the blobs of an index and of its images. Returns the descriptor of the index.
    fn index(&mut self, index: &ImageIndex) -> Result<Descriptor, ImagesError> {
        let store = self.store;
        let written = written(store, index, |image| self.image(image))?;
        for remark in &written.remarks {
            for document in remark.documents() {
                self.document(&document)?;
            }
        }
        self.document(&written.json)?;
        Ok(written.descriptor)
    }
}

fn oci(store: &Store, images: &[Saved], sink: &mut impl Sink) -> Result<(), ImagesError> {
    let layout = serde_json::to_vec(&Layout::default()).map_err(ArchiveError::SaveDocument)?;
    sink.document(LAYOUT, &layout)?;
    let mut blobs = Blobs {
        store,
        sink,
        written: HashSet::new(),
    };
    let mut entries = Vec::new();
    for saved in images {
        let entry = match &saved.found {
            Found::Image(id) => blobs.image(&store.image(id)?)?,
            Found::Index(index) => blobs.index(index)?,
        };
        if saved.names.is_empty() {
            entries.push(entry.clone());
        }
        for name in &saved.names {
            let mut entry = entry.clone();
            entry.annotations.insert(REF_NAME.to_owned(), name.to_string());
            entries.push(entry);
        }
    }
    sink.document(INDEX, &Index::oci(entries).to_json())
}

/// Returns the known manifest of an image with its descriptor: the one with which the image came or was pushed,
/// otherwise the one that `save` writes.
pub fn known_manifest(store: &Store, image: &Image) -> Result<(Descriptor, Vec<u8>), ImagesError> {
    let known = store.manifest(&image.id)?;
    let known = known.filter(|manifest| manifest.value().layers.len() == image.layers().len());
    let (media_type, json) = match known {
        Some(manifest) => (manifest.value().media_type().to_owned(), manifest.into_parts().0),
        None => (media_type::OCI_MANIFEST.to_owned(), saved_manifest(store, image)?),
    };
    let descriptor = Descriptor::new(&media_type, sha256(&json), json.len() as u64);
    Ok((descriptor, json))
}
