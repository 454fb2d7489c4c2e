//! `cp`: files into containers, out of them, and from one to another.
//!
//! One process does it all. A container's root is a descriptor, its own process's where it runs, or that of a process
//! that holds its mounts ([`visit`]); paths are resolved in it as the container would ([`tree`]). A user's process enters
//! the container's user namespace, and no other of its namespaces. Trees go directly from one directory to the other;
//! an archive is only what comes from standard input or goes to standard output. Nothing of the container is executed.

mod error;
mod inside;
mod place;
mod put;
mod tree;
mod visit;

pub use error::CopyError;

use crate::{EngineError, Home};
use inside::Inside;
use place::{Place, Wanted};
use put::{Copying, Original};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use tote_state::events::append;
use tote_sys::Errno;
use tree::Tree;

/// What is to be copied where to.
#[derive(Clone, Debug, Default)]
pub struct CopyRequest {
    /// `CONTAINER:PATH`, a path of this machine's, or `-`.
    pub from: OsString,
    /// The same.
    pub to: OsString,
    /// Where relative paths of this machine's begin; absolute.
    pub here: PathBuf,
    /// Whether owners are kept, by number.
    pub archive: bool,
    /// Whether a link to be copied stands for what it leads to.
    pub follow: bool,
    /// Whether a directory may take the place of something else, and the other way round.
    pub overwrite: bool,
}

/// The ends of an archive that is copied.
pub struct CopyStreams<'a> {
    /// Where it comes from, for the source `-`.
    pub input: &'a mut dyn Read,
    /// Where it goes to, for the destination `-`.
    pub output: &'a mut dyn Write,
}

impl std::fmt::Debug for CopyStreams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CopyStreams")
    }
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes of files, without holes.
    pub bytes: u64,
    /// Device nodes that were left out.
    pub devices_skipped: u64,
}

/// Copies. `told` hears how many bytes more are copied. The process must have one thread.
///
/// # Errors
/// [`EngineError`]. A single file is as it was then; of a directory or an archive, what was copied before stays.
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
    let base = request.here.as_os_str().as_bytes();
    let source = match &from {
        Place::Container { name, path } => Some((Inside::open(home, name, false)?, Wanted::new(b"", path))),
        _ => None,
    };
    let target = match &to {
        Place::Container { name, path } => Some((Inside::open(home, name, true)?, Wanted::new(b"", path))),
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
            let path = String::from_utf8_lossy(&wanted.path);
            let event = inside.entry.container.event(action).with("path", path);
            append(home, &[event]);
        }
    }
    Ok(copied)
}

/// This machine's root.
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

/// Where something is that is copied, for messages.
enum Named<'a> {
    Inside(&'a Inside),
    /// As given.
    Here(&'a [u8]),
}

/// Finds what is to be copied.
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
            Named::Here(path) => CopyError::NotHere(text(path)),
        }),
        Err(source) => Err(CopyError::Path {
            attempt: "open",
            path: shown,
            source,
        }),
    }
}
