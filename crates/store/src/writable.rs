//! Where the programs of an image write, as somebody has found out: a note beside the image, which goes with it.

use crate::dir::Dir;
use crate::store::{Store, sha256_hex};
use crate::{StoreError, image};
use std::path::Path;
use tote_image::Digest;

const WRITABLE: &str = "writable.json";
/// The most of it that is read, in bytes.
const LIMIT: u64 = 1 << 20;

impl Store {
    /// The absolute paths below which the programs of an image write; none where nobody knows.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] and others.
    pub fn writable(&self, id: &Digest) -> Result<Vec<String>, StoreError> {
        note_in(&image::dir(self, id)?)
    }

    /// The same of the store at `root`, of which nothing else is opened.
    ///
    /// # Errors
    /// [`StoreError::Io`], of an image that is not there for one.
    pub fn writable_below(root: &Path, id: &Digest) -> Result<Vec<String>, StoreError> {
        note_in(&Dir::open(
            &root.join(crate::store::IMAGES).join(sha256_hex(id)?),
        )?)
    }

    /// Notes them, in place of what was noted before.
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
    // A note that does not parse is a hint lost, no more.
    let noted: Option<Vec<String>> = noted.and_then(|text| serde_json::from_slice(&text).ok());
    Ok(noted.unwrap_or_default())
}
