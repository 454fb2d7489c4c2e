//! Changes of a container that is in a virtual machine: its guest reads them, and what it says comes as a list or as a layer.
//!
//! ```text
//! running: this machine ── order ──► guest, which reads the disks beside the container ── list or layer ──► this machine
//! stopped: this machine boots a machine with the container's disks and without its program, which gets the same order
//! ```
//! The guest is an enemy: its layer is an archive of unknown origin, and its list has a limit.

use super::ContainerError;
use super::container::Container;
use super::differences::{Changed, Differences, foreign, without};
use super::layer::pack_differences;
use super::merged::{Changes, Content};
use crate::container::{Stillness, keep_still};
use crate::exec::Conversation;
use crate::vm::{self, VmFault};
use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Error, Read, Write};
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tote_archive::{Change, EntryPath, Kind, Limits, Reader, Status, WalkError};
use tote_guest::Disks;
use tote_store::{Ingest, Layer};

/// Most bytes of a list that are read.
const LONGEST: u64 = 256 << 20;

/// Buffer of the guest's outputs, in bytes.
const BUFFER: usize = 64 << 10;

/// Letters of a list.
const LETTERS: [(u8, Status); 3] = [
    (b'A', Status::Added),
    (b'C', Status::Changed),
    (b'D', Status::Deleted),
];

/// Kind of what the guest says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A letter and a path for each change, with a byte of zeros behind it.
    List,
    /// An archive; nothing at all if there are no changes.
    Layer {
        /// True if the container's writes wait meanwhile.
        holds: bool,
    },
}

/// Question to the guest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Short id of the container.
    id: String,
    what: What,
    /// Paths that are not the container's own.
    foreign: Vec<Vec<u8>>,
}

/// Answer of a guest that is still to be read.
#[derive(Debug)]
pub struct GuestChanges {
    /// Short id of the container.
    id: String,
    /// The process that passes on what the guest says; `None` for a container that has never written.
    talk: Option<Conversation>,
    /// True once everything has been read.
    has_ended: Arc<AtomicBool>,
    /// A stopped container, which stays so.
    _still: Option<Stillness>,
}

impl GuestChanges {
    /// Asks the guest of a container that is in a virtual machine; `None` for another one. The process must have one thread, and be
    /// in the caller's own user namespace.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn ask(home: &Home, container: &Container, what: What) -> Result<Option<Self>, EngineError> {
        if !vm::is_in_vm(&container.entry.container) {
            return Ok(None);
        }
        let id = container.id.short().to_owned();
        if container.entry.container.is_infra() {
            return Err(ContainerError::Infra(id).into());
        }
        let options = container.entry.container.run_options()?;
        if options.tmpfs_size.is_some() && !options.read_only {
            return Err(ContainerError::InGuest(id).into());
        }
        let foreign = foreign(container)?;
        let asked = Asked {
            id: id.clone(),
            what,
            foreign: foreign.iter().map(|path| path.as_bytes().to_vec()).collect(),
        };
        let mut changes = Self {
            id,
            talk: None,
            has_ended: Arc::default(),
            _still: None,
        };
        // A container has its disk from its first start on.
        let disk = container.dir.join("disk");
        let has_written = disk.try_exists();
        if has_written.map_err(EngineError::file("look at", &disk))? {
            let asked = serde_json::to_vec(&asked).map_err(VmFault::Description)?;
            changes.begin(home, container, (what, &asked))?;
        }
        Ok(Some(changes))
    }

    fn begin(
        &mut self,
        home: &Home,
        container: &Container,
        (what, asked): (What, &[u8]),
    ) -> Result<(), EngineError> {
        let holds = what == What::Layer { holds: true };
        match keep_still(home, &container.entry)? {
            None => {
                let entry = crate::container::find(home, container.id.as_str())?;
                if entry.state.paused {
                    return Err(ContainerError::PausedGuest(self.id.clone()).into());
                }
                self.talk = Some(vm::at_disks(home, &entry, holds, asked)?);
            }
            Some(still) => {
                self.talk = Some(vm::at_disks_of_still(home, still.entry(), asked)?);
                self._still = Some(still);
            }
        }
        Ok(())
    }

    /// Tells each change.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn list(self, each: &mut dyn FnMut(Changed)) -> Result<(), EngineError> {
        let done = self.output().and_then(|output| {
            let mut listed = BufReader::with_capacity(BUFFER, output.take(LONGEST));
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = listed.read_until(0, &mut line);
                if read.map_err(|source| self.unread(source))? == 0 {
                    let is_whole = self.has_ended.load(Ordering::Relaxed);
                    let cut = || self.guest("it lists more changes than can be").into();
                    return is_whole.then_some(()).ok_or_else(cut);
                }
                let changed = parse(&line).ok_or_else(|| self.guest("its list of changes is not one"))?;
                each(changed);
            }
        });
        self.finish(done)
    }

    /// Adds the changes to the store, as any archive; `None` without any.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn layer(self, ingest: &Ingest<'_>) -> Result<Option<Layer>, EngineError> {
        let done = self.output().and_then(|mut output| {
            let mut first = [0];
            let read = output.read(&mut first).map_err(|source| self.unread(source))?;
            let rest = (&first[..read]).chain(output);
            let layer = (read > 0).then(|| ingest.add_layer(rest, Limits::default()));
            Ok(layer.transpose()?)
        });
        self.finish(done)
    }

    /// Hands the changes of a layer on to `pack`.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn pass(self, pack: impl FnOnce(Changes) -> Result<(), EngineError>) -> Result<(), EngineError> {
        let done = self.output().and_then(|mut output| {
            let mut first = [0];
            let read = output.read(&mut first).map_err(|source| self.unread(source))?;
            let input = std::io::Cursor::new(first[..read].to_vec()).chain(output);
            let reader = (read > 0).then(|| Reader::new(input, Limits::default()));
            pack(received(reader))
        });
        self.finish(done)
    }

    fn output(&self) -> Result<Output, EngineError> {
        let file = self.talk.as_ref().map(|talk| talk.output.try_clone()).transpose();
        Ok(Output {
            file: file.map_err(|source| self.unread(source))?,
            has_ended: Arc::clone(&self.has_ended),
        })
    }

    /// Waits for the end of the guest's answer. An end that the guest has a reason for is the reason here as well.
    fn finish<T>(mut self, done: Result<T, EngineError>) -> Result<T, EngineError> {
        let Some(talk) = self.talk.take() else { return done };
        if !self.has_ended.load(Ordering::Relaxed) {
            // A guest that goes on for ever is not waited for.
            talk.kill();
            talk.finish()?;
            return done;
        }
        match talk.finish()? {
            (0, _) => done,
            (_, said) if said.is_empty() => {
                Err(self.guest("its virtual machine was killed meanwhile").into())
            }
            (_, said) => Err(self.guest(&VmFault::said(&said)).into()),
        }
    }

    fn unread(&self, source: Error) -> ContainerError {
        self.guest(&source.to_string())
    }

    fn guest(&self, reason: &str) -> ContainerError {
        ContainerError::Guest {
            id: self.id.clone(),
            reason: reason.to_owned(),
        }
    }
}

impl Drop for GuestChanges {
    fn drop(&mut self) {
        if let Some(talk) = self.talk.take() {
            talk.kill();
            // Its reason is of no interest any more.
            tote_sys::best_effort(talk.finish());
        }
    }
}

/// Words of the guest, and a note of their end.
#[derive(Debug)]
struct Output {
    file: Option<File>,
    has_ended: Arc<AtomicBool>,
}

impl Read for Output {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.file.as_mut().map_or(Ok(0), |file| file.read(buffer))?;
        if length == 0 && !buffer.is_empty() {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        Ok(length)
    }
}

/// Reads an entry of a list.
fn parse(line: &[u8]) -> Option<Changed> {
    let (letter, path) = line.strip_suffix(&[0])?.split_first()?;
    let (_, status) = LETTERS.into_iter().find(|(known, _)| known == letter)?;
    let path = EntryPath::parse(path).ok().filter(|path| !path.is_root())?;
    Some(Changed {
        status,
        path: path.to_string(),
    })
}

/// Returns the changes of a layer, whose paths have to come in their order.
fn received<R: Read + 'static>(reader: Option<Reader<R>>) -> Changes {
    let reader = Rc::new(RefCell::new(reader));
    let mut last = EntryPath::root();
    Box::new(std::iter::from_fn(move || {
        let next = match reader.borrow_mut().as_mut()?.next_change() {
            Ok(change) => change?,
            Err(error) => return Some(Err(unreadable(&last, error))),
        };
        let path = next.path().clone();
        if path <= last {
            let error = Error::other("it is not in its place among the others");
            return Some(Err(unreadable(&path, error)));
        }
        last = path;
        let is_file = matches!(&next, Change::Add(entry) if matches!(entry.kind, Kind::File { .. }));
        let content = is_file.then(|| Box::new(Piece(Rc::clone(&reader))) as Content);
        Some(Ok((next, content)))
    }))
}

fn unreadable(path: &EntryPath, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> WalkError {
    WalkError::Content {
        path: path.clone(),
        source: Error::other(error),
    }
}

/// Content of the entry that was read last.
struct Piece<R>(Rc<RefCell<Option<Reader<R>>>>);

impl<R: Read> Read for Piece<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0
            .borrow_mut()
            .as_mut()
            .map_or(Ok(0), |reader| reader.read(buffer))
    }
}

/// Answers a question in the guest, by the standard output.
///
/// # Errors
/// The reason, in one line.
pub fn answer(asked: &[u8], disks: Disks) -> Result<(), String> {
    let asked: Asked = serde_json::from_slice(asked).map_err(|error| error.to_string())?;
    let Some(upper) = disks.upper else { return Ok(()) };
    let foreign = asked
        .foreign
        .iter()
        .filter_map(|path| EntryPath::parse(path).ok());
    let all: Differences = Box::new(tote_archive::diff(Some(disks.image.as_fd()), upper.as_fd()));
    let mut changes = without(all, foreign.collect()).peekable();
    if changes.peek().is_none() {
        return Ok(());
    }
    let out = BufWriter::with_capacity(BUFFER, std::io::stdout().lock());
    match asked.what {
        What::List => list(changes, out),
        What::Layer { .. } => {
            pack_differences(&asked.id, Box::new(changes), None, out).map_err(|error| tote_sys::chain(&error))
        }
    }
}

fn list(
    changes: impl Iterator<Item = Result<tote_archive::Difference, WalkError>>,
    mut out: impl Write,
) -> Result<(), String> {
    let failed = |error: Error| format!("cannot pass on the changes: {error}");
    for found in changes {
        let found = found.map_err(|error| tote_sys::chain(&error))?;
        let letter = LETTERS.into_iter().find(|(_, status)| *status == found.status);
        let letter = letter.map_or(b'C', |(letter, _)| letter);
        let line = [&[letter], found.change.path().as_bytes(), &[0]].concat();
        out.write_all(&line).map_err(failed)?;
    }
    out.flush().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tote_archive::{Entry, Writer};

    #[test]
    fn a_list_has_nothing_but_changes() {
        let changed = parse(b"Detc/a\nb\0").unwrap();
        assert_eq!(changed.status, Status::Deleted);
        assert!(!changed.path.contains('\n'), "{}", changed.path);
        for bad in [&b""[..], b"\0", b"A\0", b"X/a\0", b"A/a", b"A../a\0", b"A/\0"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    fn archive(paths: &[&str]) -> Reader<std::io::Cursor<Vec<u8>>> {
        let mut writer = Writer::new(Vec::new());
        for path in paths {
            let size = path.len() as u64;
            let entry = Entry::new(EntryPath::parse(path.as_bytes()).unwrap(), Kind::File { size });
            writer.change(&Change::Add(entry)).unwrap();
            writer.write_all(path.as_bytes()).unwrap();
        }
        Reader::new(std::io::Cursor::new(writer.finish().unwrap()), Limits::default())
    }

    #[test]
    fn a_layer_comes_in_order_or_not_at_all() {
        let mut seen = Vec::new();
        for found in received(Some(archive(&["a", "a/b", "c"]))) {
            let (change, content) = found.unwrap();
            let mut text = String::new();
            // The third one comes whether the second is read or not.
            if change.path().to_string() != "/a/b" {
                content.unwrap().read_to_string(&mut text).unwrap();
            }
            seen.push((change.path().to_string(), text));
        }
        let expected = [("/a", "a"), ("/a/b", ""), ("/c", "c")];
        assert_eq!(
            seen,
            expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
        );
        for wrong in [&["b", "a"][..], &["a", "a"], &["a/b", "a"]] {
            let failed = received(Some(archive(wrong))).find_map(Result::err).unwrap();
            assert!(tote_sys::chain(&failed).contains("not in its place"), "{failed}");
        }
        let cut = archive(&["a"]).into_parts().0.into_inner();
        let cut = std::io::Cursor::new(cut[..cut.len() / 2 - 100].to_vec());
        let mut cut = received(Some(Reader::new(cut, Limits::default())));
        let failed = cut.find_map(|found| match found {
            Ok((_, Some(mut content))) => content.read_to_end(&mut Vec::new()).err().map(|_| ()),
            Ok(_) => None,
            Err(_) => Some(()),
        });
        assert!(failed.is_some(), "an archive that ends too early");
        assert!(received(None::<Reader<std::io::Empty>>).next().is_none());
    }
}
