//! Reader of an archive of images, in a single pass.
//!
//! The files that describe an archive may come last, and standard input cannot be read twice. So the reader
//! classifies each file as it comes: documents stay in memory, archives go into the store as layers. A sweep removes
//! layers that turn out to belong to no image.

use crate::ArchiveError;
use crate::ImagesError;
use std::collections::HashMap;
use std::io::{Cursor, Read};
use tote_archive::{Change, Compression, Decoder, Expansion, Kind, Reader};
use tote_image::{Digest, MAX_CONFIG_BYTES};
use tote_store::{Ingest, Limits, StoreError};

/// Limit of all documents together, in bytes.
const DOCUMENTS: usize = 64 << 20;
/// Limit of symbolic links on the way to a layer.
const LINKS: usize = 10;

/// Content of an archive of images.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    documents: HashMap<Vec<u8>, Vec<u8>>,
    layers: HashMap<Vec<u8>, Result<Digest, StoreError>>,
    links: HashMap<Vec<u8>, Vec<u8>>,
    /// True if the archive itself is not compressed.
    is_plain: bool,
}

impl Contents {
    /// Reads an archive, compressed or not, to its end.
    pub(crate) fn read(ingest: &Ingest<'_>, input: impl Read + Send) -> Result<Self, ImagesError> {
        let input = Decoder::new(input, Expansion::default()).map_err(ArchiveError::ImageInput)?;
        let mut contents = Self {
            is_plain: input.compression() == Compression::None,
            ..Self::default()
        };
        let mut reader = Reader::new(input, Limits::default()).without_whiteouts();
        let mut room = DOCUMENTS;
        while let Some(change) = reader.next_change().map_err(ArchiveError::ImageArchive)? {
            let Change::Add(entry) = change else { continue };
            let name = entry.path.as_bytes().to_vec();
            match entry.kind {
                Kind::File { size } => contents.file(ingest, name, size, &mut reader, &mut room)?,
                Kind::Hardlink { target } => {
                    contents.links.insert(name, target.as_bytes().to_vec());
                }
                Kind::Symlink { target } => {
                    contents
                        .links
                        .extend(beside(&name, &target).map(|target| (name, target)));
                }
                _ => {}
            }
        }
        Ok(contents)
    }

    fn file(
        &mut self,
        ingest: &Ingest<'_>,
        name: Vec<u8>,
        size: u64,
        mut input: impl Read + Send,
        room: &mut usize,
    ) -> Result<(), ImagesError> {
        let mut start = Vec::new();
        input
            .by_ref()
            .take(512)
            .read_to_end(&mut start)
            .map_err(ArchiveError::ImageInput)?;
        let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
        let limit = MAX_CONFIG_BYTES.min(*room);
        if matches!(first, Some(b'{' | b'[')) && size <= limit as u64 {
            input
                .take(limit as u64)
                .read_to_end(&mut start)
                .map_err(ArchiveError::ImageInput)?;
            *room -= start.len().min(*room);
            self.documents.insert(name, start);
            return Ok(());
        }
        // A file shorter than a header is a marker such as VERSION.
        if start.len() < 512 && Compression::sniff(&start) == Compression::None {
            return Ok(());
        }
        let input = Decoder::new(Cursor::new(start).chain(input), Expansion::default());
        let input = input.map_err(ArchiveError::ImageInput)?;
        let layer = match self.is_plain && input.compression() == Compression::None {
            true => ingest.add_plain_layer(input, Limits::default()),
            false => ingest.add_layer(input, Limits::default()),
        };
        match layer {
            // An error of the store itself concerns the whole archive; a damaged file concerns only
            // the images that need it.
            Err(error @ (StoreError::Layer { .. } | StoreError::Content { .. })) => {
                self.layers.insert(name, Err(error));
            }
            layer => {
                self.layers.insert(name, Ok(layer?.diff_id));
            }
        }
        Ok(())
    }

    /// Resolves links in the archive to the name of a file.
    fn target<'a>(&'a self, name: &'a [u8]) -> &'a [u8] {
        let mut name = name;
        for _ in 0..LINKS {
            match self.links.get(name) {
                Some(target) => name = target,
                None => break,
            }
        }
        name
    }

    /// Returns a document of the archive.
    pub(crate) fn document(&self, name: &str) -> Option<&[u8]> {
        self.documents
            .get(self.target(name.as_bytes()))
            .map(Vec::as_slice)
    }

    /// Returns the digest of the layer that was in the file `name`.
    pub(crate) fn layer(&mut self, name: &str) -> Result<Digest, ImagesError> {
        let name = self.target(name.as_bytes()).to_vec();
        match self.layers.get(&name) {
            Some(Ok(digest)) => Ok(*digest),
            Some(Err(_)) => match self.layers.remove(&name) {
                Some(Err(error)) => Err(ArchiveError::LayerFile {
                    file: String::from_utf8_lossy(&name).into_owned(),
                    source: Box::new(error),
                }
                .into()),
                _ => Err(ArchiveError::ArchiveLacks(String::from_utf8_lossy(&name).into_owned()).into()),
            },
            None => Err(ArchiveError::ArchiveLacks(String::from_utf8_lossy(&name).into_owned()).into()),
        }
    }
}

/// Resolves a link in an archive; `None` if it leads out of the archive.
fn beside(link: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = link.split(|byte| *byte == b'/').collect();
    parts.pop();
    if target.starts_with(b"/") {
        parts.clear();
    }
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    #[test]
    fn links_between_layers() {
        for (link, target, expected) in [
            ("a/layer.tar", "../b/layer.tar", Some("b/layer.tar")),
            ("a/layer.tar", "./c//d", Some("a/c/d")),
            ("a", "/b/c", Some("b/c")),
            ("a/b", "../../c", None),
        ] {
            let found = super::beside(link.as_bytes(), target.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{link} {target}");
        }
    }
}
