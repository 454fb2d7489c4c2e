//! Changes of layers that this process has just taken in: the tree of their image is made without reading them back.

use crate::layer::Stored;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tote_archive::{Change, Kind};
use tote_image::Digest;

/// Maximum size of the changes in memory, those of all layers together, in bytes: as many as 100,000 usual ones. Further layers
/// are read back.
const MOST: usize = 32 << 20;

/// Number of changes in a piece of their list.
const PIECE: usize = 256;

/// Changes of a layer in its order; each regular file has an object.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// In pieces, because a long list that grows is moved, and each time to memory that the process does not have yet.
    pieces: Vec<Vec<(Change, Option<Stored>)>>,
    /// Bytes that they take, roughly; if that is too much, they are not kept.
    size: usize,
}

impl Changes {
    pub(crate) fn push(&mut self, change: Change, stored: Option<Stored>) {
        self.size = self.size.saturating_add(size(&change));
        if self.size > MOST {
            self.pieces = Vec::new();
            return;
        }
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push((change, stored)),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push((change, stored));
                self.pieces.push(piece);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Change, Option<&Stored>)> {
        let list = self.pieces.iter().flatten();
        list.map(|(change, stored)| (change, stored.as_ref()))
    }
}

fn size(change: &Change) -> usize {
    let fixed = size_of::<(Change, Option<Stored>)>() + change.path().as_bytes().len();
    let Change::Add(entry) = change else {
        return fixed;
    };
    let target = match &entry.kind {
        Kind::Symlink { target } => target.len(),
        Kind::Hardlink { target } => target.as_bytes().len(),
        _ => 0,
    };
    let xattrs = entry.xattrs.iter();
    xattrs.fold(fixed + target, |size, (name, value)| {
        size + size_of_val(&(name, value)) + name.len() + value.len()
    })
}

/// Changes by their layers, until an addition ends.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<HashMap<Digest, Changes>>);

impl Recent {
    /// Keeps the changes of a layer, if there is room for all of them.
    pub(crate) fn keep(&self, layer: Digest, changes: Changes) {
        let mut layers = self.layers();
        let kept: usize = layers.values().map(|changes| changes.size).sum();
        if kept.saturating_add(changes.size) <= MOST {
            layers.insert(layer, changes);
        }
    }

    /// Takes the changes of a layer out, if they are there.
    pub(crate) fn take(&self, layer: &Digest) -> Option<Changes> {
        self.layers().remove(layer)
    }

    pub(crate) fn forget(&self) {
        self.layers().clear();
    }

    fn layers(&self) -> MutexGuard<'_, HashMap<Digest, Changes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
