//! Directory with an OCI layout, which belongs to the user.

use crate::ArchiveError;
use crate::ImagesError;
use crate::layout::{DEPTH, Files, manifest, one, verified};
use crate::save::Sink as _;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tote_archive::{Decoder, Expansion};
use tote_image::layout::{INDEX, LAYOUT, Layout, REF_NAME, blob, name};
use tote_image::{
    Descriptor, Digest, Index, MAX_MANIFEST_BYTES, Manifest, Platform, Read as _, Reference, media_type,
};
use tote_registry::Hasher;
use tote_store::{Ingest, Limits, Slot, Store, sha256};
use tote_sys::{LockKind, MOMENT_LOCK, lock_within};

/// Size of the read buffer, in bytes.
const BUFFER: usize = 128 << 10;

/// Layout in a directory that the user names.
#[derive(Debug)]
pub struct LayoutDirectory(PathBuf);

impl LayoutDirectory {
    /// Names the layout at that path, which need not exist yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Creates the layout if it does not exist.
    pub fn make(&self) -> Result<(), ImagesError> {
        self.sink().make("blobs/sha256")
    }

    /// Returns the manifest with that tag, or the only one.
    pub fn manifest(&self, tag: &str, platform: &Platform) -> Result<Manifest, ImagesError> {
        let index = self.index()?;
        let mut entries = index.manifests.iter();
        let entry = match index.manifests.as_slice() {
            [only] => Some(only),
            _ => entries.find(|entry| is_called(entry, tag)),
        };
        let entry = entry.ok_or_else(|| ArchiveError::ArchiveLacks(format!("an image tagged {tag}")))?;
        manifest(self, entry, platform, DEPTH)
    }

    /// Loads an image into the store: the one of `:TAG` or `@DIGEST`, or the only one if neither is given. The image
    /// gets no name.
    ///
    /// # Errors
    /// [`ImagesError`]: the image does not exist, or is for another platform.
    pub fn load(
        mut self,
        store: &Store,
        ingest: &Ingest<'_>,
        image: &str,
        asked: Option<&Platform>,
    ) -> Result<Digest, ImagesError> {
        let entries = self.index()?.manifests;
        let is_wanted = |entry: &&Descriptor| match (image.strip_prefix(':'), image.strip_prefix('@')) {
            (Some(tag), _) => is_called(entry, tag),
            (_, Some(digest)) => entry.digest.to_string() == digest,
            _ => entries.len() == 1,
        };
        let entry = entries.iter().find(is_wanted);
        let wanted = match image {
            "" => "one image only: give its tag, oci-layout://DIR:TAG".to_owned(),
            image => format!("an image {image}"),
        };
        let entry = entry.ok_or(ArchiveError::ArchiveLacks(wanted))?;
        Ok(one(store, ingest, &mut self, entry, (asked, Vec::new()))?.id)
    }

    fn index(&self) -> Result<Index, ImagesError> {
        Index::read(&self.document(INDEX, MAX_MANIFEST_BYTES)?).map_err(ImagesError::ImageDocument)
    }

    /// Reads a blob and checks its digest.
    pub fn blob(&self, blob: &Descriptor, limit: usize) -> Result<Vec<u8>, ImagesError> {
        verified(self, blob, limit)
    }

    /// True if a blob exists and is undamaged.
    pub fn has(&self, descriptor: &Descriptor) -> bool {
        let Ok(mut file) = self.open(&blob(&descriptor.digest)) else {
            return false;
        };
        let mut hashed = || -> std::io::Result<Option<Digest>> {
            let found = file.metadata()?;
            if !found.is_file() || found.len() != descriptor.size {
                return Ok(None);
            }
            let mut hasher = Hasher::new(descriptor.digest.algorithm());
            let mut buffer = vec![0; BUFFER];
            loop {
                match file.read(&mut buffer)? {
                    0 => return Ok(Some(hasher.finish())),
                    length => hasher.update(&buffer[..length]),
                }
            }
        };
        hashed().is_ok_and(|digest| digest == Some(descriptor.digest))
    }

    /// Writes a blob under the digest of its descriptor.
    ///
    /// # Errors
    /// [`ArchiveError::Save`].
    pub fn put_blob(&self, descriptor: &Descriptor, content: impl Read) -> Result<(), ImagesError> {
        self.sink()
            .put(&blob(&descriptor.digest), descriptor.size, content)
    }

    /// Writes a document under its digest.
    ///
    /// # Errors
    /// [`ArchiveError::Save`].
    pub fn put_document(&self, bytes: &[u8]) -> Result<(), ImagesError> {
        self.sink().document(&blob(&sha256(bytes)), bytes)
    }

    /// Tags a manifest, whose blobs must exist; the previous manifest of the tag loses it.
    pub fn put_manifest(&self, tag: &str, manifest: &Manifest) -> Result<(), ImagesError> {
        let json = manifest.to_json();
        self.put_document(&json)?;
        // Other processes may write other tags here.
        let _lock = self.lock(MOMENT_LOCK)?;
        let mut entries = match self.index() {
            Ok(index) => index.manifests,
            Err(ImagesError::Archive(ArchiveError::LayoutFile { source, .. }))
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        entries.retain(|entry| name(entry) != Some(tag));
        let mut entry = Descriptor::new(media_type::OCI_MANIFEST, sha256(&json), json.len() as u64);
        entry.annotations.insert(REF_NAME.to_owned(), tag.to_owned());
        entries.push(entry);
        let layout = serde_json::to_vec(&Layout::default()).map_err(ArchiveError::SaveDocument)?;
        self.sink().document(LAYOUT, &layout)?;
        // The index comes last: until then readers see the previous state.
        self.sink().document(INDEX, &Index::oci(entries).to_json())
    }

    /// Locks the layout against other writers, and waits for them for that long. `None` on network file systems that cannot lock directories; a
    /// build that writes alone needs no lock.
    fn lock(&self, limit: Duration) -> Result<Option<File>, ImagesError> {
        let failed = |source| ArchiveError::LayoutLock {
            path: self.0.clone(),
            source,
        };
        let dir = File::open(&self.0).map_err(failed)?;
        match lock_within(dir.as_fd(), LockKind::Exclusive, limit, &self.0) {
            Ok(()) => Ok(Some(dir)),
            Err(late) if late.kind() == std::io::ErrorKind::TimedOut => Err(failed(late).into()),
            Err(_) => Ok(None),
        }
    }

    fn sink(&self) -> crate::save::Directory {
        crate::save::Directory(self.0.clone())
    }

    fn open(&self, name: &str) -> Result<File, ImagesError> {
        let path = self.0.join(name);
        let mut options = File::options();
        // O_NONBLOCK: opening a pipe in the place of a file must not block.
        options
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        Ok(options
            .open(&path)
            .map_err(|source| ArchiveError::LayoutFile { path, source })?)
    }

    /// Loads a layer into the store; `expected` is the digest of its uncompressed archive.
    pub fn fetch(
        &self,
        ingest: &Ingest<'_>,
        descriptor: &Descriptor,
        expected: &Digest,
    ) -> Result<(), ImagesError> {
        if let Slot::Vacant(vacancy) = ingest.layer(expected)? {
            let file = self.open(&blob(&descriptor.digest))?;
            let input = Decoder::new(file, Expansion::default()).map_err(ArchiveError::ImageInput)?;
            ingest.fill(vacancy, input, Limits::default())?;
        }
        Ok(())
    }
}

/// True if an entry has that tag, alone or within a whole name.
fn is_called(entry: &Descriptor, tag: &str) -> bool {
    let tagged = |name: &str| Reference::parse(name).is_ok_and(|name| name.tag() == Some(tag));
    // A bare tag cannot be parsed as a name: it would become a repository with the default tag.
    name(entry).is_some_and(|name| name == tag || name.contains(['/', ':']) && tagged(name))
}

impl Files for LayoutDirectory {
    fn document(&self, name: &str, limit: usize) -> Result<Vec<u8>, ImagesError> {
        let mut bytes = Vec::new();
        let read = self.open(name)?.take(limit as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|source| ArchiveError::LayoutFile {
            path: self.0.join(name),
            source,
        })?;
        Ok(bytes)
    }

    fn layer(
        &mut self,
        ingest: &Ingest<'_>,
        descriptor: &Descriptor,
        expected: &Digest,
    ) -> Result<Digest, ImagesError> {
        self.fetch(ingest, descriptor, expected).map(|()| *expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_does_not_go_on_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let layout = LayoutDirectory::new(dir.path());
        let other = layout.lock(MOMENT_LOCK).unwrap();
        assert!(other.is_some());
        let late = layout.lock(Duration::from_millis(30)).unwrap_err();
        assert!(
            matches!(&late, ImagesError::Archive(ArchiveError::LayoutLock { source, .. })
                if source.kind() == std::io::ErrorKind::TimedOut),
            "{late}"
        );
        drop(other);
        assert!(layout.lock(MOMENT_LOCK).unwrap().is_some());
    }

    #[test]
    fn tags() {
        let mut entry = Descriptor::new("", Digest::sha256([0; 32]), 0);
        assert!(!is_called(&entry, "latest"));
        for (name, tag, expected) in [
            ("v1", "v1", true),
            ("v1", "latest", false),
            ("docker.io/library/a:v1", "v1", true),
            ("docker.io/library/a:v1", "latest", false),
        ] {
            entry.annotations.insert(REF_NAME.to_owned(), name.to_owned());
            assert_eq!(is_called(&entry, tag), expected, "{name} {tag}");
        }
    }
}
