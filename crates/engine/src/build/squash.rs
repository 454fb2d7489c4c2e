//! `--squash`: merges the changes of several layers into one.

use super::layer::pack;
use super::worker::Building;
use crate::EngineError;
use crate::changes::{Passages, add_layer};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd as _;
use tote_archive::{Change, Difference, EntryPath, Kind, Writer, compare};
use tote_image::Digest;

/// Files of a tree with several names, in the order of the names.
struct Links {
    /// Names of such files, each with the first name of its file.
    all: HashMap<EntryPath, EntryPath>,
    /// First name of each file that the merged layer has.
    told: HashMap<EntryPath, EntryPath>,
}

impl Building<'_> {
    /// Makes the layer that replaces those above the first `below` layers; `None` if they change nothing.
    pub(crate) fn merged(&mut self, layers: &[Digest], below: usize) -> Result<Option<Digest>, EngineError> {
        let (lower, upper) = (self.flat(&layers[..below])?, self.flat(layers)?);
        let (lower, upper) = (lower.view()?, upper.view()?);
        // The store shares equal files, but that does not make them hard links of the image.
        let all = compare(lower.as_fd(), upper.as_fd()).without_links();
        let mut merged = Passages::new(all).peekable();
        if merged.peek().is_none() {
            return Ok(None);
        }
        let mut links = Links {
            all: self.store.hard_links(&Self::bare(layers)?)?,
            told: HashMap::new(),
        };
        let changes = merged.map(move |found| found.map(|found| links.linked(found)));
        let layer = add_layer(self.ingest, |out| pack(Writer::new(out), changes))?;
        Ok(Some(layer.diff_id))
    }
}

impl Links {
    /// Converts a difference into a hard link if an earlier entry is the same file.
    fn linked(&mut self, found: Difference) -> (Change, Option<File>) {
        let Difference {
            mut change, content, ..
        } = found;
        let Change::Add(entry) = &mut change else {
            return (change, content);
        };
        let Some(first) = self.all.get(&entry.path) else {
            return (change, content);
        };
        match self.told.get(first) {
            None => drop(self.told.insert(first.clone(), entry.path.clone())),
            Some(told) => {
                entry.kind = Kind::Hardlink { target: told.clone() };
                entry.xattrs.clear();
                return (change, None);
            }
        }
        (change, content)
    }
}
