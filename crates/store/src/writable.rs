//! Directories that the programs of an image write to: a record beside the image, removed with it.

use crate::dir::Dir;
use crate::store::{Store, sha256_hex};
use crate::{StoreError, image};
use std::path::Path;
use tote_image::Digest;

const WRITABLE: &str = "writable.json";
/// Maximum size of the record in bytes.
const LIMIT: u64 = 1 << 20;

impl Store {
    /// Returns the absolute paths below which the programs of an image write; empty if unknown.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] and others.
    pub fn writable(&self, id: &Digest) -> Result<Vec<String>, StoreError> {
        note_in(&image::dir(self, id)?)
    }

    /// Returns the same for the store at `root`, of which nothing else is opened.
    ///
    /// # Errors
    /// [`StoreError::Io`], for example if the image is missing.
    pub fn writable_below(root: &Path, id: &Digest) -> Result<Vec<String>, StoreError> {
        note_in(&Dir::open(
            &root.join(crate::store::IMAGES).join(sha256_hex(id)?),
        )?)
    }

    /// Writes the record, in place of an earlier one.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] and others.
    pub fn set_writable(&self, id: &Digest, paths: &[String]) -> Result<(), StoreError> {
        let dir = image::dir(self, id)?;
        let text = serde_json::to_vec(paths);
        let text =
            text.map_err(|_| StoreError::damaged(dir.path().join(WRITABLE), "it cannot be written"))?;
        dir.write(WRITABLE, &text)
    }
}

fn note_in(image: &Dir) -> Result<Vec<String>, StoreError> {
    let noted = image.read(WRITABLE, LIMIT)?;
    // If the record cannot be parsed, only a hint is lost.
    let noted: Option<Vec<String>> = noted.and_then(|text| serde_json::from_slice(&text).ok());
    Ok(noted.unwrap_or_default())
}
