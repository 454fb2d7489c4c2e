//! Files that are known to come once more, because they are read out of the tree of an image that is in the store.
//!
//! A large file is written before its hash is known, and thrown away if the store has it. Where it is one of an image's, its
//! object is known by the path, so that nothing is written and the object is not read a second time for its hash.

use crate::StoreError;
use crate::ingest::Ingest;
use crate::key::Key;
use crate::layer;
use crate::objects::{Expected, Objects, Origin};
use crate::parse::FoundFile;
use crate::stored_image::Image;
use rustix::fs::FileType;
use tote_archive::{Change, EntryPath};

impl Ingest<'_> {
    /// Expects the files of an image: until this value is dropped, the caller adds layers of files that it reads out of the image's
    /// tree. Other files may be among them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn expect(&self, image: &Image) -> Result<(), StoreError> {
        let store = self.store();
        let mut expected = Expected::new();
        for diff_id in image.layers() {
            let dir = store.layer_dir(diff_id)?.ok_or(StoreError::NoLayer(*diff_id))?;
            layer::changes(&dir, diff_id, |change, stored| {
                if let (Change::Add(entry), Some(stored)) = (change, stored) {
                    expected.insert(entry.path.clone(), (stored.key, stored.size));
                }
                Ok(())
            })?;
        }
        store.objects.expect(expected);
        Ok(())
    }
}

impl Objects {
    /// Returns the object that a file of this path and size is expected to have, if it is finished.
    pub(crate) fn expected(&self, path: &EntryPath, size: u64) -> Option<Key> {
        let key = self.expected_key(path, size)?;
        // absence: the file's content is written once more
        let stat = self.dir.stat(&key.name(0)).ok()?;
        let is_finished =
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_mode & 0o7777 != 0;
        (is_finished && u64::try_from(stat.st_size) == Ok(size)).then_some(key)
    }

    /// Takes a large file whose content was not written, because the object of `key` was expected to have it. `found` is the
    /// key that the file has.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if that object has another content: then the tree was not what the image's layers say.
    pub(crate) fn take_expected(
        &self,
        key: &Key,
        found: &Key,
        file: &FoundFile,
    ) -> Result<Origin, StoreError> {
        if key == found && self.is_whole(&key.name(0), file.size, &file.attributes) {
            return Ok(Origin::Found);
        }
        let name = key.name(0);
        if !self.has_hash(&name, &found.content) {
            let path = self.dir.path().join(name);
            return Err(StoreError::damaged(path, "its content is not that of its file"));
        }
        let mut incoming = self.incoming()?;
        incoming.fill(&name, file.size)?;
        incoming.finish(found, &file.attributes, &file.entry.path)
    }
}
