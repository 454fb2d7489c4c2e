//! Copies of a container that is in a virtual machine: the guest packs and extracts with the code of this folder, and the host
//! passes the archive on.

use super::error::CopyError;
use super::inside::Inside;
use super::place::{Place, Wanted};
use super::put::{Copying, Original};
use super::received::Received;
use super::request::{Copied, CopyRequest, CopyStreams};
use super::tree::Tree;
use super::{Named, original};
use crate::container::Entry;
use crate::exec::{Conversation, converse};
use crate::{EngineError, Home};
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use tote_sys::{best_effort, chain};

/// Bytes that pass at a time.
const CHUNK: usize = 64 << 10;

/// Copy that the guest is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Name of the container, as given.
    name: String,
    /// Path in the container, as given.
    path: Vec<u8>,
    what: What,
    follow: bool,
    overwrite: bool,
    archive: bool,
}

/// Kind of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum What {
    /// The path is packed.
    Pack,
    /// An archive of the user's is extracted there.
    Extract,
    /// A source with this name is put there; true if only its entries are.
    Put(Vec<u8>, bool),
}

/// Both ends of a copy with a container in a virtual machine.
pub(super) struct Ends<'a> {
    pub(super) entry: Entry,
    /// Name of the container and path in it, as given.
    name: &'a str,
    pub(super) path: &'a [u8],
    other: &'a Place,
}

/// Returns the ends of a copy in which a container in a virtual machine takes part, and whether it is written to.
pub(super) fn ends<'a>(
    home: &Home,
    (from, to): (&'a Place, &'a Place),
) -> Result<Option<(Ends<'a>, bool)>, EngineError> {
    for (place, other, writes) in [(from, to, false), (to, from, true)] {
        let Place::Container { name, path } = place else {
            continue;
        };
        let entry = crate::container::find(home, name)?;
        if !crate::vm::is_in_vm(&entry.container) {
            continue;
        }
        if matches!(other, Place::Container { .. }) {
            return Err(CopyError::TwoContainers(name.clone()).into());
        }
        let ends = Ends {
            entry,
            name,
            path,
            other,
        };
        return Ok(Some((ends, writes)));
    }
    Ok(None)
}

/// Copies between a container in a virtual machine and this machine.
pub(super) fn pass(
    home: &Home,
    (ends, writes): (&Ends<'_>, bool),
    (request, here): (&CopyRequest, Tree<'_>),
    streams: CopyStreams<'_>,
    told: &mut dyn FnMut(u64),
) -> Result<Copied, EngineError> {
    let base = request.here.as_os_str().as_bytes();
    let source = match ends.other {
        Place::Local(path) if writes => {
            let wanted = Wanted::new(base, path);
            Some(original(here, &wanted, request.follow, &Named::Here(path))?)
        }
        _ => None,
    };
    let what = match (&source, writes) {
        (Some(source), _) => {
            let (name, contents) = source.named();
            What::Put(name, contents)
        }
        (None, true) => What::Extract,
        (None, false) => What::Pack,
    };
    let asked = Asked {
        name: ends.name.to_owned(),
        path: ends.path.to_vec(),
        what,
        follow: request.follow,
        overwrite: request.overwrite,
        archive: request.archive,
    };
    let text = serde_json::to_vec(&asked).map_err(CopyError::Asked)?;
    let (target, plan) = crate::vm::copying(home, &ends.entry, &text, writes)?;
    let mut talk = converse(target, plan)?;
    let mut copying = Copying { request, told };
    let done = match (source, talk.input.take_if(|_| writes)) {
        (Some(source), Some(mut input)) => copying.pack(&source, &mut input),
        (_, Some(mut input)) => stream(streams.input, &mut input, copying.told),
        (_, None) => match ends.other {
            Place::Local(path) => take(&talk, ends, &mut copying, (here, &Wanted::new(base, path), path)),
            _ => stream(&mut talk.output, streams.output, copying.told),
        },
    };
    // An end that the guest has a reason for is the reason here as well.
    let (code, said) = talk.finish()?;
    if code != 0 {
        let said = String::from_utf8_lossy(&said);
        let said = said.trim_end();
        return Err(CopyError::Guest(said.strip_prefix("tote: ").unwrap_or(said).to_owned()).into());
    }
    done
}

/// Puts what the guest packs on this machine.
fn take(
    talk: &Conversation,
    ends: &Ends<'_>,
    copying: &mut Copying<'_>,
    (here, wanted, given): (Tree<'_>, &Wanted, &[u8]),
) -> Result<Copied, EngineError> {
    let inside = Wanted::new(b"", ends.path);
    let input = talk.output.try_clone().map_err(CopyError::Passed)?;
    let archive = Received::begin(Box::new(input), inside.contents).map_err(CopyError::Received)?;
    let Some(archive) = archive else {
        return Ok(Copied::default());
    };
    let name = inside.name().unwrap_or_default();
    let shown = format!("{}:{}", ends.name, String::from_utf8_lossy(ends.path));
    let source = Original::received(archive, (name, inside.contents), shown);
    copying.put_here(&source, here, wanted, given)
}

/// Passes an archive on.
fn stream(from: &mut dyn Read, to: &mut dyn Write, told: &mut dyn FnMut(u64)) -> Result<Copied, EngineError> {
    let mut copied = Copied::default();
    while let Some(piece) = next(from).map_err(CopyError::Passed)? {
        copied.bytes += piece.len() as u64;
        told(piece.len() as u64);
        to.write_all(&piece).map_err(CopyError::Passed)?;
    }
    to.flush().map_err(CopyError::Passed)?;
    Ok(copied)
}

/// Reads the next piece; `None` at the end.
fn next(from: &mut dyn Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut piece = vec![0; CHUNK];
    loop {
        match from.read(&mut piece) {
            Ok(length) => {
                piece.truncate(length);
                return Ok(Some(piece).filter(|piece| !piece.is_empty()));
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Does what the host asks for, in the guest: `root` is the container's, and the archive is on a standard stream.
///
/// # Errors
/// The reason, in one line.
pub(crate) fn copy_in_guest(asked: &[u8], root: OwnedFd) -> Result<(), String> {
    let asked: Asked = serde_json::from_slice(asked).map_err(|error| error.to_string())?;
    let inside = Inside::of_guest(root, &asked.name);
    let request = CopyRequest {
        follow: asked.follow,
        overwrite: asked.overwrite,
        archive: asked.archive,
        ..CopyRequest::default()
    };
    let wanted = Wanted::new(b"", &asked.path);
    let mut copying = Copying {
        request: &request,
        told: &mut |_| (),
    };
    let done = match &asked.what {
        What::Extract => copying.unpack(&mut std::io::stdin().lock(), &inside, &wanted),
        What::Put(name, contents) => {
            let archive = Received::begin(Box::new(std::io::stdin()), *contents);
            let archive = archive.map_err(|error| EngineError::from(CopyError::Received(error)));
            archive.and_then(|archive| {
                let Some(archive) = archive else {
                    return Ok(Copied::default());
                };
                let shown = String::from_utf8_lossy(name).into_owned();
                let source = Original::received(archive, (name, *contents), shown);
                copying.put_inside(&source, &inside, &wanted)
            })
        }
        What::Pack => original(inside.tree(), &wanted, asked.follow, &Named::Inside(&inside))
            .map_err(EngineError::from)
            .and_then(|found| copying.pack(&found, &mut std::io::stdout().lock())),
    };
    if asked.what != What::Pack {
        // What follows the archive is not of interest, but its writer does not fail.
        best_effort(std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    }
    done.map(drop).map_err(|error| chain(&error))
}
