//! Records of the layers whose content is known to be right.
//!
//! Added files are not synced, because a load would have to wait for the disk. A power cut may therefore leave
//! files that are empty or short, which their sizes show, and on some file systems also files of the right size
//! with other bytes. So each layer has a file `known` that names the boot of the machine in which its content was
//! last known to be right. In that boot nothing can have been lost. In another one all files of the layer are
//! hashed once, before its first use; after that the file says `synced`.
//!
//! This is not needed for a layer that was written back before the machine went down. The next command that adds an
//! image a minute later or more, and each sweep without a deadline, calls syncfs(2) and then writes `synced`. The
//! file is only an optimisation: if it is lost, the layer is read once more.

use crate::StoreError;
use crate::crew;
use crate::dir::Dir;
use crate::error::{is_gone, or_damaged};
use crate::key::Key;
use crate::layer::{self, Layer};
use crate::leased::LEASE;
use crate::store::{Store, sha256_hex};
use crate::stored_image::Image;
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};
use tote_image::Digest;
use tote_sys::{best_effort, present};

/// Name of a layer's file with the boot in which its content was known to be right.
pub(crate) const KNOWN: &str = "known";
/// Content of that file for a layer that is on the disk.
const SYNCED: &[u8] = b"synced";
/// Name of the file with the boot of the last addition; its time is that of the first addition since the last sync.
const UNSYNCED: &str = "unsynced";
/// Minimum age of an addition before a sync. The kernel writes back dirty pages after half of that, so syncfs(2)
/// finds little to write.
const SETTLED: Duration = Duration::from_secs(60);

impl Store {
    /// Returns the layer of that digest, if it is complete. If it was written in another boot of the machine, and
    /// is not known to have reached the disk, all of it is read.
    ///
    /// # Errors
    /// [`StoreError::Io`]. A damaged layer counts as missing, so that the caller adds it again.
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

    /// Checks that all layers of an image are complete; removes those that are not.
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

    /// Reads and compares all contents of a layer. Attributes are not compared, because some file systems cannot
    /// keep them.
    fn is_right(&self, layer: &Dir) -> Result<bool, StoreError> {
        let whole = or_damaged(layer::check_framing(layer).and_then(|()| layer::contents(layer)))?;
        let Some(contents) = whole else {
            return Ok(false);
        };
        let objects: HashMap<_, _> = contents.iter().map(|stored| (stored.key, stored.size)).collect();
        let objects: Vec<_> = objects.into_iter().collect();
        // A wrong object ends the comparison without an error.
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

    /// True if an object has its content. If it cannot be opened or read, that is an error, because it may be
    /// right.
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
        crate::key::has_hash(&file, &key.content).map_err(|source| StoreError::Io {
            attempt: "read",
            path: dir.path().join(name),
            source,
        })
    }

    /// Records that a layer was found to be right. The content just read came from the disk, unless something was
    /// added in this boot and has perhaps not reached the disk.
    fn note_right(&self, layer: &Dir) -> Result<(), StoreError> {
        let is_synced = !self.is_this_boot(&self.unsynced_in()?);
        let noted = layer.write(KNOWN, if is_synced { SYNCED } else { self.boot.as_bytes() });
        // On a full or read-only disk the layer is read again the next time.
        best_effort(noted);
        Ok(())
    }

    fn unsynced_in(&self) -> Result<Vec<u8>, StoreError> {
        Ok(self.root.read(UNSYNCED, 64)?.unwrap_or_default())
    }

    /// Records that something is being added.
    pub(crate) fn note_unsynced(&self) -> Result<(), StoreError> {
        if self.is_this_boot(&self.unsynced_in()?) {
            return Ok(());
        }
        self.root.write(UNSYNCED, self.boot.as_bytes())
    }

    /// Makes sure that all additions are on the disk, and records that. Does nothing if nothing was added since the
    /// last time, or, with `settled`, if the addition is less than a minute old.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn sync(&self, settled: bool) -> Result<(), StoreError> {
        let noted = present(self.root.stat(UNSYNCED)).map_err(self.root.failed("look at", UNSYNCED))?;
        let Some(noted) = noted else {
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
        // Remove the file before listing: a process that adds a layer after that creates it again.
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
            // The layer may have been swept away meanwhile.
            best_effort(layer.write(KNOWN, SYNCED));
        }
        Ok(())
    }

    /// Makes every tree be checked before its next use, if a damaged object was replaced: trees may contain the old
    /// one.
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
