//! A source that comes as an archive: from a virtual machine, or into one.

use super::put::{Entries, below};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, openat};
use std::fs::File;
use std::io::{Read, Seek as _};
use tote_archive::{Change, Entry, EntryPath, Kind, Limits, ReadError, Reader, WalkError};

/// Archive of which the first entry has been read.
pub(super) struct Received {
    reader: Reader<Box<dyn Read>>,
    first: Entry,
    /// True if the paths begin with the name of the source.
    named: bool,
}

impl Received {
    /// Reads the beginning of an archive; `None` if it has no entries. `contents` says that a directory comes without its name.
    pub(super) fn begin(input: Box<dyn Read>, contents: bool) -> Result<Option<Self>, ReadError> {
        let mut reader = Reader::new(input, Limits::default()).without_whiteouts();
        let Some(first) = next_entry(&mut reader)? else {
            return Ok(None);
        };
        let named = !(contents && first.kind == Kind::Directory);
        Ok(Some(Self { reader, first, named }))
    }

    pub(super) fn is_directory(&self) -> bool {
        self.first.kind == Kind::Directory
    }

    /// Returns its entries below this name. Contents wait in nameless files, in `beside` where that can have them.
    pub(super) fn entries(self, name: &EntryPath, beside: Option<&OwnedFd>) -> Entries {
        let name = name.clone();
        let beside = beside.and_then(|dir| dir.try_clone().ok());
        let Self {
            mut reader,
            first,
            named,
        } = self;
        let mut first = Some(first);
        Box::new(std::iter::from_fn(move || {
            let entry = match first.take() {
                Some(entry) => entry,
                None => match next_entry(&mut reader) {
                    Ok(entry) => entry?,
                    Err(error) => return Some(Err(unreadable(&name, std::io::Error::other(error)))),
                },
            };
            Some(received(entry, &mut reader, (&name, named), beside.as_ref()))
        }))
    }
}

fn next_entry(reader: &mut Reader<Box<dyn Read>>) -> Result<Option<Entry>, ReadError> {
    loop {
        match reader.next_change()? {
            Some(Change::Add(entry)) => return Ok(Some(entry)),
            Some(_) => {}
            None => return Ok(None),
        }
    }
}

fn received(
    mut entry: Entry,
    reader: &mut dyn Read,
    (name, named): (&EntryPath, bool),
    beside: Option<&OwnedFd>,
) -> Result<(Entry, Option<File>), WalkError> {
    let file = match entry.kind {
        Kind::File { .. } => Some(kept(reader, beside).map_err(|error| unreadable(&entry.path, error))?),
        _ => None,
    };
    let place = |path: &EntryPath| {
        let inner = path.components().skip(usize::from(named));
        let inner = inner.fold(EntryPath::root(), |path, part| {
            path.join(part).unwrap_or_default()
        });
        below(name, &inner)
    };
    entry.path = place(&entry.path);
    if let Kind::Hardlink { target } = &mut entry.kind {
        *target = place(target);
    }
    Ok((entry, file))
}

/// Keeps the content of the current entry in a file that goes with its descriptor.
fn kept(reader: &mut dyn Read, beside: Option<&OwnedFd>) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    // absence: memory takes the file's place
    let nameless = beside.and_then(|dir| openat(dir.as_fd(), c".", flags, Mode::RUSR | Mode::WUSR).ok());
    let mut file: File = match nameless {
        Some(file) => file.into(),
        None => memfd_create(c"tote-cp", MemfdFlags::CLOEXEC)?.into(),
    };
    std::io::copy(reader, &mut file)?;
    file.rewind()?;
    Ok(file)
}

fn unreadable(path: &EntryPath, source: std::io::Error) -> WalkError {
    WalkError::Content {
        path: path.clone(),
        source,
    }
}
