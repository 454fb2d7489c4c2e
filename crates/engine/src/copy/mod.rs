//! `cp`: files into containers, out of them, and from one to another.
//!
//! A single process copies. A container's root is a descriptor, from its own process if it runs, otherwise from a
//! process that holds its mounts ([`visit`]); paths are resolved in it as the container would ([`tree`]). A user's
//! process enters the container's user namespace, and no other of its namespaces. Trees are copied directly from one
//! directory to the other; archives are used only for standard input and standard output. No program of the container
//! is executed.

mod error;
mod guest;
mod inside;
mod place;
mod put;
mod received;
mod request;
mod tree;
mod visit;

pub use error::{CopyError, PlaceError, TransferFault};

pub(crate) use guest::copy_in_guest;
pub use request::{Copied, CopyRequest, CopyStreams};
pub(crate) use visit::Visit;

use crate::container::Entry;
use crate::{EngineError, Home};
use inside::Inside;
use place::{Place, Wanted};
use put::{Copying, Original};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::os::unix::ffi::OsStrExt as _;
use std::rc::Rc;
use tote_state::events::append;
use tote_sys::Errno;
use tree::Tree;

/// Copies files. `told` receives the number of further bytes. The process must have one thread.
///
/// # Errors
/// [`EngineError`]. A single file is unchanged then; of a directory or an archive, the parts that
/// were already copied stay.
pub fn copy(
    home: &Home,
    request: &CopyRequest,
    streams: CopyStreams<'_>,
    told: &mut dyn FnMut(u64),
) -> Result<Copied, EngineError> {
    for (word, what) in [(&request.from, "source"), (&request.to, "destination")] {
        if word.is_empty() {
            return Err(CopyError::Empty(what).into());
        }
    }
    let (from, to) = (Place::parse(&request.from), Place::parse(&request.to));
    let here = Here::open()?;
    if let Some(ends) = guest::ends(home, (&from, &to))? {
        let copied = guest::pass(home, &ends, (request, here.tree()), streams, told)?;
        for (end, action) in [(&ends.from, "archive-path"), (&ends.to, "extract-to-dir")] {
            end.iter()
                .for_each(|end| note(home, &end.entry, action, end.path));
        }
        return Ok(copied);
    }
    let base = request.here.as_os_str().as_bytes();
    let source = match &from {
        Place::Container { name, path } => {
            Some((Rc::new(Inside::open(home, name, false)?), Wanted::new(b"", path)))
        }
        _ => None,
    };
    let target = match &to {
        Place::Container { name, path } => {
            let same = source.as_ref().filter(|(inside, _)| inside.is_also(home, name));
            let inside = match same {
                // A stopped container is used by one copy at a time, and this one has it.
                Some((inside, _)) => Rc::clone(inside),
                None => Rc::new(Inside::open(home, name, true)?),
            };
            Some((inside, Wanted::new(b"", path)))
        }
        _ => None,
    };
    if let Some((inside, _)) = target.as_ref().or(source.as_ref()) {
        inside.enter_ids(home)?;
    }
    let mut copying = Copying { request, told };
    let copied = match (&source, &target, &from, &to) {
        (Some((inside, wanted)), None, _, Place::Stream) => {
            let original = original(inside.tree(), wanted, request.follow, &Named::Inside(inside))?;
            copying.pack(&original, streams.output)?
        }
        (Some((inside, wanted)), None, _, Place::Local(path)) => {
            let original = original(inside.tree(), wanted, request.follow, &Named::Inside(inside))?;
            let to = Wanted::new(base, path);
            copying.put_here(&original, here.tree(), &to, path)?
        }
        (Some((one, wanted)), Some((other, to)), ..) => {
            let original = original(one.tree(), wanted, request.follow, &Named::Inside(one))?;
            copying.put_inside(&original, other, to)?
        }
        (None, Some((inside, to)), Place::Local(path), _) => {
            let wanted = Wanted::new(base, path);
            let original = original(here.tree(), &wanted, request.follow, &Named::Here(path))?;
            copying.put_inside(&original, inside, to)?
        }
        (None, Some((inside, to)), Place::Stream, _) => copying.unpack(streams.input, inside, to)?,
        _ => return Err(CopyError::NoContainer.into()),
    };
    let happened = [(&source, "archive-path"), (&target, "extract-to-dir")];
    for (end, action) in happened {
        if let Some((inside, wanted)) = end {
            inside
                .entry
                .iter()
                .for_each(|entry| note(home, entry, action, &wanted.path));
        }
    }
    Ok(copied)
}

/// Records a copy.
fn note(home: &Home, entry: &Entry, action: &str, path: &[u8]) {
    let event = entry.container.event(action);
    append(home, &[event.with("path", String::from_utf8_lossy(path))]);
}

/// Root directory of this machine.
struct Here(OwnedFd);

impl Here {
    fn open() -> Result<Self, CopyError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open("/", flags, Mode::empty());
        Ok(Self(root.map_err(|source| CopyError::Path {
            attempt: "open",
            path: "/".to_owned(),
            source,
        })?))
    }

    fn tree(&self) -> Tree<'_> {
        Tree {
            root: self.0.as_fd(),
            foreign: false,
        }
    }
}

/// Source, as named in messages.
enum Named<'a> {
    Inside(&'a Inside),
    /// Path as given.
    Here(&'a [u8]),
}

/// Finds the source of a copy.
fn original(tree: Tree<'_>, wanted: &Wanted, follow: bool, named: &Named<'_>) -> Result<Original, CopyError> {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let shown = match named {
        Named::Inside(inside) => inside.shown(&wanted.path),
        Named::Here(path) => text(path),
    };
    match tree.source(wanted, follow) {
        Ok((fd, stat)) => Ok(Original::new(fd, &stat, wanted, shown)),
        Err(Errno::NOENT) => Err(match named {
            Named::Inside(inside) => inside.not_there(&wanted.path),
            Named::Here(path) => CopyError::Place(PlaceError::NotHere(text(path))),
        }),
        Err(source) => Err(CopyError::Path {
            attempt: "open",
            path: shown,
            source,
        }),
    }
}
