//! Changes of layers that this process has just taken in: the tree of their image is made without reading them back.

use crate::layer::Stored;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tote_archive::Change;
use tote_image::Digest;

/// Maximum number of changes in memory, those of all layers together: about 20 MB. Further layers are read back.
const MOST: usize = 100_000;

/// Changes of a layer in its order; each regular file has an object.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    list: Vec<(Change, Option<Stored>)>,
    /// True if there were too many.
    is_cut: bool,
}

impl Changes {
    pub(crate) fn push(&mut self, change: Change, stored: Option<Stored>) {
        self.is_cut |= self.list.len() >= MOST;
        if self.is_cut {
            self.list = Vec::new();
        } else {
            self.list.push((change, stored));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Change, Option<&Stored>)> {
        self.list.iter().map(|(change, stored)| (change, stored.as_ref()))
    }
}

/// Changes by their layers, until an addition ends.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<HashMap<Digest, Changes>>);

impl Recent {
    /// Keeps the changes of a layer, if there is room for all of them.
    pub(crate) fn keep(&self, layer: Digest, changes: Changes) {
        let mut layers = self.layers();
        let kept: usize = layers.values().map(|changes| changes.list.len()).sum();
        if !changes.is_cut && kept + changes.list.len() <= MOST {
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
