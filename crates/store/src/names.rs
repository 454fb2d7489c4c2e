//! `names/`: a file for each name of an image, with the full name in its first line and the image's id in the
//! second. For an index, the third line says so, which saves a start from finding it out.

use crate::StoreError;
use crate::dir::Dir;
use crate::store::{NAMES, Store, sha256, sha256_hex};
use std::path::Path;
use tote_image::{Digest, Reference};

/// Third line of the name of an index.
const OF_INDEX: &str = "index";

/// Maximum length of a name that fits into a file's name, including the prefix of unfinished files.
const LONGEST: usize = 200;

impl Store {
    /// Lists all names, with the ids of their images or indexes, sorted.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn names(&self) -> Result<Vec<(Reference, Digest)>, StoreError> {
        all(&self.names)
    }

    /// Returns the id of the image or index that a name stands for.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn named(&self, name: &Reference) -> Result<Option<Digest>, StoreError> {
        get(&self.names, name)
    }

    /// True if the store in a directory, which is not opened completely, has this name. A failure counts as false.
    #[must_use]
    pub fn is_named(path: &Path, name: &Reference) -> bool {
        is_there(&path.join(NAMES), name)
    }

    /// Removes a name. Returns whether it existed; its image stays.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn untag(&self, name: &Reference) -> Result<bool, StoreError> {
        remove(&self.names, name)
    }
}

/// Returns the text of a name: that of [`Reference::canonical`].
fn text(name: &Reference) -> String {
    name.canonical().to_string()
}

/// Returns the file's name for a name: slashes become `%`, which no name contains. A name that is too long is
/// replaced by its hash.
fn file(name: &str) -> String {
    if name.len() <= LONGEST {
        name.replace('/', "%")
    } else {
        format!("%{}", sha256(name.as_bytes()).hex())
    }
}

/// Id that a name stands for, and whether it is that of an index.
type Named = (Digest, bool);

pub(crate) fn put(
    dir: &Dir,
    name: &Reference,
    (image, is_index): (&Digest, bool),
) -> Result<Option<Digest>, StoreError> {
    let before = get(dir, name)?;
    let name = text(name);
    sha256_hex(image)?;
    let mut text = format!("{name}\n{image}\n");
    if is_index {
        text += OF_INDEX;
        text.push('\n');
    }
    dir.write(&file(&name), text.as_bytes())?;
    Ok(before.filter(|before| before != image))
}

pub(crate) fn get(dir: &Dir, name: &Reference) -> Result<Option<Digest>, StoreError> {
    Ok(get_kind(dir, name)?.map(|(id, _)| id))
}

/// Reads the id that a name stands for.
pub(crate) fn get_kind(dir: &Dir, name: &Reference) -> Result<Option<Named>, StoreError> {
    Ok(read(dir, &file(&text(name)))?.map(|(_, named)| named))
}

/// True if the name exists in the directory at this path.
pub(crate) fn is_there(dir: &Path, name: &Reference) -> bool {
    // absence: the store is opened, and the name is looked up there
    std::fs::read(dir.join(file(&text(name)))).is_ok_and(|bytes| parse(&bytes).is_some())
}

pub(crate) fn remove(dir: &Dir, name: &Reference) -> Result<bool, StoreError> {
    let file = file(&text(name));
    let is_there = dir.is_there(&file)?;
    dir.unlink(&file).map_err(dir.failed("remove", file))?;
    Ok(is_there)
}

/// Lists damaged files, which a power cut may have emptied. Each comes with its name, if the file's own name tells.
pub(crate) fn damaged(dir: &Dir) -> Result<Vec<(String, Option<Reference>)>, StoreError> {
    let mut damaged = Vec::new();
    for file in dir.names()? {
        if !file.starts_with('.')
            && dir
                .read(&file, 4096)?
                .is_some_and(|bytes| parse(&bytes).is_none())
        {
            let name = Reference::parse(&file.replace('%', "/")).ok();
            damaged.push((file, name));
        }
    }
    Ok(damaged)
}

pub(crate) fn all(dir: &Dir) -> Result<Vec<(Reference, Digest)>, StoreError> {
    let mut names = Vec::new();
    for file in dir.names()? {
        if !file.starts_with('.') {
            names.extend(read(dir, &file)?.map(|(name, (id, _))| (name, id)));
        }
    }
    names.sort_by_key(|(name, _)| name.to_string());
    Ok(names)
}

fn read(dir: &Dir, file: &str) -> Result<Option<(Reference, Named)>, StoreError> {
    Ok(dir.read(file, 4096)?.and_then(|bytes| parse(&bytes)))
}

/// Parses a file; `None` if it is damaged, for example emptied by a power cut.
fn parse(bytes: &[u8]) -> Option<(Reference, Named)> {
    let content = String::from_utf8_lossy(bytes);
    let mut lines = content.lines();
    let name = lines.next().and_then(|name| Reference::parse(name).ok());
    let image = lines.next().and_then(|id| id.parse().ok());
    let is_index = lines.next() == Some(OF_INDEX);
    Some((name?, (image?, is_index)))
}
