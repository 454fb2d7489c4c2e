//! `--squash`: what several layers change, as one.

use super::worker::Building;
use crate::EngineError;
use crate::changes::add_layer;
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::io::Write;
use std::os::fd::AsFd as _;
use tote_archive::{Change, Compare, Difference, EntryPath, Kind, WalkError, Writer, compare};
use tote_image::Digest;

/// What makes one tree another: directories that changed in nothing but their time are told only before what is in them.
struct Merged {
    all: Compare,
    /// Names of the tree's files that have several, each with the first of them.
    links: HashMap<EntryPath, EntryPath>,
    /// The first of them that was told.
    told: HashMap<EntryPath, EntryPath>,
    held: Vec<Difference>,
}

impl Building<'_> {
    /// The layer that does to the first `below` layers what those above do to them; `None` if that is nothing.
    pub(crate) fn merged(&mut self, layers: &[Digest], below: usize) -> Result<Option<Digest>, EngineError> {
        let open = |path: &std::path::Path| {
            super::view::open(path, OFlags::RDONLY).map_err(|source| EngineError::Kernel {
                attempt: "open the image's files",
                source,
            })
        };
        let (lower, upper) = (self.flat(&layers[..below])?, self.flat(layers)?);
        let (lower, upper) = (open(lower.path())?, open(upper.path())?);
        let mut merged = Merged {
            // The store has equal files once, which does not make them one file of the image's.
            all: compare(lower.as_fd(), upper.as_fd()).without_links(),
            links: self.store.hard_links(&Self::bare(layers)?)?,
            told: HashMap::new(),
            held: Vec::new(),
        };
        let first = merged.next_ones()?;
        if first.is_empty() {
            return Ok(None);
        }
        let layer = add_layer(self.ingest, |out| write(out, first, merged))?;
        Ok(Some(layer.diff_id))
    }
}

fn write(out: impl Write, first: Vec<Difference>, mut merged: Merged) -> Result<(), EngineError> {
    let mut archive = Writer::new(out);
    let mut ready = first;
    while !ready.is_empty() {
        for Difference { change, content, .. } in ready {
            archive.change(&change)?;
            if let Some(mut file) = content {
                std::io::copy(&mut file, &mut archive).map_err(EngineError::LayerOutput)?;
            }
        }
        ready = merged.next_ones()?;
    }
    archive.finish()?.flush().map_err(EngineError::LayerOutput)
}

impl Merged {
    /// The next difference, with the directories that lead to it; nothing at the end.
    fn next_ones(&mut self) -> Result<Vec<Difference>, WalkError> {
        while let Some(found) = self.all.next().transpose()? {
            let path = found.change.path();
            self.held.retain(|held| path.starts_with(held.change.path()));
            if found.passage {
                self.held.push(found);
                continue;
            }
            let mut ready = std::mem::take(&mut self.held);
            ready.push(self.linked(found));
            return Ok(ready);
        }
        Ok(Vec::new())
    }

    /// The same, as another name of a file that came before where it is that.
    fn linked(&mut self, mut found: Difference) -> Difference {
        let Change::Add(entry) = &mut found.change else {
            return found;
        };
        let Some(first) = self.links.get(&entry.path) else {
            return found;
        };
        match self.told.get(first) {
            None => drop(self.told.insert(first.clone(), entry.path.clone())),
            Some(told) => {
                entry.kind = Kind::Hardlink { target: told.clone() };
                entry.xattrs.clear();
                found.content = None;
            }
        }
        found
    }
}
