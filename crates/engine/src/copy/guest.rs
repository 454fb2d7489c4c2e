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
use crate::exec::Conversation;
use crate::vm::{StillMachine, VmFault};
use crate::{Caller, EngineError, Home};
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

/// End of a copy that is in a container of a virtual machine.
pub(super) struct End<'a> {
    pub(super) entry: Entry,
    /// Name of the container and path in it, as given.
    name: &'a str,
    pub(super) path: &'a [u8],
}

/// Ends of a copy, at least one of which is in a virtual machine.
pub(super) struct Ends<'a> {
    pub(super) from: Option<End<'a>>,
    pub(super) to: Option<End<'a>>,
    places: (&'a Place, &'a Place),
}

/// Returns the ends of a copy in which a container in a virtual machine takes part.
pub(super) fn ends<'a>(home: &Home, places: (&'a Place, &'a Place)) -> Result<Option<Ends<'a>>, EngineError> {
    let end = |place: &'a Place| -> Result<Option<End<'a>>, EngineError> {
        let Place::Container { name, path } = place else {
            return Ok(None);
        };
        let entry = crate::container::find(home, name)?;
        let is_in_vm = crate::vm::is_in_vm(&entry.container);
        Ok(is_in_vm.then_some(End { entry, name, path }))
    };
    let (from, to) = (end(places.0)?, end(places.1)?);
    let is_any = from.is_some() || to.is_some();
    Ok(is_any.then_some(Ends { from, to, places }))
}

/// Guest that copies, and its machine if that is only for this.
struct Guest {
    talk: Conversation,
    machine: Option<StillMachine>,
}

impl Guest {
    fn ask(
        home: &Home,
        end: &End<'_>,
        (what, machine): (What, Option<&StillMachine>),
        request: &CopyRequest,
    ) -> Result<Self, EngineError> {
        let writes = what != What::Pack;
        let asked = Asked {
            name: end.name.to_owned(),
            path: end.path.to_vec(),
            what,
            follow: request.follow,
            overwrite: request.overwrite,
            archive: request.archive,
        };
        let text = serde_json::to_vec(&asked).map_err(CopyError::Asked)?;
        let (talk, machine) = crate::vm::copying(home, &end.entry, (&text, writes), machine)?;
        Ok(Self { talk, machine })
    }

    /// Gives the guest its archive.
    fn give(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> Result<Copied, EngineError>,
    ) -> Result<Copied, EngineError> {
        let input = self.talk.input.take();
        input.map_or_else(|| Ok(Copied::default()), |mut input| write(&mut input))
    }

    /// Waits for the end of its work, and of its machine. An end that the guest has a reason for is the reason here as well.
    fn finish<T>(self, done: Result<T, EngineError>) -> Result<T, EngineError> {
        let (code, said) = self.talk.finish()?;
        if code != 0 {
            return Err(CopyError::Guest(VmFault::said(&said)).into());
        }
        let done = done?;
        self.machine.map_or(Ok(()), StillMachine::end)?;
        Ok(done)
    }
}

/// Makes this process root of the ids that a container's files have here, as for every other container. No guest can be asked after that.
fn enter_owners(home: &Home) -> Result<(), EngineError> {
    if home.caller != Caller::User {
        return Ok(());
    }
    if tote_images::ranges(0, 0).is_some() {
        Ok(tote_images::enter_ids(home)?)
    } else {
        Ok(tote_images::enter_one_id()?)
    }
}

/// Copies between a container in a virtual machine and something else.
pub(super) fn pass(
    home: &Home,
    ends: &Ends<'_>,
    (request, here): (&CopyRequest, Tree<'_>),
    streams: CopyStreams<'_>,
    told: &mut dyn FnMut(u64),
) -> Result<Copied, EngineError> {
    let mut copying = Copying { request, told };
    match (&ends.from, &ends.to) {
        (Some(from), Some(to)) => across(home, (from, to), &mut copying),
        (Some(from), None) => out(home, (from, ends.places.1), &mut copying, (here, streams.output)),
        (None, Some(to)) => into(home, (ends.places.0, to), &mut copying, (here, streams.input)),
        (None, None) => Err(CopyError::NoContainer.into()),
    }
}

/// Copies from one machine to another one, or within one.
fn across(
    home: &Home,
    (from, to): (&End<'_>, &End<'_>),
    copying: &mut Copying<'_>,
) -> Result<Copied, EngineError> {
    let request = copying.request;
    let (name, contents) = named(&Wanted::new(b"", from.path));
    let mut source = Guest::ask(home, from, (What::Pack, None), request)?;
    let mut target = Guest::ask(
        home,
        to,
        (What::Put(name, contents), source.machine.as_ref()),
        request,
    )?;
    let done = target.give(|input| stream(&mut source.talk.output, input, copying.told));
    // What the source has to say explains what the target says; its machine may be the target's.
    let machine = source.machine.take();
    let done = source.finish(done);
    if done.is_err() {
        target.talk.kill();
        return done;
    }
    let done = target.finish(done)?;
    machine.map_or(Ok(()), StillMachine::end)?;
    Ok(done)
}

/// Copies out of a machine.
fn out(
    home: &Home,
    (from, to): (&End<'_>, &Place),
    copying: &mut Copying<'_>,
    (here, output): (Tree<'_>, &mut dyn Write),
) -> Result<Copied, EngineError> {
    let mut guest = Guest::ask(home, from, (What::Pack, None), copying.request)?;
    let base = copying.request.here.as_os_str().as_bytes();
    let done = match to {
        Place::Stream => stream(&mut guest.talk.output, output, copying.told),
        Place::Local(path) => enter_owners(home).and_then(|()| {
            let Some(source) = received(&guest, from)? else {
                return Ok(Copied::default());
            };
            copying.put_here(&source, here, &Wanted::new(base, path), path)
        }),
        Place::Container { name, path } => Inside::open(home, name, true).and_then(|inside| {
            inside.enter_ids(home)?;
            let Some(source) = received(&guest, from)? else {
                return Ok(Copied::default());
            };
            copying.put_inside(&source, &inside, &Wanted::new(b"", path))
        }),
    };
    guest.finish(done)
}

/// Copies into a machine.
fn into(
    home: &Home,
    (from, to): (&Place, &End<'_>),
    copying: &mut Copying<'_>,
    (here, input): (Tree<'_>, &mut dyn Read),
) -> Result<Copied, EngineError> {
    let request = copying.request;
    let put = |wanted: &Wanted| {
        let (name, contents) = named(wanted);
        Guest::ask(home, to, (What::Put(name, contents), None), request)
    };
    match from {
        Place::Stream => {
            let mut guest = Guest::ask(home, to, (What::Extract, None), request)?;
            let done = guest.give(|to| stream(input, to, copying.told));
            guest.finish(done)
        }
        Place::Local(path) => {
            let wanted = Wanted::new(request.here.as_os_str().as_bytes(), path);
            let source = original(here, &wanted, request.follow, &Named::Here(path))?;
            let mut guest = put(&wanted)?;
            let done =
                enter_owners(home).and_then(|()| guest.give(|mut input| copying.pack(&source, &mut input)));
            guest.finish(done)
        }
        Place::Container { name, path } => {
            let inside = Inside::open(home, name, false)?;
            let wanted = Wanted::new(b"", path);
            let mut guest = put(&wanted)?;
            inside.enter_ids(home)?;
            let source = original(inside.tree(), &wanted, request.follow, &Named::Inside(&inside))?;
            let done = guest.give(|mut input| copying.pack(&source, &mut input));
            guest.finish(done)
        }
    }
}

/// Returns the name of a source, and whether only its entries are copied.
fn named(wanted: &Wanted) -> (Vec<u8>, bool) {
    let name = wanted.name().unwrap_or_default().to_vec();
    let contents = wanted.contents || name.is_empty();
    (name, contents)
}

/// Returns the source that a guest packs; `None` if that is nothing.
fn received(guest: &Guest, from: &End<'_>) -> Result<Option<Original>, CopyError> {
    let inside = Wanted::new(b"", from.path);
    let input = guest.talk.output.try_clone().map_err(CopyError::Passed)?;
    let archive = Received::begin(Box::new(input), inside.contents).map_err(CopyError::Received)?;
    let name = inside.name().unwrap_or_default();
    let shown = format!("{}:{}", from.name, String::from_utf8_lossy(from.path));
    Ok(archive.map(|archive| Original::received(archive, (name, inside.contents), shown)))
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
