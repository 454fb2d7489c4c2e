//! Entries into an archive, and the archive into the store.

use super::ContainerError;
use super::differences::{Differences, walk_failed};
use crate::EngineError;
use std::error::Error;
use std::io::{BufWriter, ErrorKind, PipeWriter, Read, Write};
use tote_archive::{Change, Kind, Shift, Writer};
use tote_store::{Ingest, Layer, Limits};

/// Size of a pipe in bytes.
const BUFFER: usize = 64 << 10;

/// An archive that is being written.
#[derive(Debug)]
pub struct Pack<W: Write> {
    writer: Writer<W>,
    container: String,
    shift: Option<Shift>,
}

impl<W: Write> Pack<W> {
    /// Packs changes of the container with this id into that output.
    pub fn new(container: &str, out: W) -> Self {
        Self {
            writer: Writer::new(out),
            container: container.to_owned(),
            shift: None,
        }
    }

    /// Takes the owners of what is added for those of a container whose caller keeps these ids, and packs the ones that
    /// the container sees.
    #[must_use]
    pub fn shifted(mut self, shift: Option<Shift>) -> Self {
        self.shift = shift;
        self
    }

    fn failed(&self, source: tote_archive::WriteError) -> ContainerError {
        ContainerError::Write {
            id: self.container.clone(),
            source,
        }
    }

    /// Adds a change, with the content of the file that it may be.
    pub fn add(&mut self, change: &Change, content: Option<impl Read>) -> Result<(), ContainerError> {
        let written = match (self.shift, change) {
            (Some(shift), Change::Add(entry)) => {
                let mut entry = entry.clone();
                shift.restore(&mut entry);
                self.writer.change(&Change::Add(entry))
            }
            _ => self.writer.change(change),
        };
        written.map_err(|source| self.failed(source))?;
        if let (Change::Add(entry), Some(content)) = (change, content)
            && let Kind::File { size } = entry.kind
        {
            // A file that grows meanwhile keeps the size that it had; one that shrinks is an error of the archive's.
            let copied = std::io::copy(&mut content.take(size), &mut self.writer);
            copied.map_err(|source| ContainerError::Content {
                path: entry.path.to_string(),
                source,
            })?;
        }
        Ok(())
    }

    /// Ends the archive.
    pub fn finish(self) -> Result<(), ContainerError> {
        let id = self.container;
        let mut out = self.writer.finish().map_err(|source| ContainerError::Write {
            id: id.clone(),
            source,
        })?;
        out.flush().map_err(|source| ContainerError::Content {
            path: format!("what container {id} changed"),
            source,
        })
    }
}

/// Packs differences as they are: a layer.
pub fn pack_differences(
    container: &str,
    differences: Differences,
    shift: Option<Shift>,
    out: impl Write,
) -> Result<(), ContainerError> {
    let mut pack = Pack::new(container, out).shifted(shift);
    for found in differences {
        let found = found.map_err(|source| walk_failed(container, source))?;
        pack.add(&found.change, found.content)?;
    }
    pack.finish()
}

/// Adds the layer that `write` writes. A thread writes while this one hashes and stores.
///
/// # Errors
/// The writer's, or the store's where that one gave up first.
pub fn add_layer<E: Into<EngineError> + Send>(
    ingest: &Ingest<'_>,
    write: impl FnOnce(BufWriter<PipeWriter>) -> Result<(), E> + Send,
) -> Result<Layer, EngineError> {
    let (reader, writer) = std::io::pipe().map_err(ContainerError::Pipe)?;
    std::thread::scope(|scope| {
        let writing = std::thread::Builder::new()
            .spawn_scoped(scope, || write(BufWriter::with_capacity(BUFFER, writer)))
            .map_err(ContainerError::Thread)?;
        let layer = ingest.add_layer(reader, Limits::default());
        let written = writing
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // The archive's end alone does not say that it is whole.
        match written.map_err(Into::into) {
            // The store gave up first, and why is its own to say.
            Err(error) if layer.is_err() && is_broken_pipe(&error) => Ok(layer?),
            Err(error) => Err(error),
            Ok(()) => Ok(layer?),
        }
    })
}

fn is_broken_pipe(error: &EngineError) -> bool {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |&error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == ErrorKind::BrokenPipe)
}
