//! Files that containers of a smaller image asked the whole image for: a record beside the whole image, removed with it.

use crate::dir::Dir;
use crate::lock::Lock;
use crate::store::Store;
use crate::{StoreError, image::dir};
use std::collections::BTreeSet;
use tote_image::Digest;

const MISSES: &str = "misses.json";
const LOCK: &str = "misses.lock";
/// Maximum size of the record in bytes.
const LIMIT: u64 = 64 << 20;

impl Store {
    /// Returns the absolute paths that were missed; empty if unknown.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] and others.
    pub fn misses(&self, id: &Digest) -> Result<BTreeSet<String>, StoreError> {
        read(&dir(self, id)?)
    }

    /// Adds paths to the record.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] and others.
    pub fn add_misses(&self, id: &Digest, paths: BTreeSet<String>) -> Result<(), StoreError> {
        let dir = dir(self, id)?;
        let _lock = Lock::exclusive(&dir, LOCK)?;
        let mut all = read(&dir)?;
        let before = all.len();
        all.extend(paths);
        if all.len() == before {
            return Ok(());
        }
        let text = serde_json::to_vec(&all);
        let text = text.map_err(|_| StoreError::damaged(dir.path().join(MISSES), "it cannot be written"))?;
        if text.len() as u64 > LIMIT {
            return Err(StoreError::damaged(
                dir.path().join(MISSES),
                "it would be too large",
            ));
        }
        dir.write(MISSES, &text)
    }
}

fn read(image: &Dir) -> Result<BTreeSet<String>, StoreError> {
    let noted = image.read(MISSES, LIMIT)?;
    // If the record cannot be parsed, only a hint is lost.
    let noted: Option<BTreeSet<String>> = noted.and_then(|text| serde_json::from_slice(&text).ok());
    Ok(noted.unwrap_or_default())
}
