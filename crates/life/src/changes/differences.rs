//! Changes of a container, whichever driver keeps its writes.

use super::ContainerError;
use super::container::{self, Container};
use super::passages::Passages;
use crate::Home;
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use tote_archive::{Change, Difference, EntryPath, Kind, Status, WalkError};

/// Differences in the order of their paths.
pub type Differences = Box<dyn Iterator<Item = Result<Difference, WalkError>> + Send>;

/// Files that tote writes for each container. What a container makes of them is as little its image's as with docker,
/// which mounts them.
const OWN_FILES: [&str; 4] = ["/.dockerenv", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];

/// A line of `diff`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Kind of the change.
    pub status: Status,
    /// Where, for people: with a leading slash and without control characters.
    pub path: String,
}

/// Bytes of the files that a container has changed or added; `None` where that cannot be known.
pub fn written(home: &Home, wanted: &str) -> Option<u64> {
    // absence: a figure for people
    let container = container::find(home, wanted).ok()?;
    crate::vm::check_here(&container.entry.container, "measure").ok()?;
    let source = container.source(home).ok()?;
    let mut bytes = 0;
    for found in differences(&container, source.dir().ok()?).ok()? {
        if let Change::Add(entry) = found.ok()?.change
            && let Kind::File { size } = entry.kind
        {
            bytes += size;
        }
    }
    Some(bytes)
}

/// Names the container with this id, whose files cannot be read.
pub fn walk_failed(container: &str, source: WalkError) -> ContainerError {
    ContainerError::Walk {
        id: container.to_owned(),
        source,
    }
}

/// Lists the changes of a container in its image, whose tree is given: without what tote put there, and without directories
/// in which nothing is.
pub fn differences(container: &Container, image: BorrowedFd<'_>) -> Result<Differences, ContainerError> {
    let foreign = foreign(container)?;
    Ok(without(all(container, image)?, foreign))
}

/// Returns the paths in a container at which tote or the caller has put something.
pub(crate) fn foreign(container: &Container) -> Result<Vec<EntryPath>, ContainerError> {
    let own = OWN_FILES.into_iter().map(ToOwned::to_owned);
    let foreign = container.mount_points()?.into_iter().chain(own);
    let foreign = foreign.filter_map(|path| EntryPath::parse(path.as_bytes()).ok());
    Ok(foreign.collect())
}

/// Leaves out what is at these paths, and directories in which nothing is.
pub(crate) fn without(all: Differences, foreign: Vec<EntryPath>) -> Differences {
    let own = all.filter_map(move |found| {
        let mut found = match found {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let path = found.change.path();
        let is_foreign = foreign.iter().any(|foreign| path.starts_with(foreign));
        found.passage = is_passage(&found, &foreign);
        (!is_foreign).then_some(Ok(found))
    });
    Box::new(Passages::new(own))
}

/// Everything that is not as in the image.
fn all(container: &Container, image: BorrowedFd<'_>) -> Result<Differences, ContainerError> {
    if let Some(upper) = open(&container.dir.join("upper"))? {
        return Ok(Box::new(tote_archive::diff(Some(image), upper.as_fd())));
    }
    if let Some(tree) = open(&container.dir.join("tree"))? {
        return Ok(Box::new(tote_archive::compare(image, tree.as_fd())));
    }
    if let Some(upper) = super::disk::open(container)? {
        return Ok(Box::new(tote_archive::diff(Some(image), upper.as_fd())));
    }
    let copies = container.dir.join("private/copies");
    let Some(copies) = open(&copies)? else {
        // It could not write anywhere.
        return Ok(Box::new(std::iter::empty()));
    };
    let writable = container.entry.state.writable.iter();
    let writable: Vec<_> = writable
        .filter_map(|path| EntryPath::parse(path.as_bytes()).ok())
        .collect();
    // Paths without a copy are missing in this tree, but the container has not removed them.
    let copied = move |found: &Difference| {
        let path = found.change.path();
        writable.iter().any(|dir| path.starts_with(dir))
    };
    let all = tote_archive::compare(image, copies.as_fd());
    Ok(Box::new(
        all.filter(move |found| found.as_ref().map_or(true, &copied)),
    ))
}

fn open(path: &Path) -> Result<Option<OwnedFd>, ContainerError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(dir) => Ok(Some(dir)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(errno) => Err(ContainerError::Open {
            path: path.to_owned(),
            source: errno.into(),
        }),
    }
}

/// Whether the difference is only there for what is in it: as in the image, or made for a mount point.
fn is_passage(found: &Difference, foreign: &[EntryPath]) -> bool {
    let is_dir = matches!(&found.change, Change::Add(entry) if entry.kind == Kind::Directory);
    let leads = || {
        let path = found.change.path();
        foreign.iter().any(|foreign| foreign.starts_with(path))
    };
    found.passage || is_dir && found.status == Status::Added && leads()
}
