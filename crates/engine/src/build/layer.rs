//! What was written becomes a layer.

use super::inside;
use crate::EngineError;
use crate::changes::add_layer;
use rustix::fs::OFlags;
use std::collections::HashSet;
use std::io::Write;
use std::os::fd::BorrowedFd;
use tote_archive::{Change, Diff, Difference, EntryPath, Kind, WalkError, Writer};
use tote_store::{Ingest, Layer};

/// The layer that turns the tree `lower` into what an overlay with this upper directory shows; `None` if they are the
/// same. A directory in `touched` that differs in nothing but its time is the same.
///
/// # Errors
/// [`EngineError`].
pub(crate) fn layer_of_upper(
    ingest: &Ingest<'_>,
    lower: BorrowedFd<'_>,
    upper: BorrowedFd<'_>,
    touched: &HashSet<EntryPath>,
) -> Result<Option<Layer>, EngineError> {
    let mut changes = Changes {
        diff: tote_archive::diff(None, upper),
        lower,
        touched,
        held: Vec::new(),
    };
    let first = changes.next_ones()?;
    if first.is_empty() {
        return Ok(None);
    }
    add_layer(ingest, |out| write(out, first, changes)).map(Some)
}

fn write(out: impl Write, first: Vec<Difference>, mut changes: Changes<'_>) -> Result<(), EngineError> {
    let mut archive = Writer::new(out).whole_seconds();
    let mut ready = first;
    while !ready.is_empty() {
        for Difference { change, content, .. } in ready {
            archive.change(&change)?;
            if let Some(mut file) = content {
                std::io::copy(&mut file, &mut archive).map_err(EngineError::LayerOutput)?;
            }
        }
        ready = changes.next_ones()?;
    }
    archive.finish()?.flush().map_err(EngineError::LayerOutput)
}

/// The differences that matter.
struct Changes<'a> {
    diff: Diff,
    lower: BorrowedFd<'a>,
    touched: &'a HashSet<EntryPath>,
    /// Directories that matter only if something in them does.
    held: Vec<Difference>,
}

impl Changes<'_> {
    /// The next difference that matters, with the directories before it; nothing at the end.
    fn next_ones(&mut self) -> Result<Vec<Difference>, WalkError> {
        for found in self.diff.by_ref() {
            let found = found?;
            let path = found.change.path();
            self.held.retain(|held| path.starts_with(held.change.path()));
            if self.touched.contains(path) && is_same(self.lower, &found.change) {
                self.held.push(found);
                continue;
            }
            let mut ready = std::mem::take(&mut self.held);
            ready.push(found);
            return Ok(ready);
        }
        Ok(Vec::new())
    }
}

/// Whether it is a directory that is below as well, with the same owner and mode.
fn is_same(lower: BorrowedFd<'_>, change: &Change) -> bool {
    let Change::Add(entry) = change else { return false };
    let below = inside::open_straight(lower, entry.path.as_bytes(), OFlags::PATH | OFlags::NOFOLLOW);
    let stat = below.and_then(rustix::fs::fstat);
    entry.kind == Kind::Directory
        && stat.is_ok_and(|stat| {
            (stat.st_mode & 0o170_000, stat.st_mode & 0o7777) == (0o040_000, entry.mode)
                && (stat.st_uid, stat.st_gid) == (entry.uid, entry.gid)
        })
}
