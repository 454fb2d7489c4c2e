//! `--squash`: what several layers change, as one.

use super::layer::pack;
use super::worker::Building;
use crate::EngineError;
use crate::changes::{Passages, add_layer};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd as _;
use tote_archive::{Change, Difference, EntryPath, Kind, Writer, compare};
use tote_image::Digest;

/// The files of a tree that have several names there, as those names come.
struct Links {
    /// Their names, each with the first of them.
    all: HashMap<EntryPath, EntryPath>,
    /// The first of them that was told.
    told: HashMap<EntryPath, EntryPath>,
}

impl Building<'_> {
    /// The layer that does to the first `below` layers what those above do to them; `None` if that is nothing.
    pub(crate) fn merged(&mut self, layers: &[Digest], below: usize) -> Result<Option<Digest>, EngineError> {
        let (lower, upper) = (self.flat(&layers[..below])?, self.flat(layers)?);
        let (lower, upper) = (lower.view()?, upper.view()?);
        // The store has equal files once, which does not make them one file of the image's.
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
    /// The same, as another name of a file that came before where it is that.
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
