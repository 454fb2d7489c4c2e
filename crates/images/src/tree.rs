//! Layers of an image, and other images that share them.

use crate::index::names_of_images;
use crate::open::open_store;
use crate::{Home, ImagesError};
use std::collections::{BTreeMap, BTreeSet};
use tote_image::{ChainId, Digest, Reference};
use tote_store::{Image, Store, sha256};

/// Image as a tree of layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageTree {
    /// Id of the image.
    pub id: Digest,
    /// Names with tags.
    pub names: Vec<Reference>,
    /// Size of the files in all layers, in bytes.
    pub size: u64,
    /// Layers of the image, the lowest first, or with `above` its last one and all layers on top of it.
    pub rows: Vec<LayerRow>,
}

/// Layer in its place in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerRow {
    /// Depth in the tree; 0 for rows that hang on the image itself.
    pub depth: usize,
    /// True if this is the last row below its parent.
    pub is_last: bool,
    /// Chain id: the layer with all layers below it.
    pub id: Digest,
    /// Size of the files in bytes; 0 for a lost layer.
    pub size: u64,
    /// Names of the images whose last layer this is.
    pub top_of: Vec<Reference>,
}

/// Builds the tree of an image: its own layers, or with `above` its last one and all layers on top of it.
///
/// # Errors
/// [`ImagesError::Store`].
pub fn image_tree(home: &Home, wanted: &str, above: bool) -> Result<ImageTree, ImagesError> {
    let store = open_store(home)?;
    let image = store.image(&store.resolve(wanted)?)?;
    let mut names: BTreeMap<Digest, Vec<Reference>> = BTreeMap::new();
    for (name, id) in names_of_images(&store)? {
        if name.digest().is_none() {
            names.entry(id).or_default().push(name);
        }
    }
    let mut known = Known::default();
    for other in store.images()? {
        known.add(&other, names.get(&other.id).map_or(&[], Vec::as_slice));
    }
    let chain = ChainId::of(image.layers(), sha256);
    let mut rows = match chain.last() {
        Some(top) if above => known.rows_above(top.0),
        _ => known.rows_of(&chain),
    };
    for row in &mut rows {
        row.size = known.size(&store, &row.id)?;
    }
    Ok(ImageTree {
        id: image.id,
        names: names.remove(&image.id).unwrap_or_default(),
        size: image.record.size,
        rows,
    })
}

/// All layers of the store, by chain ids.
#[derive(Default)]
struct Known {
    layers: BTreeMap<Digest, Digest>,
    top_of: BTreeMap<Digest, Vec<Reference>>,
    above: BTreeMap<Digest, BTreeSet<Digest>>,
}

impl Known {
    fn add(&mut self, image: &Image, names: &[Reference]) {
        let mut below = None;
        for (ChainId(id), layer) in ChainId::of(image.layers(), sha256)
            .into_iter()
            .zip(image.layers())
        {
            if let Some(below) = below.replace(id) {
                self.above.entry(below).or_default().insert(id);
            }
            self.layers.insert(id, *layer);
        }
        if let Some(top) = below {
            self.top_of.entry(top).or_default().extend_from_slice(names);
        }
    }

    fn size(&self, store: &Store, id: &Digest) -> Result<u64, ImagesError> {
        let layer = self.layers.get(id).map(|layer| store.layer(layer)).transpose()?;
        Ok(layer.flatten().map_or(0, |layer| layer.sizes.size))
    }

    fn row(&self, id: Digest, depth: usize, is_last: bool) -> LayerRow {
        LayerRow {
            depth,
            is_last,
            id,
            size: 0,
            top_of: self.top_of.get(&id).cloned().unwrap_or_default(),
        }
    }

    fn rows_of(&self, chain: &[ChainId]) -> Vec<LayerRow> {
        let ids = chain.iter().enumerate();
        ids.map(|(index, id)| self.row(id.0, 0, index + 1 == chain.len()))
            .collect()
    }

    fn rows_above(&self, top: Digest) -> Vec<LayerRow> {
        let mut rows = Vec::new();
        let mut open = vec![(top, 0, true)];
        while let Some((id, depth, is_last)) = open.pop() {
            rows.push(self.row(id, depth, is_last));
            // The stack takes its last row first, so the order is reversed here.
            let above = self.above.get(&id).into_iter().flatten().rev().enumerate();
            open.extend(above.map(|(index, id)| (*id, depth + 1, index == 0)));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_above() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|byte| Digest::sha256([byte; 32]));
        let mut known = Known::default();
        for (below, above) in [(a, c), (a, b), (b, d)] {
            known.above.entry(below).or_default().insert(above);
        }
        let rows: Vec<_> = known
            .rows_above(a)
            .into_iter()
            .map(|row| (row.id, row.depth, row.is_last))
            .collect();
        assert_eq!(rows, [(a, 0, true), (b, 1, false), (d, 2, true), (c, 1, true)]);
        let rows: Vec<_> = known
            .rows_of(&[ChainId(a), ChainId(b)])
            .into_iter()
            .map(|row| (row.id, row.is_last))
            .collect();
        assert_eq!(rows, [(a, false), (b, true)]);
    }
}
