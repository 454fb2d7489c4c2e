//! Conversion of written files into a layer.

use super::inside;
use crate::changes::{Passages, add_layer};
use crate::{EngineError, ImageFault};
use rustix::fs::OFlags;
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::BorrowedFd;
use tote_archive::{Change, EntryPath, Kind, WalkError, Writer};
use tote_store::{Ingest, Layer};

/// Makes the layer that turns the tree `lower` into the view of an overlay with this upper directory; `None` if they
/// are equal. A directory in `touched` that differs only in its time counts as equal.
///
/// # Errors
/// [`EngineError`].
pub(crate) fn layer_of_upper(
    ingest: &Ingest<'_>,
    lower: BorrowedFd<'_>,
    upper: BorrowedFd<'_>,
    touched: &HashSet<EntryPath>,
) -> Result<Option<Layer>, EngineError> {
    let all = tote_archive::diff(None, upper).map(|found| {
        let mut found = found?;
        found.passage = touched.contains(found.change.path()) && is_same(lower, &found.change);
        Ok(found)
    });
    let mut changes = Passages::new(all).peekable();
    if changes.peek().is_none() {
        return Ok(None);
    }
    let changes = changes.map(|found| found.map(|found| (found.change, found.content)));
    add_layer(ingest, |out| pack(Writer::new(out).whole_seconds(), changes)).map(Some)
}

/// Writes an archive of these changes to its end.
pub fn pack(
    mut archive: Writer<impl Write>,
    changes: impl Iterator<Item = Result<(Change, Option<File>), WalkError>>,
) -> Result<(), EngineError> {
    for found in changes {
        let (change, content) = found?;
        archive.change(&change)?;
        if let Some(mut file) = content {
            std::io::copy(&mut file, &mut archive).map_err(ImageFault::LayerOutput)?;
        }
    }
    archive
        .finish()?
        .flush()
        .map_err(|error| EngineError::Image(ImageFault::LayerOutput(error)))
}

/// True if the change is a directory that exists below with the same owner and mode.
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
