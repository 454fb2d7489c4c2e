//! Which layers are known to be what their digests say.
//!
//! Nothing that is added is synced: a load would wait for the disk. A power cut may therefore leave files that are empty or
//! short, which their sizes show, and on some file systems also files of the right size with other bytes. So each layer has
//! a file `known` that says in which boot of the machine its content was last known to be right. In that boot nothing can
//! have been lost. In another one everything that the layer has is hashed before its first use, once: after that the file
//! says `synced`.
//!
//! A layer that was written back before the machine went down is spared that: the next command that adds an image a minute
//! later or more, and each sweep without a deadline, calls syncfs(2) and then writes `synced`. The file is a promise, so
//! that its loss costs a reading of the layer and no more.

use crate::StoreError;
use crate::crew;
use crate::dir::{Dir, is_gone};
use crate::image::Image;
use crate::ingest::Layer;
use crate::key::Key;
use crate::layer;
use crate::store::{Store, sha256_hex};
use crate::trees::LEASE;
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};
use tote_image::Digest;
use tote_sys::best_effort;

/// The file of a layer that says since when its content is known.
pub(crate) const KNOWN: &str = "known";
/// What it says of a layer that was on the disk.
const SYNCED: &[u8] = b"synced";
/// Says in which boot something was added since the store was last synced; its time says since when.
const UNSYNCED: &str = "unsynced";
/// The kernel writes back what is older than half of that, so that syncfs(2) finds little of the store's to write.
const SETTLED: Duration = Duration::from_secs(60);

impl Store {
    /// The layer of that digest, if it is there and whole. One that was written in another boot of the machine, and not
    /// known to be on the disk when that ended, is read as a whole.
    ///
    /// # Errors
    /// [`StoreError::Io`]; a damaged layer is none, so that whoever needs it makes it again.
    pub fn layer(&self, diff_id: &Digest) -> Result<Option<Layer>, StoreError> {
        let Some(dir) = self.layer_dir(diff_id)? else {
            return Ok(None);
        };
        let Some(sizes) = or_damaged(layer::check_sizes(&dir))? else {
            return Ok(None);
        };
        if !self.is_known(&dir)? {
            if !self.is_right(&dir)? {
                return Ok(None);
            }
            self.note_right(&dir)?;
        }
        Ok(Some(Layer {
            diff_id: *diff_id,
            sizes,
        }))
    }

    /// All layers of an image are there and whole, or those that are not are forgotten.
    ///
    /// # Errors
    /// [`StoreError::LostLayers`] and [`StoreError::Io`].
    pub(crate) fn check_layers(&self, image: &Image) -> Result<(), StoreError> {
        let mut lost = Vec::new();
        for diff_id in image.layers() {
            if self.layer(diff_id)?.is_none() {
                self.discard(&self.layers, &sha256_hex(diff_id)?)?;
                lost.push(*diff_id);
            }
        }
        match lost.first() {
            None => Ok(()),
            Some(first) => Err(StoreError::LostLayers {
                count: lost.len(),
                first: *first,
            }),
        }
    }

    fn is_known(&self, layer: &Dir) -> Result<bool, StoreError> {
        let known = layer.read(KNOWN, 64)?.unwrap_or_default();
        Ok(known == SYNCED || self.is_this_boot(&known))
    }

    fn is_this_boot(&self, boot: &[u8]) -> bool {
        !self.boot.is_empty() && boot == self.boot.as_bytes()
    }

    /// Reads all that a layer has. Attributes are not compared: some file systems cannot keep them.
    fn is_right(&self, layer: &Dir) -> Result<bool, StoreError> {
        let whole = or_damaged(layer::check_framing(layer).and_then(|()| layer::contents(layer)))?;
        let Some(contents) = whole else {
            return Ok(false);
        };
        let objects: HashMap<_, _> = contents.iter().map(|stored| (stored.key, stored.size)).collect();
        let objects: Vec<_> = objects.into_iter().collect();
        // An object that is not right ends it without an error.
        let compared = crew::for_each(&objects, |(key, size)| match self.has_content(key, *size) {
            Ok(true) => Ok(()),
            Ok(false) => Err(None),
            Err(error) => Err(Some(error)),
        });
        match compared {
            Ok(()) => Ok(true),
            Err(None) => Ok(false),
            Err(Some(error)) => Err(error),
        }
    }

    /// Whether an object is there with its content. What cannot be opened or read is an error: it may be right all the same.
    fn has_content(&self, key: &Key, size: u64) -> Result<bool, StoreError> {
        let dir = &self.objects.dir;
        let name = key.name(0);
        let file = match dir.open_file(&name) {
            Ok(file) => file,
            Err(errno) if is_gone(errno) => return Ok(false),
            Err(errno) => return Err(dir.failed("open", name)(errno)),
        };
        let stat = rustix::fs::fstat(&file).map_err(dir.failed("look at", &name))?;
        if u64::try_from(stat.st_size) != Ok(size) {
            return Ok(false);
        }
        let content = crate::verify::content(file).map_err(|source| StoreError::Io {
            attempt: "read",
            path: dir.path().join(name),
            source,
        })?;
        Ok(content == key.content)
    }

    /// Notes that a layer was found to be right. What was read came from the disk, unless something was added in this boot
    /// that is perhaps not there yet.
    fn note_right(&self, layer: &Dir) -> Result<(), StoreError> {
        let is_synced = !self.is_this_boot(&self.unsynced_in()?);
        let noted = layer.write(KNOWN, if is_synced { SYNCED } else { self.boot.as_bytes() });
        // On a full or read-only disk it is read again the next time.
        best_effort(noted);
        Ok(())
    }

    fn unsynced_in(&self) -> Result<Vec<u8>, StoreError> {
        Ok(self.root.read(UNSYNCED, 64)?.unwrap_or_default())
    }

    /// Notes that something is added now.
    pub(crate) fn note_unsynced(&self) -> Result<(), StoreError> {
        if self.is_this_boot(&self.unsynced_in()?) {
            return Ok(());
        }
        self.root.write(UNSYNCED, self.boot.as_bytes())
    }

    /// Sees to it that everything that was added is on the disk, and notes that. Nothing is done where nothing was added
    /// since the last time, or only within the last minute if `settled` is asked for.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn sync(&self, settled: bool) -> Result<(), StoreError> {
        let Ok(noted) = self.root.stat(UNSYNCED) else {
            return Ok(());
        };
        let added =
            SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(noted.st_mtime).unwrap_or_default());
        if settled
            && !SystemTime::now()
                .duration_since(added)
                .is_ok_and(|age| age > SETTLED)
        {
            return Ok(());
        }
        // First the note and then the list: who adds a layer after that notes it again.
        self.root
            .unlink(UNSYNCED)
            .map_err(self.root.failed("remove", UNSYNCED))?;
        let mut layers = Vec::new();
        for name in self.layers.names()? {
            if !name.starts_with('.')
                && let Ok(layer) = self.layers.enter(&name)
                && self.is_this_boot(&layer.read(KNOWN, 64)?.unwrap_or_default())
            {
                layers.push(layer);
            }
        }
        if layers.is_empty() {
            return Ok(());
        }
        rustix::fs::syncfs(&self.objects.dir).map_err(self.objects.dir.failed("sync", ""))?;
        for layer in layers {
            // One that a sweep has taken away has nothing to say any more.
            best_effort(layer.write(KNOWN, SYNCED));
        }
        Ok(())
    }

    /// Lets every tree be looked at before its next use, if an object was replaced that was not what its name says: trees
    /// may have the old one.
    pub(crate) fn doubt_trees_of_replaced(&self) {
        if !self
            .objects
            .replaced
            .swap(false, std::sync::atomic::Ordering::Relaxed)
        {
            return;
        }
        for name in self.trees.names().unwrap_or_default() {
            let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let lease = format!("{name}/{LEASE}");
            best_effort(rustix::fs::openat(&self.trees, lease, flags, Mode::empty()));
        }
    }
}

/// `None` for what is damaged; an error of the file system stays one, for nothing is known then.
pub(crate) fn or_damaged<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(whole) => Ok(Some(whole)),
        Err(StoreError::Damaged { .. } | StoreError::Config(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
